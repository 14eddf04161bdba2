"""The engine against a slow model of the rules that knows only facts: same commands, same changes, same wins.

The model is written from the rules in words, over sets of readable facts, and shares no code with the engine.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roleagent_lite.envs.household.engine import Engine
from roleagent_lite.envs.household.game import TASK_TYPES, Game, game_from_row
from roleagent_lite.envs.household.generator import draw_row
from roleagent_lite.envs.household.problem import game_from_data
from tests.envs.household.rooms import game_data, kitchen_game, recorded

TOOLS = {
    "clean": ("sinkbasintype", "cleanable", "isclean", None),
    "heat": ("microwavetype", "heatable", "ishot", "iscool"),
    "cool": ("fridgetype", "coolable", "iscool", "ishot"),
}


class Facts:
    """A world as a set of facts such as `inreceptacle(mug 1, shelf 2)`."""

    def __init__(self, facts: list[str], put: str) -> None:
        self.put = put
        self.true: set[str] = set()
        self.named: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        self.update(set(facts), set())

    def update(self, gained: set[str], lost: set[str]) -> None:
        self.true = (self.true - lost) | gained
        for facts, act in ((lost, "discard"), (gained, "add")):
            for fact in facts:
                name, _, rest = fact[:-1].partition("(")
                getattr(self.named[name], act)(tuple(rest.split(", ")))

    def has(self, name: str, *arguments: str) -> bool:
        return f"{name}({', '.join(arguments)})" in self.true

    def find(self, name: str, *pattern: str | None) -> list[tuple[str, ...]]:
        """Arguments of the facts of a name that fit a pattern; None stands for anything."""
        return sorted(
            arguments
            for arguments in self.named[name]
            if all(p is None or p == a for p, a in zip(pattern, arguments, strict=True))
        )

    @property
    def place(self) -> str:
        return self.find("atlocation", "agent1", None)[0][1]

    @property
    def held(self) -> str | None:
        found = self.find("holds", "agent1", None)
        return found[0][1] if found else None

    def here(self) -> list[str]:
        return [r for r, _ in self.find("receptacleatlocation", None, self.place)]

    def open_to_hands(self, receptacle: str) -> bool:
        return not self.has("openable", receptacle) or self.has("opened", receptacle)

    def kind(self, thing: str) -> str:
        return self.find("objecttype", thing, None)[0][1]

    def commands(self) -> set[str]:
        found = {"look", "inventory", "help"}
        for receptacle, place in self.find("receptacleatlocation", None, None):
            if place != self.place:
                found.add(f"go to {receptacle}")
        for receptacle in self.here():
            found |= self._at(receptacle)
        if self.held is not None:
            found.add(f"examine {self.held}")
            if self.kind(self.held) in ("knifetype", "butterknifetype"):
                for thing, _ in self.find("objectatlocation", None, self.place):
                    if self.has("sliceable", thing):
                        found.add(f"slice {thing} with {self.held}")
        return found

    def _at(self, receptacle: str) -> set[str]:
        found = {f"examine {receptacle}"}
        if self.has("openable", receptacle):
            found.add(f"{'close' if self.has('opened', receptacle) else 'open'} {receptacle}")
        for thing, _ in self.find("inreceptacle", None, receptacle):
            if self.has("toggleable", thing):
                found.add(f"use {thing}")
            if self.held is None and self.has("pickupable", thing) and self.open_to_hands(receptacle):
                found.add(f"take {thing} from {receptacle}")
        if self.held is not None:
            kind = self.find("receptacletype", receptacle, None)[0][1]
            if self.open_to_hands(receptacle) and self.has("cancontain", kind, self.kind(self.held)):
                found.add(self.put.format(o=self.held, r=receptacle))
            for verb, (tool, ability, _, _) in TOOLS.items():
                if kind == tool and self.has(ability, self.held):
                    found.add(f"{verb} {self.held} with {receptacle}")
        return found

    def change(self, command: str) -> tuple[set[str], set[str]]:
        """Facts gained and lost by an admissible command."""
        verb, rest = command.split(" ", 1) if " " in command else (command, "")
        if verb == "go":
            place = self.find("receptacleatlocation", rest.removeprefix("to "), None)[0][1]
            return {f"atlocation(agent1, {place})"}, {f"atlocation(agent1, {self.place})"}
        if verb in ("look", "inventory", "help", "examine"):
            what = {"look": self.place, "examine": rest}.get(verb, "agent1")
            return {f"checked({what})"}, set()
        if verb == "open":
            return {f"opened({rest})", f"checked({rest})"}, set()
        if verb == "close":
            return set(), {f"opened({rest})"}
        if verb == "use":
            return {f"istoggled({rest})"}, set()
        if verb == "slice":
            return {f"issliced({rest.split(' with ')[0]})"}, set()
        if verb in TOOLS:
            thing = rest.split(" with ")[0]
            _, _, gained, lost = TOOLS[verb]
            return {f"{gained}({thing})"}, {f"{lost}({thing})"} if lost else set()
        held = {"holdsany(agent1)"}
        thing, receptacle = re.split(r" from | to | in/on ", rest)
        held.add(f"holds(agent1, {thing})")
        lies = {f"inreceptacle({thing}, {receptacle})", f"objectatlocation({thing}, {self.place})"}
        return (held, lies) if verb == "take" else (lies, held)

    def won(self, game: Game) -> bool:
        goal = game.goal
        things = [o for o, _ in self.find("objecttype", None, goal.obj)]
        if goal.type == "look_at_obj_in_light":
            lit = [
                lamp for lamp, _ in self.find("objecttype", None, goal.toggle)
                if self.has("istoggled", lamp) and any(self.has("inreceptacle", lamp, r) for r in self.here())
            ]  # fmt: skip
            return bool(lit) and self.held in things
        treated = {v[2] for k, v in TOOLS.items() if f"pick_{k}_" in goal.type}
        ready = [t for t in things if all(self.has(fact, t) for fact in treated)]
        needed = 2 if goal.type == "pick_two_obj_and_place" else 1
        return any(
            sum(self.has("inreceptacle", t, r) for t in ready) >= needed
            for r, _ in self.find("receptacletype", None, goal.recep)
        )


def follow(game: Game, rng: random.Random, steps: int) -> set[str]:
    """Plays at random, comparing engine and model after each step; gives the verbs used."""
    engine = Engine(game)
    put = "put {o} in/on {r}" if game.dialect.verb == "put" else "move {o} to {r}"
    model = Facts(engine.facts(), put)
    verbs = set()
    for _ in range(steps):
        commands = engine.admissible()
        assert set(commands) == model.commands()
        assert engine.won == model.won(game)
        walks = [c for c in commands if c.startswith("go to ")]
        acts = [c for c in commands if not c.startswith(("go to ", "help", "inventory"))]
        command = rng.choice(walks if walks and rng.random() < 0.3 else acts)
        gained, lost = model.change(command)
        model.update(gained, lost)
        assert engine.step(command)[1]
        assert set(engine.facts()) == model.true
        verbs.add(command.split(" ")[0])
    assert engine.won == model.won(game)
    return verbs


@pytest.mark.parametrize("kind", TASK_TYPES)
@pytest.mark.parametrize("tier", ["easy", "medium", "full"])
def test_drawn_games_follow_the_rules(tier: str, kind: str) -> None:
    for number in range(2):
        row = draw_row(tier, "train", kind, random.Random(f"rules {kind} {number}"))
        rng = random.Random(number)
        follow(game_from_row(row["goal"], row["params"]), rng, 40 if tier == "full" else 80)


@pytest.mark.parametrize("game", recorded(), ids=lambda g: g["id"])
def test_recorded_games_follow_the_rules(game: dict[str, object]) -> None:
    follow(game_from_data(game_data(game)), random.Random(4), 40)


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_the_kitchen_follows_the_rules(seed: int) -> None:
    follow(kitchen_game(), random.Random(seed), 30)


def test_every_verb_is_reached() -> None:
    verbs: set[str] = set()
    for seed in range(20):
        verbs |= follow(kitchen_game(), random.Random(seed), 60)
    assert verbs == {
        "go", "look", "examine", "open", "close", "take", "move", "clean", "heat", "cool", "use", "slice",
    }  # fmt: skip
