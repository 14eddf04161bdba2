"""One visit to the shop: where the customer stands, and what each action does there.

Owns the original's rules of moving (search, open, choose, go back, buy), its addresses included, since
which page a "< Prev" leaves from is read off the address. Leaves out what pages show (pages.py) and what a
purchase earns (reward.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from roleagent_lite.envs.webshop import pages
from roleagent_lite.envs.webshop.goals import Goal
from roleagent_lite.envs.webshop.pages import Part
from roleagent_lite.envs.webshop.products import Product
from roleagent_lite.envs.webshop.reward import Parts, Tagger, score

_ACTION = re.compile(r"(.+)\[(.+)\]")
_PAGE_NAMES = ("search_results", "item_page", "item_sub_page", "done")  # the first that is in an address
_SUB = {name.lower(): name for name in pages.SUB_PAGES}


@dataclass(frozen=True, slots=True)
class Stand:
    """The whole state of a visit. `page` counts from 1 on results; asin None: no product is open."""

    parts: tuple[Part, ...]
    url: str
    keywords: tuple[str, ...] = ()
    page: int = 0
    asin: str | None = None
    visited: frozenset[str] = frozenset()
    chosen: Mapping[str, str] = field(default_factory=dict)
    reward: float = 0.0
    bought: Parts | None = None
    done: bool = False


def parse(action: str) -> tuple[str, str | None]:
    """(name, argument in lower case) of `name[argument]`; (the text, None) where it has no such form."""
    found = _ACTION.match(action)
    return (found[1], found[2].lower()) if found else (action, None)


@dataclass(frozen=True, slots=True)
class Shop:
    """What every visit shares: products by asin, prices in dollars, and a search over them."""

    products: Mapping[str, Product]
    prices: Mapping[str, float]
    search: Callable[[Sequence[str]], Sequence[str]]
    tagger: Tagger
    show_attributes: bool = False
    address: str = "http://127.0.0.1:3000"


class Visit:
    """One customer with one goal. `stand` is immutable, so that keeping it is a snapshot."""

    def __init__(self, shop: Shop, goal: Goal, name: str = "0") -> None:
        self.shop = shop
        self.goal = goal
        self._name = name
        self.stand = self._home()

    def act(self, action: str) -> bool:
        """Does `name[argument]`; False where it means nothing here, and then nothing changes."""
        name, argument = parse(action)
        if name == "search" and argument:
            self.stand = self._results(tuple(argument.split(" ")), 1)
            return True
        buttons = pages.clickables(self.stand.parts)
        if name != "click" or argument is None or argument == "search" or argument not in buttons:
            self.stand = replace(self.stand, reward=0.0)
            return False
        self.stand = self._click(argument, buttons[argument])
        return True

    def _click(self, name: str, part: Part) -> Stand:
        stand = self.stand
        at = next((page for page in _PAGE_NAMES if page in stand.url), "")
        if name == pages.BUY.lower():
            return self._purchase()
        if name == pages.BACK.lower():
            return self._home()
        if name == pages.NEXT.lower() and at == "search_results":
            return self._results(stand.keywords, stand.page + 1)
        if name == pages.PREV.lower() and at == "search_results":
            return self._results(stand.keywords, stand.page - 1)
        if name == pages.PREV.lower() and at == "item_page":
            return self._results(stand.keywords, stand.page)
        if name in _SUB and not (name == pages.PREV.lower() and at == "item_sub_page"):
            return self._sub_page(_SUB[name])
        return self._item(name, part)

    def _home(self) -> Stand:
        return Stand(tuple(pages.index(self.goal.instruction)), f"{self.shop.address}/{self._name}")

    def _at(self, *place: object) -> str:
        return "/".join((self.shop.address, *map(str, place)))

    def _results(self, keywords: tuple[str, ...], page: int) -> Stand:
        hits = [self.shop.products[asin] for asin in self.shop.search(keywords)]
        parts = tuple(pages.results(self.goal.instruction, hits, page))
        url = self._at("search_results", self._name, "+".join(keywords), page)
        return Stand(parts, url, keywords, page, visited=self.stand.visited)

    def _item(self, name: str, part: Part) -> Stand:
        stand = self.stand
        asin, chosen, visited = stand.asin, stand.chosen, stand.visited
        if part.what == "product":
            asin = part.text
            visited = visited | {asin}
        elif part.what == "option":
            chosen = {**chosen, part.name.lower(): name}
        assert asin is not None  # no page before a product has a button that leads here
        parts = tuple(pages.item(self.goal.instruction, self.shop.products[asin], self.shop.show_attributes))
        place = (asin, "+".join(stand.keywords), stand.page, json.dumps(chosen))
        return replace(
            stand, parts=parts, url=self._at("item_page", self._name, *place), asin=asin, visited=visited,
            chosen=chosen, reward=0.0,
        )  # fmt: skip

    def _sub_page(self, name: str) -> Stand:
        stand = self.stand
        assert stand.asin is not None
        parts = tuple(pages.sub_page(self.goal.instruction, self.shop.products[stand.asin], name))
        place = (stand.asin, "+".join(stand.keywords), stand.page, name, dict(stand.chosen))
        return replace(stand, parts=parts, url=self._at("item_sub_page", self._name, *place), reward=0.0)

    def _purchase(self) -> Stand:
        stand = self.stand
        assert stand.asin is not None
        product, price = self.shop.products[stand.asin], self.shop.prices[stand.asin]
        earned = score(product, self.goal, price, stand.chosen, self.shop.tagger)
        return replace(
            stand, parts=tuple(pages.done(stand.asin, stand.chosen, earned.reward)),
            url=self._at("done", self._name, stand.asin, dict(stand.chosen)), reward=earned.reward,
            bought=earned, done=True,
        )  # fmt: skip

    def text(self) -> str:
        return pages.plain(self.stand.parts)

    def rich_text(self) -> str:
        return pages.rich(self.stand.parts, self.stand.visited, self.stand.url)
