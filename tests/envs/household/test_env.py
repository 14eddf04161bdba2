"""The household Environment: the protocol, game files, step limits, a user's ALFWorld tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs.household.env import Household, alfworld_tasks, game_of, limit
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Environment, Task
from tests.envs.household.rooms import game_data, kitchen, recorded

TASK = Task("t", "household", "put a cool apple in drawer", params=kitchen())
PLAN = [
    "go to drawer 2", "take apple 2 from drawer 2", "go to fridge 1", "cool apple 2 with fridge 1",
    "go to drawer 2", "move apple 2 to drawer 2",
]  # fmt: skip


def test_it_is_an_environment() -> None:
    assert isinstance(Household(TASK), Environment)


def test_the_first_observation_has_neither_banner_nor_task() -> None:
    seen = Household(TASK).observe()
    assert seen.text.startswith(
        "You are in the middle of a room. Looking quickly around you, you see a countertop 1,"
    )
    assert "Welcome" not in seen.text and "task" not in seen.text
    assert seen.admissible == tuple(sorted(seen.admissible))
    assert seen.state_key is not None


def test_an_episode() -> None:
    env = Household(TASK)
    moves = [env.step(command) for command in PLAN]
    assert [m.reward for m in moves] == [0.0] * 5 + [1.0]
    assert [m.done for m in moves] == [False] * 5 + [True]
    assert all(m.valid for m in moves)
    assert env.score() == 1.0
    assert env.observe() == moves[-1].observation
    env.close()


def test_an_action_that_is_not_admissible_changes_nothing() -> None:
    env = Household(TASK)
    before = env.observe()
    move = env.step("teleport")
    assert not move.valid and move.reward == 0.0 and not move.done
    assert move.observation.text == "Nothing happens."
    assert move.observation.state_key == before.state_key
    assert move.observation.admissible == before.admissible


def test_rewards_sum_to_the_score_also_when_a_win_is_undone() -> None:
    env = Household(TASK)
    total = sum(env.step(c).reward for c in [*PLAN, "take apple 2 from drawer 2"])
    assert total == env.score() == 0.0
    assert env.step("move apple 2 to drawer 2").reward == 1.0


def test_facts_snapshot_and_restore() -> None:
    env = Household(TASK)
    for command in PLAN[:3]:
        env.step(command)
    saved, facts, seen = env.snapshot(), env.facts(), env.observe()
    ends = [env.step(c).observation for c in PLAN[3:]]
    assert env.score() == 1.0
    env.restore(saved)
    assert (env.facts(), env.observe(), env.score()) == (facts, seen, 0.0)
    assert [env.step(c).observation for c in PLAN[3:]] == ends
    env.restore(saved)
    assert [env.step(c).reward for c in PLAN[3:]] == [0.0, 0.0, 1.0]


def test_the_seed_changes_nothing() -> None:
    other = Household(Task("t", "household", TASK.goal, seed=5, params=TASK.params))
    assert other.observe() == Household(TASK).observe()


def test_the_oracle() -> None:
    assert Household(TASK).walkthrough() == PLAN
    with pytest.raises(ConfigError, match="cannot be won"):
        Household(Task("t", "household", "x", params=kitchen(object="pen"))).walkthrough()


@pytest.mark.parametrize(
    ("params", "steps"),
    [({"tier": "easy"}, 8), ({"tier": "medium"}, 20), ({"tier": "full"}, 50), ({}, 50), ({"tier": "x"}, 50),
     ({"tier": "easy", "max_steps": 3}, 3)],
)  # fmt: skip
def test_limits(params: dict[str, Any], steps: int) -> None:
    assert limit(Task("t", "household", "x", params=params)) == steps


@pytest.mark.parametrize("wrong", [0, -1, "8", True, 2.5])
def test_wrong_limits(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"task t: params\.max_steps"):
        limit(Task("t", "household", "x", params={"max_steps": wrong}))


def write(folder: Path, number: int = 0, **changes: Any) -> Path:
    """A recorded game as files of an ALFWorld tree."""
    game = recorded()[number]
    folder.mkdir(parents=True)
    data = game_data(game) | changes
    (folder / "game.tw-pddl").write_text(json.dumps({k: v for k, v in data.items() if v != "-"}))
    (folder / "traj_data.json").write_text(json.dumps(game["traj_data"]))
    return folder / "game.tw-pddl"


def test_a_game_file_is_played(tmp_path: Path) -> None:
    path = write(tmp_path / "g")
    task = Task("t", "household", "put a dishsponge in sinkbasin", params={"game": str(path)})
    env = Household(task)
    trace = recorded()[0]["traces"][0]
    assert env.observe().text in trace["initial"]["observation"]
    for step in trace["steps"]:
        assert env.step(step["command"]).observation.text == step["observation"]
    assert game_of(task) is game_of(task)  # parsed once


def test_an_edited_game_file_is_read_again(tmp_path: Path) -> None:
    import os

    path = write(tmp_path / "g")
    task = Task("t", "household", "x", params={"game": str(path)})
    first = game_of(task)
    path.write_text(json.dumps(game_data(recorded()[1])))
    os.utime(path, ns=(1, 1))
    assert game_of(task) != first


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"game": 3}, r"task t: params\.game must be a path"),
        ({"game": "/nowhere/game.tw-pddl"}, "task t: cannot read the game file /nowhere/game.tw-pddl"),
        ({"game": "a\0b"}, "task t: cannot read the game file"),
        ({}, r"params needs layout \(an object\) or game"),
    ],
)
def test_tasks_without_a_game(params: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Household(Task("t", "household", "x", params=params))


def test_a_tree_of_games(tmp_path: Path) -> None:
    base = tmp_path / "json_2.1.1" / "train"
    write(base / "pick_and_place_simple-DishSponge-None-SinkBasin-1" / "trial_T1")
    write(base / "pick_clean-1" / "trial_T2", 1)
    write(base / "pick_and_place_with_movable_recep-1" / "trial_T3")
    write(base / "pick_and_place_simple-AppleSliced-1" / "trial_T4")
    write(base / "unsolvable" / "trial_T5", solvable=False)
    write(base / "unchecked" / "trial_T6", solvable="-")
    write(base / "no-game" / "trial_T7").unlink()
    other = write(base / "other-type" / "trial_T8").with_name("traj_data.json")
    other.write_text(json.dumps({"task_type": "juggle"}))
    write(tmp_path / "json_2.1.1" / "valid_unseen" / "one" / "trial_T9", 12)
    tasks = alfworld_tasks(tmp_path, "train")
    assert [t.id for t in tasks] == [
        "pick_and_place_simple-DishSponge-None-SinkBasin-1/trial_T1",
        "pick_clean-1/trial_T2",
    ]
    assert [t.goal for t in tasks] == ["put a dishsponge in sinkbasin", "put a clean pan in stoveburner"]
    assert all(t.split == "train" and limit(t) == 50 for t in tasks)
    assert tasks[1].params["type"] == "pick_clean_then_place_in_recep"
    assert alfworld_tasks(tmp_path / "json_2.1.1", "train") == tasks
    test = alfworld_tasks(tmp_path, "test")
    assert test == alfworld_tasks(tmp_path, "valid_unseen")
    assert [t.split for t in test] == ["test"]
    assert Household(test[0]).step("go to fridge 1").observation.text.startswith("You arrive at loc ")


def test_trees_without_games(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no ALFWorld split 'valid'; did you mean"):
        alfworld_tasks(tmp_path, "valid")
    with pytest.raises(ConfigError, match="no folder valid_seen in"):
        alfworld_tasks(tmp_path, "dev")
    (tmp_path / "train").mkdir()
    with pytest.raises(ConfigError, match=r"no playable game\.tw-pddl"):
        alfworld_tasks(tmp_path, "train")


def test_a_broken_record_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "train" / "x" / "trial").with_name("traj_data.json")
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"traj_data\.json is not a JSON file"):
        alfworld_tasks(tmp_path, "train")
