"""Products of a web shop, read from WebShop's files: items, attributes, human instructions.

Owns the three files' schema and what the shop derives from a row (title, price tag, options). Leaves out
goals (goals.py), search (index.py) and pages. A file of a million items is read piece by piece: what is
kept is the derived product alone, never the file's own rows.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roleagent_lite.errors import ConfigError

NO_ATTRIBUTE = "DUMMY_ATTR"
NO_PRICE = 100.0
LONGEST_ASIN = 10
_CHUNK = 1 << 20  # characters read at once
_LARGEST = 8 << 20  # characters of one item; a real one has a few thousand


@dataclass(frozen=True, slots=True)
class Product:
    """What the shop shows and scores. `pricing`: one price, or the two ends of a range, in dollars."""

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    price_tag: str
    pricing: tuple[float, ...]
    options: Mapping[str, tuple[str, ...]]
    query: str
    category: str
    product_category: str
    attributes: tuple[str, ...]

    @property
    def document(self) -> str:
        """What search reads: title, description, first bullet, and the options with their values."""
        choices = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        first = self.bullets[0] if self.bullets else ""
        return " ".join((self.title, self.description, first, choices)).lower()


def rows_in(path: Path) -> Iterator[Any]:
    """The members of a JSON array, one by one, or of JSON lines. Raises ConfigError where it is neither."""
    decoder = json.JSONDecoder()
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = more = file.read(_CHUNK)
            while more and not text.strip():
                text = more = file.read(_CHUNK)
            text, ended = text.lstrip(), False
            array = text.startswith("[")
            at = 1 if array else 0
            while True:
                at = _skip(text, at)
                if at >= len(text) and ended:
                    return
                if array and at < len(text) and text[at] == "]":
                    return
                found = _member(decoder, text, at, ended) if at < len(text) else None
                if found is not None:
                    yield found[0]
                    at = found[1]
                    continue
                if ended or len(text) - at > _LARGEST:
                    raise ValueError(f"no JSON value where one should be: {text[at : at + 40]!r}")
                more = file.read(_CHUNK)
                text, at, ended = text[at:] + more, 0, not more
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is no list of products in JSON: {error}") from None


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def _member(decoder: json.JSONDecoder, text: str, at: int, ended: bool) -> tuple[Any, int] | None:
    """The value that begins at `at` and where it ends; None where the text read so far may cut it off."""
    try:
        value, end = decoder.raw_decode(text, at)
    except ValueError:
        return None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    whole = ended or text[at] in '{["' or (end < len(text) and text[end] in " \t\r\n,]")
    return (value, end) if whole else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _pricing(given: Any, asin: str) -> tuple[tuple[float, ...], str]:
    """(prices, price tag) of a text such as "$20.00$35.99"; no price is 100 dollars."""
    if not given:
        return (NO_PRICE,), f"${NO_PRICE}"
    try:
        prices = [float(re.sub(r"[^\d.]", "", part)) for part in _text(given).split("$")[1:]]
        if len(prices) == 1:
            return (prices[0],), f"${prices[0]}"
        return (prices[0], prices[1]), f"${prices[0]} to ${prices[1]}"
    except (ValueError, IndexError):
        raise ConfigError(f"product {asin}: pricing {given!r:.60} is no price such as $12.50") from None


def _options(given: Any) -> dict[str, tuple[str, ...]]:
    options: dict[str, tuple[str, ...]] = {}
    if given and not isinstance(given, Mapping):
        raise TypeError(f"customization_options must be an object, found {type(given).__name__}")
    for name, contents in (given or {}).items():
        if contents is not None:
            values = (str(content["value"]).strip().replace("/", " | ").lower() for content in contents)
            options[name.lower()] = tuple(values)
    return options


def derive(row: Mapping[str, Any], attributes: Mapping[str, Any]) -> Product:
    """A product as the shop has it. Raises ConfigError that names the asin and what is missing."""
    asin = row["asin"]
    try:
        bullets = row["small_description"]
        pricing, tag = _pricing(row.get("pricing"), asin)
        known = attributes.get(asin) or {}
        return Product(
            asin=asin,
            title=_text(row["name"]),
            description=_text(row["full_description"]),
            bullets=tuple(map(_text, bullets if isinstance(bullets, list) else [bullets])),
            price_tag=tag,
            pricing=pricing,
            options=_options(row["customization_options"]),
            query=_text(row["query"]).lower().strip(),
            category=_text(row["category"]),
            product_category=_text(row["product_category"]),
            attributes=tuple(known.get("attributes", (NO_ATTRIBUTE,))),
        )
    except KeyError as error:
        raise ConfigError(f"product {asin} lacks {error}; it has {', '.join(map(str, row))}") from None
    except (AttributeError, TypeError) as error:
        raise ConfigError(f"product {asin} cannot be read: {error}") from None


def read_products(
    rows: Iterable[Any], attributes: Mapping[str, Any], limit: int | None = None
) -> list[Product]:
    """Products in order of file: without the asin "nan", one over 10 letters, or one that came before.

    limit: of the rows that are read, as the original counts.
    """
    products: list[Product] = []
    seen: set[str] = set()
    for number, row in enumerate(rows):
        if limit is not None and number >= limit:
            break
        if not isinstance(row, Mapping) or not isinstance(row.get("asin"), str):
            raise ConfigError(f"product number {number + 1} is no object with an asin: {str(row)[:60]}")
        asin = row["asin"]
        if asin == "nan" or len(asin) > LONGEST_ASIN or asin in seen:
            continue
        seen.add(asin)
        products.append(derive(row, attributes))
    return products


def draw_prices(products: Sequence[Product], rng: random.Random) -> dict[str, float]:
    """What each product costs at the till: its price, or a draw between the ends of its range."""
    return {
        p.asin: p.pricing[0] if len(p.pricing) == 1 else rng.uniform(p.pricing[0], p.pricing[1])
        for p in products
    }


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object by asin. Raises ConfigError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} must be an object by asin, found {type(found).__name__}")
    return found
