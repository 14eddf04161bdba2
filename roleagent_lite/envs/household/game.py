"""A household game as data: receptacles, things, places, goal and wording; read from compact task rows.

Owns the frozen records the engine plays and the reader of `Task.params["layout"]`, which trusts nothing: a
wrong layout is a ConfigError that says what was found. Leaves out game files (problem.py) and play.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from roleagent_lite.envs.household import classes
from roleagent_lite.errors import ConfigError, nearest

# State of a thing, one bit each.
CLEAN, HOT, COOL, SLICED, TOGGLED, ON = 1, 2, 4, 8, 16, 32
STATE_FACTS = ((CLEAN, "isclean"), (HOT, "ishot"), (COOL, "iscool"), (SLICED, "issliced"),
               (TOGGLED, "istoggled"), (ON, "ison"))  # fmt: skip
ABILITIES = ("pickupable", "toggleable", "cleanable", "heatable", "coolable", "sliceable")

TASK_TYPES: dict[str, tuple[str, str]] = {
    "pick_and_place_simple": ("put a {obj} in {recep}", "put some {obj} on {recep}"),
    "look_at_obj_in_light": ("look at {obj} under the {toggle}", "examine the {obj} with the {toggle}"),
    "pick_clean_then_place_in_recep": (
        "put a clean {obj} in {recep}",
        "clean some {obj} and put it in {recep}",
    ),
    "pick_heat_then_place_in_recep": ("put a hot {obj} in {recep}", "heat some {obj} and put it in {recep}"),
    "pick_cool_then_place_in_recep": ("put a cool {obj} in {recep}", "cool some {obj} and put it in {recep}"),
    "pick_two_obj_and_place": ("put two {obj} in {recep}", "find two {obj} and put them in {recep}"),
}
DIALECTS = ("move", "put")

MAX_RECEPTACLES = 400  # ALFWorld's largest rooms have under 60 receptacles and 100 things
MAX_THINGS = 2000


@dataclass(frozen=True, slots=True)
class Receptacle:
    """`place` is an index into `Game.places`; None = it stands nowhere and cannot be reached."""

    name: str
    kind: str
    place: int | None
    openable: bool = False
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Thing:
    """`inside`: indices of receptacles; `at`: of places; `nested`: of things in it; `state`: bits above."""

    name: str
    kind: str
    abilities: frozenset[str]
    container: bool = False
    inside: tuple[int, ...] = ()
    at: tuple[int, ...] = ()
    nested: tuple[int, ...] = ()
    state: int = 0


@dataclass(frozen=True, slots=True)
class Goal:
    """`type` is one of TASK_TYPES; class names with the suffix "type", "" where the type has no such role.

    `loose_lamp`: older games ask that the lamp is at the agent's place, newer ones that its receptacle is.
    """

    type: str
    obj: str
    recep: str = ""
    toggle: str = ""
    loose_lamp: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a game words the one action that changed between versions, and arrivals."""

    verb: str = "move"
    arrive_at_place: bool = False
    put_text: str = "You move the {o} to the {r}."
    help: str | None = None


MOVE = Dialect()
PUT = Dialect("put", True, "You put the {o} in/on the {r}.")


@dataclass(frozen=True, slots=True)
class Game:
    """Everything fixed at the start of an episode. Receptacles and things are in order of display."""

    places: tuple[str, ...]
    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]
    start: int
    fits: frozenset[tuple[str, str]]
    goal: Goal
    sentence: str
    dialect: Dialect = MOVE
    agent: str = "agent1"
    held: int | None = None
    other_facts: frozenset[str] = frozenset()


_NAME = re.compile(r"([a-z][a-z0-9]{0,39}) ([1-9][0-9]{0,3})")


def _raw_class(kind: str) -> str:
    """The class part of the original's symbol: basins are parts of a sink or bathtub there."""
    return kind.removesuffix("basin") if kind in ("sinkbasin", "bathtubbasin") else kind


def display_key(name: str) -> tuple[str, int]:
    """The original's order of lists: by class, the highest number first.

    The class is compared with its separator, so that "apple" stands before "applesliced".
    """
    kind, number = name.split(" ")
    return _raw_class(kind) + "_", -int(number)


def class_of(name: str) -> str:
    return name.split(" ")[0]


class LayoutError(ConfigError):
    """A household task row is wrong."""


def _bad(what: str) -> LayoutError:
    return LayoutError(f"household task: {what}")


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _bad(f"{where} must be a lower-case class and a number such as 'mug 1', found {value!r:.60}")
    return value


def _number(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 9999:
        raise _bad(f"{where} must be a whole number from 1 to 9999, found {value!r:.60}")
    return value


def _object(value: Any, where: str, known: Iterable[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _bad(f"{where} must be an object, found {type(value).__name__}")
    names = tuple(known)
    for key in value:
        if names and key not in names:
            raise _bad(f"{where} has an unknown key {key!r:.60}{nearest(str(key), names)}")
    return value


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise _bad(f"{where} must be a list of texts, found {value!r:.60}")
    return value


def _tables(layout: Mapping[str, Any], kinds: set[str]) -> tuple[dict[str, frozenset[str]], set[str]]:
    """Abilities by class, and which classes are containers; from the row, else from our own tables."""
    given = _object(layout.get("can", {}), "layout.can", ())
    known = (*ABILITIES[1:], "container")
    table: dict[str, frozenset[str]] = {}
    for kind in kinds:
        words = _texts(given[kind], f"layout.can.{kind}") if kind in given else list(classes.can(kind))
        for word in words:
            if word not in known:
                raise _bad(f"layout.can.{kind} has {word!r:.60}{nearest(word, known)}")
        table[kind] = frozenset(words) | (frozenset() if "toggleable" in words else {"pickupable"})
    return table, {kind for kind, words in table.items() if "container" in words}


def _fits(layout: Mapping[str, Any], kinds: set[str], things: set[str]) -> frozenset[tuple[str, str]]:
    given = _object(layout.get("fits", {}), "layout.fits", ())
    pairs = {
        (r + "type", o + "type")
        for r in kinds
        for o in (_texts(given[r], f"layout.fits.{r}") if r in given else classes.fits(r))
        if o in things
    }
    return frozenset(pairs)


def _state(words: list[str], name: str) -> int:
    bits = {"clean": CLEAN, "hot": HOT, "cool": COOL, "sliced": SLICED, "on": TOGGLED}
    total = 0
    for word in words:
        if word not in bits:
            raise _bad(f"layout.state of '{name}' has {word!r:.60}{nearest(word, bits)}")
        total |= bits[word]
    return total


def game_from_row(goal_text: str, params: Mapping[str, Any]) -> Game:
    """The game of a compact task row: `params` holds type, object, receptacle or lamp, and the layout.

    layout: {"start": place, "room": {"fridge 1": {"place": 2, "opened": false, "holds": ["egg 1"]}}, and
    optionally "fits": {class: [classes that go in]}, "can": {class: [abilities]}, "state": {thing: [words]},
    "openable": [receptacle classes]}; places are whole numbers from 1. Raises LayoutError (a ConfigError).
    """
    if "layout" not in params:
        raise _bad(
            "params needs layout (an object) or game (the path of a game.tw-pddl), found "
            f"{', '.join(map(str, params)) or 'neither'}"
        )
    layout = _object(params.get("layout"), "params.layout",
                     ("start", "room", "fits", "can", "state", "openable"))  # fmt: skip
    room = _object(layout.get("room"), "layout.room", ())
    if not 1 <= len(room) <= MAX_RECEPTACLES:
        raise _bad(f"layout.room needs 1 to {MAX_RECEPTACLES} receptacles, found {len(room)}")
    names = sorted((_name(n, "a receptacle") for n in room), key=display_key)
    openable = set(_texts(layout.get("openable", sorted(classes.OPENABLE)), "layout.openable"))
    start = _number(layout.get("start"), "layout.start")
    numbers = {start}
    home: dict[str, int] = {}
    rows: list[tuple[str, int, bool]] = []
    for index, name in enumerate(names):
        row = _object(room[name], f"'{name}'", ("place", "opened", "holds"))
        place = _number(row.get("place"), f"the place of '{name}'")
        numbers.add(place)
        opened = row.get("opened", False)
        if not isinstance(opened, bool) or (opened and class_of(name) not in openable):
            raise _bad(f"'{name}' cannot be opened={opened!r:.20}; openable: {', '.join(sorted(openable))}")
        rows.append((name, place, opened))
        for thing in _texts(row.get("holds", []), f"the things in '{name}'"):
            if _name(thing, f"a thing in '{name}'") in home or thing in room:
                raise _bad(f"'{thing}' is in two places")
            home[thing] = index
    if len(home) > MAX_THINGS:
        raise _bad(f"at most {MAX_THINGS} things, found {len(home)}")
    ordered = sorted(numbers, reverse=True)  # as the original has them: the highest number first
    places = {number: index for index, number in enumerate(ordered)}
    receptacles = tuple(
        Receptacle(name, class_of(name) + "type", places[place], class_of(name) in openable, opened)
        for name, place, opened in rows
    )
    things = _things(layout, home, receptacles)
    kinds = {class_of(n) for n in names}
    return Game(
        places=tuple(f"loc {number}" for number in ordered),
        receptacles=receptacles,
        things=things,
        start=places[start],
        fits=_fits(layout, kinds, {class_of(t) for t in home}),
        goal=_goal(params),
        sentence=goal_text,
        dialect=PUT if _choice(params, "dialect", DIALECTS, "move") == "put" else MOVE,
    )


def _things(
    layout: Mapping[str, Any], home: Mapping[str, int], receptacles: tuple[Receptacle, ...]
) -> tuple[Thing, ...]:
    abilities, containers = _tables(layout, {class_of(t) for t in home})
    states = _object(layout.get("state", {}), "layout.state", home if layout.get("state") else ())
    things = []
    for name in sorted(home, key=display_key):
        kind, inside = class_of(name), home[name]
        place = receptacles[inside].place
        assert place is not None  # every receptacle of a row has a place
        state = _state(_texts(states.get(name, []), f"layout.state of '{name}'"), name)
        things.append(
            Thing(name, kind + "type", abilities[kind] - {"container"}, kind in containers,
                  (inside,), (place,), (), state)
        )  # fmt: skip
    return tuple(things)


def _choice(params: Mapping[str, Any], key: str, known: Iterable[str], default: str | None = None) -> str:
    value = params.get(key, default)
    names = tuple(known)
    if not isinstance(value, str) or value not in names:
        raise _bad(f"params.{key} is {value!r:.60}{nearest(str(value)[:60], names)}")
    return value


def _goal(params: Mapping[str, Any]) -> Goal:
    kind = _choice(params, "type", TASK_TYPES)
    wanted = ("object", "lamp") if kind == "look_at_obj_in_light" else ("object", "receptacle")
    for key in wanted:
        if not isinstance(params.get(key), str) or not _NAME.fullmatch(f"{params[key]} 1"):
            raise _bad(f"params.{key} must be a lower-case class, found {params.get(key)!r:.60}")
    obj, other = params[wanted[0]] + "type", params[wanted[1]] + "type"
    return Goal(kind, obj, toggle=other) if kind == "look_at_obj_in_light" else Goal(kind, obj, recep=other)
