"""Walkthroughs: shortest where everything is known, honest where it is not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from roleagent_lite.envs.household.engine import Engine
from roleagent_lite.envs.household.game import COOL, Game
from roleagent_lite.envs.household.oracle import search, walkthrough
from roleagent_lite.envs.household.problem import game_from_data
from tests.envs.household.rooms import game_data, kitchen, kitchen_game, recorded


def wins(game: Game, commands: list[str] | None) -> bool:
    assert commands is not None
    engine = Engine(game)
    for number, command in enumerate(commands):
        assert not engine.won, f"won after {number} of {len(commands)} commands"
        assert engine.step(command)[1], command
    return engine.won


@pytest.mark.parametrize("game", recorded(), ids=lambda g: g["id"])
def test_recorded_games_are_won_no_slower_than_by_their_generator(game: dict[str, Any]) -> None:
    parsed = game_from_data(game_data(game))
    plan = walkthrough(parsed)
    assert wins(parsed, plan)
    assert plan is not None and len(plan) <= len(game["game"]["walkthrough"])


@pytest.mark.parametrize("game", recorded(), ids=lambda g: g["id"])
def test_recorded_games_are_won_by_looking(game: dict[str, Any]) -> None:
    parsed = game_from_data(game_data(game))
    tried, plan = search(parsed), walkthrough(parsed)
    assert wins(parsed, tried)
    assert tried is not None and plan is not None and len(tried) >= len(plan)


def test_the_nearest_object_is_chosen() -> None:
    assert walkthrough(kitchen_game()) == [
        "go to drawer 2", "take apple 2 from drawer 2", "go to fridge 1", "cool apple 2 with fridge 1",
        "go to drawer 2", "move apple 2 to drawer 2",
    ]  # fmt: skip


def test_what_is_cool_already_is_not_cooled() -> None:
    params = kitchen()
    params["layout"]["state"] = {"apple 1": ["cool"]}
    assert walkthrough(kitchen_game(layout=params["layout"])) == [
        "go to countertop 1", "take apple 1 from countertop 1", "go to drawer 2", "move apple 1 to drawer 2",
    ]  # fmt: skip


def test_a_goal_that_holds_needs_nothing() -> None:
    game = kitchen_game()
    things = tuple(dataclasses.replace(t, state=COOL) if t.name == "apple 2" else t for t in game.things)
    assert walkthrough(dataclasses.replace(game, things=things)) == []


def test_two_things_of_which_one_is_in_place() -> None:
    game = kitchen_game(type="pick_two_obj_and_place")
    assert walkthrough(game) == [
        "go to countertop 1", "take apple 1 from countertop 1", "go to drawer 2", "move apple 1 to drawer 2",
    ]  # fmt: skip


def test_lamp_and_thing_on_one_table() -> None:
    game = kitchen_game(type="look_at_obj_in_light", object="mug", lamp="desklamp")
    assert walkthrough(game) == ["go to countertop 1", "take mug 1 from countertop 1", "use desklamp 1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"object": "zeppelin"},
        {"receptacle": "safe"},
        {"type": "pick_heat_then_place_in_recep", "object": "mug", "receptacle": "drawer"},
        {"type": "look_at_obj_in_light", "lamp": "floorlamp"},
        {"type": "pick_two_obj_and_place", "object": "egg"},
        {"type": "pick_and_place_simple", "object": "desklamp"},
    ],
)
def test_what_cannot_be_won_has_no_plan(changes: dict[str, str]) -> None:
    game = kitchen_game(**changes)
    assert walkthrough(game) is None
    assert search(game) is None


def test_things_and_lamps_that_lie_nowhere_have_no_plan() -> None:
    game = kitchen_game(type="look_at_obj_in_light", object="mug", lamp="desklamp")
    for lost in ("mug 1", "desklamp 1"):
        things = tuple(dataclasses.replace(t, inside=(), at=()) if t.name == lost else t for t in game.things)
        assert walkthrough(dataclasses.replace(game, things=things)) is None


def test_searching_uses_only_what_was_seen() -> None:
    """The object lies in the last place looked into: all others are visited before, shut ones opened."""
    params = kitchen()
    room = params["layout"]["room"]
    room["countertop 1"]["holds"] = ["knife 1"]
    room["drawer 2"]["holds"] = []
    room["sinkbasin 1"]["holds"] = ["apple 1"]
    game = kitchen_game(layout=params["layout"])
    tried = search(game)
    assert wins(game, tried)
    assert tried is not None
    assert tried[: tried.index("take apple 1 from sinkbasin 1")] == [
        "go to countertop 1", "go to drawer 2", "open drawer 1", "go to fridge 1", "open fridge 1",
        "go to microwave 1", "open microwave 1", "go to sinkbasin 1",
    ]  # fmt: skip
