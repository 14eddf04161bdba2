"""Draws solvable household games: six task types, four kinds of room, three tiers.

Owns scenes, placements and the check that a game can be won within its tier's limits. A room (its list of
receptacles) belongs to one split only, by a hash of the list: rooms of test are never rooms of train,
whatever the seed. Leaves out play and reading.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roleagent_lite.envs.household import classes
from roleagent_lite.envs.household.engine import Engine
from roleagent_lite.envs.household.game import TASK_TYPES, Game, class_of, display_key, game_from_row
from roleagent_lite.envs.household.oracle import search, walkthrough
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.tasksets import content_id
from roleagent_lite.types import Split, Task

SPLITS: tuple[Split, ...] = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class Tier:
    """Sizes of a tier.

    limit: steps an episode has; steps: commands the oracle needs (least, most); receptacles, things: how
    many; same: most things of one class; fair: a player who must look for things first also wins within the
    limit; admissible: most commands to choose from on the oracle's way.
    """

    limit: int
    steps: tuple[int, int]
    receptacles: tuple[int, int]
    things: tuple[int, int]
    same: int
    fair: bool
    admissible: int


TIERS = {
    "easy": Tier(8, (2, 6), (3, 4), (3, 5), 1, True, 12),
    "medium": Tier(20, (4, 12), (5, 9), (8, 16), 2, True, 40),
    "full": Tier(50, (4, 30), (6, 36), (13, 56), 3, False, 120),
}


def _split_of(names: list[str], tier: str) -> Split:
    """The split a room belongs to: 5 parts of 13 train, 3 dev, 5 test."""
    digest = hashlib.sha256(" ".join([tier, *sorted(names)]).encode()).digest()
    part = int.from_bytes(digest[:8], "big") % 13
    return "train" if part < 5 else "dev" if part < 8 else "test"


def _draw_room(room: str, needed: list[str], tier: Tier, rng: random.Random) -> list[str]:
    """Names of a room's receptacles, at least one of each needed class, in order of display."""
    most = dict(classes.ROOMS[room])
    wanted = Counter(needed)
    size = rng.randint(max(tier.receptacles[0], len(wanted)), tier.receptacles[1])
    # Small rooms have many different receptacles, large ones many of a kind, as real rooms do.
    common = [r for r, _ in classes.ROOMS[room][: 4 if tier.same > 1 else 0]]
    for name in common:
        if sum(wanted.values()) < size:
            wanted[name] = max(1, wanted[name])
    while sum(wanted.values()) < size:
        free = [r for r, n in most.items() if wanted[r] < (n if tier.same > 1 else 1)]
        if not free:
            break
        weights = [most[r] if tier.same > 1 else 1 for r in free]
        wanted[rng.choices(free, weights)[0]] += 1
    names = [f"{r.lower()} {k}" for r, n in wanted.items() for k in range(1, n + 1)]
    return sorted(names, key=display_key)


def _draw_places(names: list[str], tier: str, rng: random.Random) -> tuple[dict[str, int], int]:
    """A place for each receptacle and the start; in some full rooms neighbours of a class share one."""
    share = tier == "full" and rng.random() < 0.35
    place: dict[str, int] = {}
    order = list(names)
    rng.shuffle(order)
    used = 0
    for name in order:
        friends = [other for other in place if class_of(other) == class_of(name)]
        if share and friends and rng.random() < 0.5:
            place[name] = place[friends[-1]]
        else:
            used += 1
            place[name] = used
    start = rng.randint(1, used + 1)  # a place of its own: the others move up
    return {name: p + (p >= start) for name, p in place.items()}, start


def _home(thing: str, names: list[str], rng: random.Random, avoid: frozenset[str]) -> str | None:
    free = [n for n in names if thing in classes.fits(class_of(n)) and class_of(n) not in avoid]
    return rng.choice(free) if free else None


@dataclass(slots=True)
class _Plan:
    """What a drawn task is about, class names in lower case."""

    type: str
    room: str
    obj: str
    other: str  # receptacle or lamp
    needed: list[str]


def _draw_plan(kind: str, rng: random.Random, easy: bool) -> _Plan | None:
    room = rng.choice(classes.PLAYED_IN[kind])
    things = [t.lower() for t in classes.THINGS[room]]
    tables = [r for r, _ in classes.ROOMS[room]]
    tool, ability = classes.TOOL.get(kind, ("", ""))
    obj = rng.choice([t for t in things if not ability or ability in classes.can(t)])
    if kind == "look_at_obj_in_light":
        desks = [r for r in tables if "desklamp" in classes.fits(r.lower())]
        home = [r for r in tables if obj in classes.fits(r.lower())]
        if not home:
            return None
        return _Plan(kind, room, obj, "desklamp", [rng.choice(desks), rng.choice(home)])
    targets = [r for r in tables if obj in classes.fits(r.lower()) and (r != tool or not easy)]
    if not targets:
        return None
    target = rng.choice(targets)
    sources = [r for r in tables if obj in classes.fits(r.lower()) and r != target]
    if not sources:
        return None
    needed = [target, rng.choice(sources)] + ([tool] if tool else [])
    return _Plan(kind, room, obj, target.lower(), list(dict.fromkeys(needed)))


def _furnish(plan: _Plan, names: list[str], tier: Tier, rng: random.Random) -> dict[str, list[str]] | None:
    """Things by receptacle; None where something needed has no home. The goal does not hold yet."""
    holds: dict[str, list[str]] = {name: [] for name in names}
    count: Counter[str] = Counter()

    def put(thing: str, avoid: frozenset[str] = frozenset(), only: str = "") -> bool:
        fitting = [n for n in names if not only or class_of(n) == only]
        home = _home(thing, fitting, rng, avoid)
        if home is not None:
            count[thing] += 1
            holds[home].append(f"{thing} {count[thing]}")
        return home is not None

    light = plan.type == "look_at_obj_in_light"
    avoid = frozenset() if light else frozenset({plan.other})
    two = plan.type == "pick_two_obj_and_place"
    if two and tier.same == 1:  # in a small room one of the two is in its place already
        ready = put(plan.obj, only=plan.other) and put(plan.obj, avoid)
    else:
        ready = all(put(plan.obj, avoid) for _ in range(2 if two else 1))
    if not ready or (light and not put(plan.other)):
        return None
    pool = [t.lower() for t in classes.THINGS[plan.room]]
    wanted = rng.randint(*tier.things)
    for _ in range(wanted * 4):
        if sum(count.values()) >= wanted:
            break
        thing = rng.choice(pool)
        if count[thing] >= tier.same:
            continue
        if thing == plan.obj and (two or not put(thing, avoid)):
            continue
        if thing != plan.obj:
            put(thing)
    return holds


def _renumber(holds: dict[str, list[str]], rng: random.Random) -> dict[str, list[str]]:
    """Numbers of a class in random order, so that number 1 is not always the one the goal needs."""
    by_class: dict[str, list[str]] = {}
    for things in holds.values():
        for thing in things:
            by_class.setdefault(class_of(thing), []).append(thing)
    names: dict[str, str] = {}
    for kind, things in sorted(by_class.items()):
        numbers = list(range(1, len(things) + 1))
        rng.shuffle(numbers)
        names.update({t: f"{kind} {n}" for t, n in zip(sorted(things), numbers, strict=True)})
    return {r: sorted((names[t] for t in things), key=display_key) for r, things in holds.items()}


def _tables(names: list[str], holds: Mapping[str, list[str]]) -> dict[str, Any]:
    """The rules that matter in this room, written into the row: it means the same game for ever."""
    kinds = sorted({class_of(n) for n in names})
    things = sorted({class_of(t) for held in holds.values() for t in held})
    return {
        "fits": {k: [t for t in things if t in classes.fits(k)] for k in kinds},
        "can": {t: list(classes.can(t)) for t in things},
        "openable": [k for k in kinds if k in classes.OPENABLE],
    }


def draw_row(tier_name: str, split: Split, kind: str, rng: random.Random) -> dict[str, Any]:
    """One task row (without id) that meets its tier's bounds. Draws until one does."""
    tier = TIERS[tier_name]
    while True:
        plan = _draw_plan(kind, rng, tier_name == "easy")
        if plan is None:
            continue
        names = _draw_room(plan.room, plan.needed, tier, rng)
        if _split_of(names, tier_name) != split:
            continue
        furnished = _furnish(plan, names, tier, rng)
        if furnished is None:
            continue
        holds = _renumber(furnished, rng)
        places, start = _draw_places(names, tier_name, rng)
        room: dict[str, Any] = {}
        for name in names:
            room[name] = {"place": places[name]}
            if class_of(name) in classes.OPENABLE and rng.random() < 0.12:
                room[name]["opened"] = True
            if holds[name]:
                room[name]["holds"] = holds[name]
        other = "lamp" if kind == "look_at_obj_in_light" else "receptacle"
        params = {
            "tier": tier_name, "type": kind, "object": plan.obj, other: plan.other,
            "layout": {"start": start, "room": room, **_tables(names, holds)},
        }  # fmt: skip
        words = rng.choice(TASK_TYPES[kind])
        goal = words.format(obj=plan.obj, recep=plan.other, toggle=plan.other)
        if _within(game_from_row(goal, params), tier):
            return {"env": "household", "goal": goal, "seed": 0, "params": params, "split": split}


def _within(game: Game, tier: Tier) -> bool:
    plan = walkthrough(game)
    if plan is None or not tier.steps[0] <= len(plan) <= tier.steps[1]:
        return False
    if tier.fair:
        tried = search(game)
        if tried is None or len(tried) > tier.limit:
            return False
    engine = Engine(game)
    for command in plan:
        if len(engine.admissible()) > tier.admissible:
            return False
        engine.step(command)
    return True


def make_rows(tier: str, seed: int, counts: Mapping[Split, int]) -> list[dict[str, Any]]:
    """Task rows of a tier, the six types in turn. Equal arguments give equal rows.

    counts: rows by split. Each row has a generator of its own (tier, seed, split, number), so that asking for
    more rows keeps the first ones, but for a row that was drawn before and is then drawn anew.
    """
    if tier not in TIERS:
        raise ConfigError(f"no household tier '{tier}'{nearest(tier, TIERS)}")
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    kinds = tuple(TASK_TYPES)
    for split in SPLITS:
        for number in range(counts.get(split, 0)):
            rng = random.Random(f"{tier}/{seed}/{split}/{number}")
            row = draw_row(tier, split, kinds[number % len(kinds)], rng)
            while content_id(row) in seen:
                row = draw_row(tier, split, kinds[number % len(kinds)], rng)
            seen.add(content_id(row))
            rows.append(row)
    return rows


def make_task_set(tier: str, seed: int, counts: Mapping[Split, int]) -> list[Task]:
    """`make_rows` as Tasks, ids by content hash: what `load_tasks` reads from a file of these rows."""
    return [Task(id=content_id(row), **row) for row in make_rows(tier, seed, counts)]


SHIPPED: dict[str, dict[Split, int]] = {
    "easy": {"train": 60, "dev": 36, "test": 60},
    "medium": {"train": 42, "dev": 24, "test": 54},
    "full": {"train": 24, "dev": 12, "test": 48},
}
SHIPPED_SEED = 7
