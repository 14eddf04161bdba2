"""A winning walkthrough from the initial facts, and one that looks for things first.

Owns two plans. `walkthrough` tries, on an engine of its own, each object, lamp or receptacle that fits the
goal and keeps the shortest plan. `search` knows only what a player may have seen: it looks into one
receptacle after another, in the order they are listed, until it finds what the goal asks for. Leaves out
prompts and demonstrations made of plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from roleagent_lite.envs.household.engine import Engine
from roleagent_lite.envs.household.game import Game, Thing
from roleagent_lite.envs.household.text import put_command

_TREATMENT = {
    "pick_clean_then_place_in_recep": ("clean", "sinkbasintype", "isclean"),
    "pick_heat_then_place_in_recep": ("heat", "microwavetype", "ishot"),
    "pick_cool_then_place_in_recep": ("cool", "fridgetype", "iscool"),
}
MAX_PLANS = 400  # combinations tried; the originals need fewer


class _Stuck(Exception):
    """A plan met a command that was not admissible."""


class _Walker:
    """Plays a plan on a fresh engine; commands that change nothing (going where one is) are left out."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.engine = Engine(game)
        self.commands: list[str] = []

    def do(self, command: str) -> None:
        _, valid = self.engine.step(command)
        if not valid:
            raise _Stuck(command)
        self.commands.append(command)

    def go(self, receptacle: str, *, opened: bool = False) -> None:
        if f"go to {receptacle}" in self.engine.admissible():
            self.do(f"go to {receptacle}")
        if opened and f"open {receptacle}" in self.engine.admissible():
            self.do(f"open {receptacle}")

    def fetch(self, thing: Thing) -> None:
        if not thing.inside:
            raise _Stuck(thing.name)
        receptacle = self.game.receptacles[thing.inside[0]].name
        self.go(receptacle, opened=True)
        self.do(f"take {thing.name} from {receptacle}")

    def bring(self, thing: Thing, receptacle: str) -> None:
        self.go(receptacle, opened=True)
        self.do(put_command(self.game.dialect, thing.name, receptacle))


def _plans(game: Game) -> Iterator[tuple[tuple[Thing, ...], str, str]]:
    """(things, tool or lamp, target) in order of display."""
    goal = game.goal
    things = [t for t in game.things if t.kind == goal.obj and "pickupable" in t.abilities]
    targets = [r.name for r in game.receptacles if r.kind == goal.recep]
    if goal.type == "look_at_obj_in_light":
        lamps = [t.name for t in game.things if t.kind == goal.toggle and "toggleable" in t.abilities]
        for thing, lamp in product(things, lamps):
            yield (thing,), lamp, ""
    elif goal.type == "pick_two_obj_and_place":
        everything = [t for t in game.things if t.kind == goal.obj]
        for target in targets:
            index = next(i for i, r in enumerate(game.receptacles) if r.name == target)
            for pair in combinations(everything, 2):
                yield tuple(t for t in pair if index not in t.inside), "", target
    elif goal.type in _TREATMENT:
        tools = [r.name for r in game.receptacles if r.kind == _TREATMENT[goal.type][1]]
        for thing, tool, target in product(things, tools, targets):
            yield (thing,), tool, target
    else:
        for thing, target in product(things, targets):
            yield (thing,), "", target


def _play(game: Game, things: tuple[Thing, ...], tool: str, target: str) -> list[str]:
    walker = _Walker(game)
    verb, _, fact = _TREATMENT.get(game.goal.type, ("", "", ""))
    for thing in things:
        walker.fetch(thing)
        if game.goal.type == "look_at_obj_in_light":
            lamp = next(t for t in game.things if t.name == tool)
            if not lamp.inside:
                raise _Stuck(lamp.name)
            walker.go(game.receptacles[lamp.inside[0]].name)
            if not walker.engine.won:
                walker.do(f"use {tool}")
            continue
        if verb and f"{fact}({thing.name})" not in walker.engine.changing_facts():
            walker.go(tool)
            walker.do(f"{verb} {thing.name} with {tool}")
        walker.bring(thing, target)
    if not walker.engine.won:
        raise _Stuck("not won")
    return walker.commands


def walkthrough(game: Game) -> list[str] | None:
    """The shortest plan found, [] where the goal already holds, None where no plan wins."""
    if Engine(game).won:
        return []
    best: list[str] | None = None
    for number, (things, tool, target) in enumerate(_plans(game)):
        if number >= MAX_PLANS:
            break
        try:
            commands = _play(game, things, tool, target)
        except _Stuck:
            continue
        if best is None or len(commands) < len(best):
            best = commands
    return best


class _Searcher(_Walker):
    """A walker that uses only what it has seen."""

    def __init__(self, game: Game) -> None:
        super().__init__(game)
        self.unseen = list(range(len(game.receptacles)))
        self.seen: set[int] = set()  # receptacles looked into

    def visit(self, index: int) -> None:
        self.go(self.game.receptacles[index].name, opened=True)
        self.seen.add(index)
        self.unseen = [i for i in self.unseen if i != index]

    def find(self, kind: str, ability: str, avoid: int = -1) -> tuple[Thing, int]:
        """The first thing of a kind in a receptacle seen so far, else keep looking."""
        while True:
            for index in sorted(self.seen):
                for number in self.engine.contents(index) if index != avoid else ():
                    thing = self.game.things[number]
                    if thing.kind == kind and ability in thing.abilities:
                        return thing, index
            if not self.unseen:
                raise _Stuck(kind)
            self.visit(self.unseen[0])

    def take(self, kind: str, avoid: int = -1) -> Thing:
        thing, index = self.find(kind, "pickupable", avoid)
        self.visit(index)
        self.do(f"take {thing.name} from {self.game.receptacles[index].name}")
        return thing


def search(game: Game) -> list[str] | None:
    """Commands of a player who must look for things first; None where that fails.

    Shows that a task can be won within a limit without knowing where everything is.
    """
    goal, walker = game.goal, _Searcher(game)
    first = {r.kind: i for i, r in reversed(list(enumerate(game.receptacles)))}
    light = goal.type == "look_at_obj_in_light"
    target = first.get(goal.recep, -1)
    if target < 0 and not light:
        return None
    try:
        while not walker.engine.won:
            thing = walker.take(goal.obj, target)
            if light:
                lamp, index = walker.find(goal.toggle, "toggleable")
                walker.visit(index)
                walker.do(f"use {lamp.name}")
                break
            if goal.type in _TREATMENT:
                verb, tool, _ = _TREATMENT[goal.type]
                name = game.receptacles[first[tool]].name
                walker.go(name)
                walker.do(f"{verb} {thing.name} with {name}")
            walker.bring(thing, game.receptacles[target].name)
    except (_Stuck, KeyError):
        return None
    return walker.commands if walker.engine.won else None
