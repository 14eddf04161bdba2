"""TextWorldExpress behind our interface: the recorded games, the protocol, the peace between episodes."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from roleagent_lite.content import room
from roleagent_lite.envs import registry
from roleagent_lite.envs import textworld_express as twx
from roleagent_lite.envs.checker import check
from roleagent_lite.envs.textworld_express import ENGINE, GAMES, TextWorldExpress
from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import load_tasks, read_rows
from roleagent_lite.types import Task
from tests.envs.java import moves, needs, recorded, trace

TASKS = load_tasks("textworld-express")
here = needs(ENGINE)


def one_of(game: str, split: str = "test") -> Task:
    return next(t for t in TASKS if t.params["game"] == game and t.split == split)


def of_recording(game: dict[str, Any]) -> Task:
    options = dict(pair.split("=") for pair in game["params"].split(",") if pair)
    params = {"game": game["game"], "fold": game["fold"], "options": {k: int(v) for k, v in options.items()}}
    return Task("recorded", "textworld-express", game["task_description"], game["seed"], params)


def made(task: Task) -> TextWorldExpress:
    return cast(TextWorldExpress, registry.make(task))


def played(env: TextWorldExpress, steps: list[dict[str, Any]]) -> None:
    """Plays the recorded actions and compares all that the engine tells."""
    total = 0.0
    for step in steps:
        moved = env.step(step["action"])
        total += moved.reward
        said = env._said
        assert moved.observation.text == step["returned_observation"], step["action"]
        assert list(moved.observation.admissible) == sorted(set(step["valid_actions"])), step["action"]
        assert [
            said[k] for k in ("look", "inventory", "score", "scoreRaw", "tasksuccess", "taskfailure")
        ] == [step[k] for k in ("look", "inventory", "score", "scoreRaw", "tasksuccess", "taskfailure")]
        assert moved.done == step["done"]
        assert total == pytest.approx(env.score()) == pytest.approx(max(0.0, step["score"]))


@here
@pytest.mark.parametrize("number", range(6))
def test_equal_to_the_recordings(number: int) -> None:
    game = recorded("textworldexpress_tour")["games"][number]
    for steps in (game["gold_steps"], game["random_steps"]):
        env = made(of_recording(game))
        assert env.observe().text == game["initial"]["returned_observation"]
        assert list(env.observe().admissible) == game["initial"]["valid_actions"]
        played(env, steps)
        env.close()


@here
@pytest.mark.parametrize("game", GAMES)
def test_the_checker_finds_nothing(game: str) -> None:
    tasks = [t for t in TASKS if t.params["game"] == game]
    assert check(registry.spec("textworld-express").make, tasks[0], other=tasks[-1]) == []


def test_the_set_has_every_game_in_every_fold() -> None:
    assert Counter(t.split for t in TASKS) == {"train": 96, "dev": 32, "test": 96}
    assert {(t.params["game"], t.split) for t in TASKS} == {(g, s) for g in GAMES for s in twx.FOLDS}
    assert all(t.params["fold"] == t.split and registry.spec(t.env).max_steps(t) == 50 for t in TASKS)
    assert len({(t.params["game"], t.seed) for t in TASKS}) == len(TASKS)
    assert all(len(t.params.get("plan", ())) <= 50 for t in TASKS)


@here
def test_the_file_is_what_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twx, "COUNTS", {"train": 2, "dev": 1, "test": 1})
    file = {
        (r["params"]["game"], r["seed"]): r for _, r in read_rows(room("tasks") / "textworld-express.jsonl")
    }
    for row in twx.rows():
        known = file[row["params"]["game"], row["seed"]]
        for params in (row["params"], known["params"]):  # a gold path of coin is another one each time
            assert ("plan" in params) == (params["game"] == "coin")
        assert {**row, "params": {**row["params"], "plan": 0}} == {
            **known,
            "params": {**known["params"], "plan": 0},
        }


def full_marks(task: Task) -> None:
    env = made(task)
    steps = [env.step(action) for action in env.walkthrough()]
    assert len(steps) <= 50
    assert (env.score(), steps[-1].done) == (1.0, True), task
    assert sum(step.reward for step in steps) == pytest.approx(1.0)
    env.close()


@here
def test_gold_paths_score_full_marks() -> None:
    for game in GAMES:
        full_marks(one_of(game))


@here
def test_chance_is_far_from_full_marks() -> None:
    scores = [trace(task, seed=1, steps=50)[-1] for task in TASKS[::8]]
    assert sum(scores) / len(scores) < 0.5
    assert sum(score == 1.0 for score in scores) < len(scores) / 2


@here
@pytest.mark.parametrize("game", ["coin", "twc"])
def test_a_player_that_draws_goes_the_same_way_each_time(game: str) -> None:
    task = one_of(game)
    asked = Task("a", task.env, task.goal, task.seed, {k: v for k, v in task.params.items() if k != "plan"})
    first = made(asked).walkthrough()
    twx._gold.cache_clear()
    assert made(asked).walkthrough() == first


@here
def test_luck_that_does_not_arrive_is_drawn_again() -> None:
    options = {k: v for k, v in one_of("coin").params.items() if k != "plan"}
    task = Task("a", "textworld-express", "", 5, options)
    assert twx._drawn(task, "coin", 0) == ()
    full_marks(task)


@here
def test_a_recorded_plan_goes_before_the_packages() -> None:
    task = one_of("coin")
    asked = Task("a", task.env, task.goal, task.seed, {k: v for k, v in task.params.items() if k != "plan"})
    assert made(task).walkthrough() == task.params["plan"]
    full_marks(asked)


@here
def test_a_shared_game_is_taken_up_where_it_stood() -> None:
    task = one_of("sorting")
    mine = made(task)
    plan = mine.walkthrough()
    for number, action in enumerate(plan):
        other = made(task)  # empties the box of the engine's game
        other.step(plan[0])
        assert mine.facts() == mine.facts()
        moved = mine.step(action)
        assert moved.valid and moved.done == (number == len(plan) - 1)
        other.close()
    assert mine.score() == 1.0


@here
def test_equal_states_have_equal_keys() -> None:
    env = made(of_recording(recorded("textworldexpress_tour")["games"][1]))  # coin, with doors
    first = env.observe().state_key
    keys = [
        env.step(action).observation.state_key
        for action in (
            "look around", "dance", "open door to south", "look around", "move south", "move north",
            "close door to south", "open door to south", "move south", "close door to north",
            "open door to north", "move north", "close door to south",
        )
    ]  # fmt: skip
    closed, opened = first, keys[2]
    assert opened != closed
    assert keys[:4] == [closed, closed, opened, opened]
    assert keys[4] not in (opened, closed)
    assert keys[5:8] == [opened, closed, opened]
    assert keys[8] == keys[10] == keys[4]
    assert keys[9] not in keys[:9]
    assert keys[11:] == [opened, closed]
    env.close()


@here
def test_what_a_closed_container_hides_is_part_of_the_state() -> None:
    """Two ways after which the text is one and the same, but not the world."""
    task = of_recording(recorded("textworldexpress_tour")["games"][0])
    seen = []
    for place in ("fridge", "dishwasher"):
        env = made(task)
        for other in ("fridge", "dishwasher"):
            env.step(f"open {other}")
        assert env.step("take yellow potato").valid
        assert env.step(f"put yellow potato in {place}").valid
        for other in ("fridge", "dishwasher"):
            env.step(f"close {other}")
        seen.append((env.step("look around").observation, env.facts()))
        assert f"raw yellow potato in {place}" in env.facts() or f"yellow potato in {place}" in env.facts()
        env.close()
    assert seen[0][0].text == seen[1][0].text
    assert seen[0][0].state_key != seen[1][0].state_key


@here
@pytest.mark.parametrize("game", [g for g in GAMES if g != "simonsays"])
def test_the_kept_state_is_what_java_says_at_every_step(game: str) -> None:
    for seed, task in enumerate([t for t in TASKS if t.params["game"] == game][:3]):
        env = made(task)
        for _ in moves(env, None, seed, 25):
            ground = env._ground
            assert ground is not None
            for name in ground._places:
                assert ground._now.get(name, ground._found[name]) == ground.room(name)
            assert ground._carried == ground._simulator.of(ground._inventory, "toJSON")
        env.close()


@here
def test_a_failed_task_scores_zero_and_is_over() -> None:
    env = made(one_of("simonsays"))
    wrong = next(a for a in env.observe().admissible if f"'{a}'" not in env.observe().text)
    moved = env.step(wrong)
    assert (moved.done, moved.reward, env.score()) == (True, 0.0, 0.0)
    again = env.step(wrong)
    assert (again.done, again.valid, again.reward) == (True, False, 0.0)
    assert env.facts() == ["score 0"]
    env.close()


@pytest.mark.parametrize(
    ("params", "seed", "said"),
    [
        ({}, 0, "params.game is None: one of cookingworld"),
        ({"game": "coins"}, 0, "did you mean 'coin'"),
        ({"game": "coin", "fold": "valid"}, 0, "params.fold is 'valid'"),
        ({"game": "coin", "options": "numLocations=3"}, 0, "an object of whole numbers"),
        ({"game": "coin", "options": {"numLocations": True}}, 0, "an object of whole numbers"),
        ({"game": "coin"}, -1, "the seed of a game lies within"),
    ],
)
def test_what_is_wrong_with_a_task(params: dict[str, Any], seed: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(Task("t", "textworld-express", "g", seed, params))


@here
@pytest.mark.parametrize(
    ("options", "said"),
    [({"rooms": 3}, "Unrecognized property name"), ({"numLocations": 99}, "less than or equal to 11")],
)
def test_options_that_the_game_does_not_take(options: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=f"coin does not take params.options: .*{said}"):
        made(Task("t", "textworld-express", "g", 0, {"game": "coin", "options": options}))
