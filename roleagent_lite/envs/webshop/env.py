"""The webshop Environment: one wish, one visit, on the made-up catalogue or a user's WebShop files.

A task's `params`: `goal` (the wish as goals.py reads it) or `session` (its number in the original's order);
`mode` text (default) or text_rich; `show_attributes`; `nouns` rule or spacy; `price_seed`; `max_steps`. The
name `webshop` means the made-up catalogue, `webshop:FOLDER` the files in a folder. The protocol is the
original's: 15 steps, `search[...]` and `click[...]`, the reward of the purchase as score, success at
exactly 1.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from roleagent_lite.envs import params
from roleagent_lite.envs.webshop import made, pages
from roleagent_lite.envs.webshop.goals import Goal, goal_from, human_goals, in_order, made_goals
from roleagent_lite.envs.webshop.index import Index
from roleagent_lite.envs.webshop.nouns import TAGGERS, tagger
from roleagent_lite.envs.webshop.products import Product, draw_prices, read_object, read_products, rows_in
from roleagent_lite.envs.webshop.shop import Shop, Stand, Visit
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Observation, Task, Transition

PREFIX = "webshop:"
STEPS = 15
MODES = ("text", "text_rich")
VOCABULARY = "search[WORDS] on any page; click[BUTTON, PRODUCT or OPTION] for what the page shows"
GOAL_WORDS = ", and price lower than"
_FILES: Mapping[str, tuple[str, ...]] = {
    "items": ("items_shuffle.json", "items_shuffle_1000.json", "items.json"),
    "attributes": ("items_ins_v2.json", "items_ins_v2_1000.json", "attributes.json"),
    "human": ("items_human_ins.json", "human.json"),
}
_SPLITS = (("test", 0, 500), ("dev", 500, 1500), ("train", 1500, None))  # WebShop's, of its human goals


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Products, what they cost, and the wishes in the order of sessions."""

    products: Mapping[str, Product]
    prices: Mapping[str, float]
    goals: tuple[Goal, ...]
    index: Index


def _catalogue(
    items: Any, attributes: Mapping[str, Any], human: Mapping[str, Any] | None, seed: int
) -> Catalogue:
    products = read_products(items, attributes)
    rng = random.Random(seed)
    prices = draw_prices(products, rng)
    if human is not None:
        goals = human_goals(products, prices, human, rng)
    else:
        goals = made_goals(products, prices, attributes, rng)
    return Catalogue({p.asin: p for p in products}, prices, tuple(in_order(goals)), Index(products))


def files_in(folder: Path) -> dict[str, Path]:
    """WebShop's files in a folder, by what they hold; the human instructions may be missing.

    Raises ConfigError that names the files looked for.
    """
    found = {
        what: next((folder / name for name in names if (folder / name).is_file()), None)
        for what, names in _FILES.items()
    }
    lacking = [
        f"{what} ({' or '.join(_FILES[what])})" for what in ("items", "attributes") if found[what] is None
    ]
    if lacking:
        raise ConfigError(
            f"webshop folder {folder} lacks {', '.join(lacking)}; WebShop's own setup script fetches them"
        )
    return {what: path for what, path in found.items() if path is not None}


def files_of(name: str) -> dict[str, Path]:
    """The files of an environment `webshop:FOLDER`. Raises ConfigError."""
    return files_in(Path(name.removeprefix(PREFIX)))


@lru_cache(maxsize=4)
def _from_files(stamps: tuple[tuple[str, str, int], ...], seed: int) -> Catalogue:
    """Files are read once for all episodes; the stamps make an edited file another one."""
    files = {what: Path(path) for what, path, _ in stamps}
    human = read_object(files["human"]) if "human" in files else None
    return _catalogue(rows_in(files["items"]), read_object(files["attributes"]), human, seed)


@lru_cache(maxsize=2)
def _made(seed: int) -> Catalogue:
    return _catalogue(*made.make(), seed)


def catalogue(name: str, seed: int = 0) -> Catalogue:
    """The catalogue of an environment's name; `seed` draws prices from ranges, and the wishes' limits."""
    if name == "webshop":
        return _made(seed)
    files = files_of(name)
    return _from_files(tuple((w, str(p), p.stat().st_mtime_ns) for w, p in sorted(files.items())), seed)


def limit(task: Task) -> int:
    """Steps an episode may have: params.max_steps, else 15."""
    return params.steps(task, STEPS)


def _goal(task: Task, goods: Catalogue) -> Goal:
    given, session = task.params.get("goal"), task.params.get("session")
    if isinstance(given, Mapping):
        return goal_from(given)
    if isinstance(session, int) and not isinstance(session, bool) and 0 <= session < len(goods.goals):
        return goods.goals[session]
    raise ConfigError(
        f"task {task.id}: params needs goal (an object) or session (0 to {len(goods.goals) - 1}), found "
        f"{_named(task)}"
    )


def _named(task: Task) -> str:
    """What a task gives for its wish, in words."""
    given = [f"{key} {task.params[key]!r:.60}" for key in ("goal", "session") if key in task.params]
    return ", ".join(given) or "neither"


def check(task: Task) -> None:
    """Raises ConfigError for params that no visit can be made of; reads no catalogue."""
    _settings(task)
    given, session = task.params.get("goal"), task.params.get("session")
    if isinstance(given, Mapping):
        goal_from(given)
    elif type(session) is not int or session < 0:
        raise ConfigError(
            f"task {task.id}: params needs goal (an object) or session (a number from 0 on), found "
            f"{_named(task)}"
        )


def _settings(task: Task) -> tuple[int, str, str, bool]:
    """price_seed, mode, nouns and show_attributes of a task."""
    return (
        params.whole(task, "price_seed", 0), params.choice(task, "mode", MODES, MODES[0]),
        params.choice(task, "nouns", list(TAGGERS), "rule"), params.flag(task, "show_attributes"),
    )  # fmt: skip


class WebShop:
    """An Environment with `facts`, `snapshot`, `restore` and a plan (`walkthrough`).

    Actions that are listed are a help, not a limit: `search[...]` works on every page, as in the original.
    """

    def __init__(self, name: str, task: Task) -> None:
        seed, mode, nouns, attributes = _settings(task)
        goods = catalogue(name, seed)
        shop = Shop(goods.products, goods.prices, goods.index.search, tagger(nouns), attributes)
        self._visit = Visit(shop, _goal(task, goods))
        self._rich = mode == "text_rich"

    @property
    def _stand(self) -> Stand:
        return self._visit.stand

    def observe(self) -> Observation:
        text = self._visit.rich_text() if self._rich else self._visit.text()
        return Observation(text, self._offered(), self._key(), open=True)

    def _offered(self) -> tuple[str, ...]:
        """Every click of the page; where there is a search bar, a search for the wish in its own words."""
        clicks = tuple(f"click[{name}]" for name in pages.clickables(self._stand.parts) if name != "search")
        if self._stand.keywords or self._stand.done:
            return clicks
        return (f"search[{self._visit.goal.instruction.partition(GOAL_WORDS)[0]}]",)

    def _key(self) -> str:
        stand = self._stand
        page = stand.url.removeprefix(self._visit.shop.address).split("/")[1]
        state = (page, stand.keywords, stand.page, stand.asin, sorted(stand.chosen.items()), stand.parts)
        return hashlib.sha256(repr(state).encode("utf-8", "replace")).hexdigest()[:16]

    def step(self, action: str) -> Transition:
        valid = self._visit.act(action)
        return Transition(self.observe(), self._stand.reward, self._stand.done, valid)

    def score(self) -> float:
        """The reward of the purchase, 0..1; 0 where nothing was bought."""
        return self._stand.bought.reward if self._stand.bought else 0.0

    def facts(self) -> list[str]:
        """Where the customer stands, in words, sorted."""
        stand = self._stand
        facts = (
            [f"searched: {' '.join(stand.keywords)}", f"results page: {stand.page}"] if stand.keywords else []
        )
        if stand.asin is not None:
            facts += [f"product: {stand.asin}", f"price: {self._visit.shop.prices[stand.asin]:.2f}"]
            facts += [f"chosen {name}: {value}" for name, value in stand.chosen.items()]
        return sorted([*facts, f"bought: {'yes' if stand.done else 'no'}"])

    def snapshot(self) -> Stand:
        return self._stand

    def restore(self, snapshot: Stand) -> None:
        self._visit.stand = snapshot

    def walkthrough(self) -> list[str]:
        """A plan that buys the wished product with its options. Raises ConfigError where search misses it."""
        goal, shop = self._visit.goal, self._visit.shop
        words = goal.name.lower()
        hits = list(shop.search(words.split(" ")))
        if goal.asin not in hits:
            raise ConfigError(f"the product {goal.asin} is not among the 50 hits for '{words}'")
        pages_on = hits.index(goal.asin) // pages.PER_PAGE
        wanted = [o if isinstance(o, str) else o[1] for o in goal.options]
        values = [v for vs in shop.products[goal.asin].options.values() for v in vs]
        return [
            f"search[{words}]",
            *[f"click[{pages.NEXT.lower()}]"] * pages_on,
            f"click[{goal.asin.lower()}]",
            *(f"click[{value.lower()}]" for value in wanted if value.lower() in values),
            f"click[{pages.BUY.lower()}]",
        ]

    def close(self) -> None:
        """Nothing to release."""


def sessions(name: str) -> Iterator[dict[str, Any]]:
    """A task a wish of a user's catalogue, by number of session.

    Splits: the original's for its human instructions (test 0-499, dev 500-1499, train from 1500) where there
    are so many; else 3 of 5 train, 1 dev, 1 test, in turn.
    """
    goals = catalogue(name).goals
    if not goals:
        raise ConfigError(
            f"environment {name}: no wish came of its files; human instructions must be of products that the "
            "items file has (by asin), and without any the products need attributes"
        )
    for number, goal in enumerate(goals):
        if len(goals) > _SPLITS[2][1]:
            split = next(s for s, low, high in _SPLITS if number >= low and (high is None or number < high))
        else:
            split = ("train", "train", "train", "dev", "test")[number % 5]
        params = {"session": number, "type": goal.category}
        yield {"id": f"session-{number}", "goal": goal.instruction, "params": params, "split": split}
