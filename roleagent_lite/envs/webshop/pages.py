"""The pages of the shop as lists of visible parts, and their two texts: `text` and `text_rich`.

Owns what each page shows, in which order, and what can be clicked on it; equal to the original's pages once
their HTML is stripped. Leaves out what a click does (shop.py).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from roleagent_lite.envs.webshop.products import Product

PER_PAGE = 10
BACK, PREV, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
SUB_PAGES = ("Description", "Features", "Reviews", "Attributes")
_SPACE = " \t\n\r\f\v"

What = Literal["text", "button", "product", "option"]


@dataclass(frozen=True, slots=True)
class Part:
    """One visible piece of text. `name`: of the option that a value belongs to."""

    text: str
    what: What = "text"
    name: str = ""


def _node(text: str) -> Iterator[str]:
    """A text as a page holds it: of white space alone a blank stays, or nothing where a line ends in it."""
    if text.strip(_SPACE):
        yield text
    elif text and "\n" not in text:
        yield " "


def _texts(*texts: str) -> Iterator[Part]:
    for text in texts:
        yield from (Part(piece) for piece in _node(text))


def _wanted(instruction: str) -> Iterator[Part]:
    yield Part("Instruction:")
    yield from _texts(instruction)


def index(instruction: str) -> list[Part]:
    return [Part("WebShop"), Part("Instruction: "), *_texts(instruction), Part("Search", "button")]


def results(instruction: str, hits: Sequence[Product], page: int) -> list[Part]:
    """A page of hits. Pages count from 1; any other number shows what the slice holds, mostly nothing."""
    parts = [*_wanted(instruction), Part(BACK, "button"), Part(f"Page {page} (Total results: {len(hits)})")]
    parts += [Part(PREV, "button")] if page > 1 else []
    parts.append(Part(NEXT, "button"))
    for product in hits[(page - 1) * PER_PAGE : page * PER_PAGE]:
        parts.append(Part(product.asin, "product"))
        parts += _texts(product.title, product.price_tag)
    return parts


def item(instruction: str, product: Product, show_attributes: bool) -> list[Part]:
    parts = [*_wanted(instruction), Part(BACK, "button"), Part(PREV, "button")]
    for name, values in product.options.items():
        parts += _texts(name)
        # A value of white space can be clicked though it shows nothing.
        parts += [Part(next(_node(value), ""), "option", name) for value in values]
    parts += _texts(product.title)
    parts += [Part(f"Price: {product.price_tag}"), Part("Rating: N.A.")]
    parts += [Part(name, "button") for name in SUB_PAGES if name != "Attributes" or show_attributes]
    return [*parts, Part(BUY, "button")]


def sub_page(instruction: str, product: Product, name: str) -> list[Part]:
    """Description, features, attributes; reviews are not in the files, so that page is empty."""
    shown: Iterable[str] = ()
    if name == "Description":
        shown = (product.description,)
    elif name == "Features":
        shown = (f" {bullet}" for bullet in product.bullets)
    elif name == "Attributes":
        kinds = (product.category, product.query, product.product_category)
        shown = (*(f" {attribute}" for attribute in product.attributes), *kinds)
    return [*_wanted(instruction), Part(BACK, "button"), Part(PREV, "button"), *_texts(*shown)]


def done(asin: str, chosen: Mapping[str, str], reward: float) -> list[Part]:
    """The page after a purchase; what the original leaves as None or empty is so here."""
    bought = json.dumps(dict(sorted(chosen.items())))
    for raw, shown in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e"), ("'", "\\u0027")):
        bought = bought.replace(raw, shown)
    words = ["Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)"]
    words += ["Purchased", "asin", asin, "options", bought, "attrs", "None", "category", "None"]
    words += ["query", "None", "product category", "None", "Target", "asin", "options", "attrs"]
    words += ["price upper", "instuction text", "category", "product category", "query", "Goal ", "None"]
    words += ["Reward", "Your score (min 0.0, max 1.0)", str(reward), "Reward Details ", "None"]
    return [Part(word) for word in words]


def clickables(parts: Sequence[Part]) -> dict[str, Part]:
    """What can be clicked: buttons, then products, both in lower case, then option values as they are.

    A value named like a button takes its place in the list; of two options with one value the last counts.
    """
    found: dict[str, Part] = {}
    for kind in ("button", "product"):
        found |= {part.text.lower(): part for part in parts if part.what == kind}
    for part in parts:
        if part.what == "option":
            found[part.text] = part
    return found


def plain(parts: Sequence[Part]) -> str:
    """The page in mode `text`."""
    return " [SEP] ".join(part.text.strip() for part in parts if part.text)


def rich(parts: Sequence[Part], visited: Collection[str], url: str) -> str:
    """The page in mode `text_rich`: buttons marked, what was clicked marked as such and named on top.

    visited: asins that were opened. url: of the page; an option counts as clicked where its value stands in
    it in double quotes (so the original does: values that JSON writes otherwise are never marked).
    """
    top, lines = "", []
    for part in parts:
        if not part.text:
            continue
        if part.what == "button":
            lines.append(f"[button] {part.text} [button_]")
        elif part.what == "option" and f'"{part.text}"' in url:
            lines.append(f"  [clicked button] {part.text} [clicked button_]")
            top = f"You have clicked {part.text}.\n{top}"
        elif part.what == "option":
            lines.append(f"  [button] {part.text} [button_]")
        elif part.what == "product":
            mark = "clicked button" if part.text in visited else "button"
            lines.append(f"\n[{mark}] {part.text} [{mark}_]")
        else:
            lines.append(part.text)
    return top + "".join(f"{line}\n" for line in lines)
