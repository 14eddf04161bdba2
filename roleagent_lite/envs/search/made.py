"""A made-up world of regions, towns, rivers and people, its passages, and questions of 1 to 4 hops over them.

Everything is drawn from one seed; every name is invented, so that no model knows an answer beforehand. Each
question carries the ids of the passages that lead to its answer, in order, and what to search for at each
hop. Owns the graph, the templates and the questions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from roleagent_lite.envs.search.protocol import Passage

SEED = 11
COUNTS = {
    "region": 24,
    "river": 36,
    "town": 96,
    "school": 60,
    "person": 180,
    "firm": 72,
    "bridge": 48,
    "book": 90,
}
EACH = 36  # questions of each form
_WORDS = {
    "heads": "Bal Cor Dem Eld Fal Gren Hol Ist Jar Kel Lum Mor Nev Orl Pras Quil Rav Sel Tarn Ulm Vos "
    "Wend Yar Zel",
    "mids": "a e i o u an er il om ur and est ith oll",
    "first": "Adela Bram Celia Dorin Edith Falk Greta Hugo Ilse Jonas Kara Lorenz Mina Nils Olga Pavel "
    "Renata Stellan Tilda Ulrich Vera Wim Xenia Yannick Zora",
    "region": "mark shire land moor reach",
    "river": "water brook bourne run",
    "town": "ford ton wick stead haven bridge",
    "person": "well man by son worth",
    "firm": "er dane low est",
    "school": "dale ham cote",
}
_GOODS = ("clocks", "rope", "lanterns", "gloves", "ink", "bells", "saddles", "lenses", "kites", "oars")
_TRADES = ("chemist", "surveyor", "composer", "printer", "botanist", "glazier", "engineer", "painter")


@dataclass(slots=True)
class Thing:
    """One node: its kind, name, and facts by relation (a name, a year, or another thing)."""

    id: str
    kind: str
    name: str
    has: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """`supporting`: ids of passages in the order of the chain; `searches`: what to look for at each hop."""

    text: str
    answers: tuple[str, ...]
    supporting: tuple[str, ...]
    searches: tuple[str, ...]
    kind: str

    @property
    def hops(self) -> int:
        return len(self.supporting)


class _Names:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._taken: set[str] = set()

    def new(self, kind: str) -> str:
        parts = [_WORDS[part].split() for part in ("heads", "mids", kind)]
        while True:
            name = "".join(map(self._rng.choice, parts))
            first = self._rng.choice(_WORDS["first"].split())
            name = {
                "person": f"{first} {name.capitalize()}", "river": f"River {name.capitalize()}",
                "firm": f"{name.capitalize()} & Company", "school": f"{name.capitalize()} School",
            }.get(kind, name.capitalize())  # fmt: skip
            if name not in self._taken:
                self._taken.add(name)
                return name


def _graph(rng: random.Random) -> dict[str, list[Thing]]:
    names, number = _Names(rng), 0
    things: dict[str, list[Thing]] = {kind: [] for kind in COUNTS}
    for kind, count in COUNTS.items():
        for _ in range(count):
            things[kind].append(
                Thing(str(number), kind, names.new(kind) if kind not in ("bridge", "book") else "")
            )
            number += 1
    pick, year = rng.choice, rng.randint
    for region in things["region"]:
        region.has = {"founded": year(1200, 1500), "good": pick(_GOODS)}
    for river in things["river"]:
        river.has = {"length": year(40, 900), "region": pick(things["region"])}
    for town in things["town"]:
        town.has = {
            "region": pick(things["region"]),
            "river": pick(things["river"]),
            "founded": year(1300, 1700),
        }
    for region, town in zip(things["region"], rng.sample(things["town"], COUNTS["region"]), strict=True):
        town.has["region"] = region
        region.has["capital"] = town
    for school in things["school"]:
        school.has = {"town": pick(things["town"]), "founded": year(1500, 1850)}
    for person in things["person"]:
        person.has = {"town": pick(things["town"]), "school": pick(things["school"]), "trade": pick(_TRADES),
                      "born": year(1700, 1900)}  # fmt: skip
    for firm in things["firm"]:
        firm.has = {"founder": pick(things["person"]), "town": pick(things["town"]), "good": pick(_GOODS),
                    "founded": year(1750, 1930)}  # fmt: skip
    for bridge in things["bridge"]:
        bridge.has = {
            "river": pick(things["river"]),
            "engineer": pick(things["person"]),
            "opened": year(1780, 1950),
        }
        bridge.name = f"{names.new('town')} Bridge"
    for book in things["book"]:
        book.has = {
            "author": pick(things["person"]),
            "town": pick(things["town"]),
            "printed": year(1760, 1950),
        }
        book.name = f"The {pick(_TRADES).capitalize()} of {names.new('town')}"
    return things


_TEXTS: dict[str, Callable[[Thing], str]] = {
    "region": lambda t: (
        f"{t.name} is a region known for its {t.has['good']}. Its capital is {t.has['capital'].name}. "
        f"Its charter dates from {t.has['founded']}."
    ),
    "river": lambda t: f"The {t.name} is {t.has['length']} km long. It rises in {t.has['region'].name}.",
    "town": lambda t: (
        f"{t.name} is a town in {t.has['region'].name}, founded in {t.has['founded']}. It lies on the "
        f"{t.has['river'].name}."
    ),
    "school": lambda t: f"{t.name} is a school in {t.has['town'].name}. It opened in {t.has['founded']}.",
    "person": lambda t: (
        f"{t.name} (born {t.has['born']}) was a {t.has['trade']} from {t.has['town'].name}, taught at "
        f"{t.has['school'].name}."
    ),
    "firm": lambda t: (
        f"{t.name} makes {t.has['good']}. It was founded in {t.has['founded']} by "
        f"{t.has['founder'].name} and has its works in {t.has['town'].name}."
    ),
    "bridge": lambda t: (
        f"The {t.name} crosses the {t.has['river'].name}. It was built by {t.has['engineer'].name} and "
        f"opened in {t.has['opened']}."
    ),
    "book": lambda t: (
        f"{t.name} is a novel by {t.has['author'].name}, first printed in {t.has['printed']}. Its story "
        f"is set in {t.has['town'].name}."
    ),
}
# (kind of the first thing, relations to follow, words of the question with {x} for the first thing's name)
_CHAINS: Sequence[tuple[str, tuple[str, ...], str]] = (
    ("town", ("region",), "In which region is the town of {x}?"),
    ("river", ("length",), "How many kilometres long is the {x}?"),
    ("book", ("author",), "Who wrote {x}?"),
    ("book", ("author", "town"), "In which town was the author of {x} born?"),
    ("firm", ("founder", "school"), "At which school was the founder of {x} taught?"),
    ("firm", ("town", "river"), "On which river lie the works of {x}?"),
    ("bridge", ("engineer", "trade"), "What was the trade of the builder of the {x}?"),
    ("bridge", ("river", "region"), "In which region does the river that the {x} crosses rise?"),
    ("book", ("town", "region", "capital"), "What is the capital of the region in which {x} is set?"),
    ("firm", ("founder", "town", "river"), "On which river lies the town that the founder of {x} came from?"),
    ("bridge", ("engineer", "school", "founded"),
     "In which year did the school of the builder of the {x} open?"),
    ("person", ("school", "town", "region"), "In which region is the school at which {x} was taught?"),
    ("book", ("author", "school", "town", "region"),
     "In which region is the school that taught the author of {x}?"),
    ("firm", ("founder", "town", "region", "good"),
     "What is the region known for that the founder of {x} came from?"),
    ("bridge", ("engineer", "town", "region", "capital"),
     "What is the capital of the region that the builder of the {x} came from?"),
)  # fmt: skip


def _ask(start: Thing, relations: tuple[str, ...], words: str) -> Question:
    at, supporting, searches = start, [], []
    answer: Any = start
    for relation in relations:
        supporting.append(at.id)
        searches.append(at.name)
        answer = at.has[relation]
        if isinstance(answer, Thing):
            at = answer
    said = answer.name if isinstance(answer, Thing) else str(answer)
    golden = (said, said.removeprefix("River ")) if said.startswith("River ") else (said,)
    kind = f"{len(relations)} hop{'s' if len(relations) > 1 else ''}"
    return Question(words.format(x=start.name), golden, tuple(supporting), tuple(searches), kind)


def _questions(things: dict[str, list[Thing]], rng: random.Random) -> Iterator[Question]:
    for kind, relations, words in _CHAINS:
        for start in rng.sample(things[kind], EACH):
            yield _ask(start, relations, words)


def make(seed: int = SEED) -> tuple[list[Passage], list[Question]]:
    """(passages, questions) of the made-up world: 606 passages, 540 questions; always the same by seed."""
    rng = random.Random(seed)
    things = _graph(rng)
    passages = [
        Passage(thing.id, f'"{thing.name}"\n{_TEXTS[kind](thing)}')
        for kind in COUNTS
        for thing in things[kind]
    ]
    return passages, list(_questions(things, rng))
