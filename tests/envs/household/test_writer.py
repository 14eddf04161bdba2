"""Games written for the original engine: the same names, facts and goal come back."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from roleagent_lite.envs.household.engine import Engine
from roleagent_lite.envs.household.env import alfworld_tasks
from roleagent_lite.envs.household.game import COOL, MOVE, PUT, TASK_TYPES, game_from_row
from roleagent_lite.envs.household.generator import make_rows
from roleagent_lite.envs.household.problem import game_from_problem, load_game, read_dialect, read_sentence
from roleagent_lite.envs.household.writer import problem_text, reword, write_game_file
from roleagent_lite.errors import ConfigError
from tests.envs.household.rooms import GRAMMAR, kitchen, kitchen_game

ROWS = [row for tier in ("easy", "medium", "full") for row in make_rows(tier, 11, {"train": 6, "test": 6})]


@pytest.mark.parametrize("row", ROWS, ids=[f"{r['params']['tier']}-{i}" for i, r in enumerate(ROWS)])
def test_a_written_game_is_the_same_game(row: dict[str, object], tmp_path: Path) -> None:
    params = row["params"]
    assert isinstance(params, dict)
    game = game_from_row(str(row["goal"]), params)
    again = load_game(write_game_file(game, tmp_path / "g", "", GRAMMAR))
    assert again == dataclasses.replace(game, fits=again.fits) and again.fits == game.fits


def test_states_and_odd_facts_are_written() -> None:
    params = kitchen()
    params["layout"]["state"] = {"apple 1": ["cool"], "desklamp 1": ["on"]}
    game = game_from_row("x", params)
    nested = tuple(dataclasses.replace(t, nested=(0,)) if t.name == "mug 1" else t for t in game.things)
    game = dataclasses.replace(game, things=nested)
    again = game_from_problem(problem_text(game), "x")
    assert again.things == game.things
    assert next(t for t in again.things if t.name == "apple 1").state == COOL


def test_every_type_of_goal_is_written() -> None:
    seen = set()
    for row in ROWS[:6]:
        game = game_from_row(row["goal"], row["params"])
        assert game_from_problem(problem_text(game), "x").goal == game.goal
        seen.add(game.goal.type)
    assert seen == set(TASK_TYPES)
    lamp = kitchen_game(type="look_at_obj_in_light", lamp="desklamp")
    loose = dataclasses.replace(lamp, goal=dataclasses.replace(lamp.goal, loose_lamp=True))
    assert game_from_problem(problem_text(loose), "x").goal.loose_lamp


def test_dialects_are_written_into_the_grammar() -> None:
    for dialect in (MOVE, PUT):
        grammar = reword(GRAMMAR, 'say "hi"', dialect)
        assert read_dialect(grammar) == dialect
        assert read_sentence(grammar) == 'say "hi"'


def test_a_tree_of_written_games_is_found(tmp_path: Path) -> None:
    for number, row in enumerate(ROWS[:6]):
        game = game_from_row(row["goal"], row["params"])
        write_game_file(game, tmp_path / "train" / f"g{number}", "domain", GRAMMAR, ["look"])
    tasks = alfworld_tasks(tmp_path, "train")
    assert [t.goal for t in tasks] == [r["goal"] for r in ROWS[:6]]
    data = json.loads((tmp_path / "train" / "g0" / "game.tw-pddl").read_text())
    assert (data["pddl_domain"], data["solvable"], data["walkthrough"]) == ("domain", True, ["look"])
    record = json.loads((tmp_path / "train" / "g1" / "traj_data.json").read_text())
    assert record["task_type"] == "look_at_obj_in_light"
    assert record["pddl_params"]["toggle_target"] == "DeskLamp"
    assert record["pddl_params"]["parent_target"] == ""


def test_a_sentence_gets_no_braces_into_the_grammar() -> None:
    """The original engine would evaluate what stands in them as Python."""
    grammar = reword(GRAMMAR, "win {open('x', 'w')} #help# {{y}}", MOVE)
    assert "win (open('x', 'w'))  help  ((y))" in grammar
    assert grammar.count("{") == GRAMMAR.count("{") and grammar.count("#") == GRAMMAR.count("#")


def test_gaps_in_numbers_cannot_be_written() -> None:
    params = kitchen()
    params["layout"]["room"]["fridge 1"]["holds"] = ["egg 2"]
    with pytest.raises(ConfigError, match="numbers egg from 1 without gaps, found 2"):
        problem_text(game_from_row("x", params))


def test_names_without_numbers_and_full_hands_cannot_be_written() -> None:
    game = kitchen_game()
    odd = dataclasses.replace(game, places=("somewhere", *game.places[1:]))
    with pytest.raises(ConfigError, match="'somewhere' for the original engine: it has no number"):
        problem_text(odd)
    with pytest.raises(ConfigError, match="starts with a thing"):
        problem_text(dataclasses.replace(game, held=0))


def test_classes_of_ones_own_are_written() -> None:
    params = kitchen()
    params["layout"]["room"]["bathtubbasin 1"] = {"place": 7, "holds": ["rubberduck 1"]}
    game = game_from_row("x", params)
    again = game_from_problem(problem_text(game), "x")
    assert Engine(again).facts() == Engine(game).facts()
    assert "bathtubbasin 1" in [r.name for r in again.receptacles]
