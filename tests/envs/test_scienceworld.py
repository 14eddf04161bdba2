"""ScienceWorld behind our interface: the recorded gold paths, the protocol, episodes that repeat."""

from __future__ import annotations

import hashlib
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from roleagent_lite.envs import registry, scienceworld
from roleagent_lite.envs.checker import check
from roleagent_lite.envs.scienceworld import ENGINE, ScienceWorld
from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Task
from tests.envs.java import moves, needs, recorded

TASKS = load_tasks("scienceworld")
here = needs(ENGINE)
# One task of each kind is played by the default tests; a step takes 20 ms, so few are.
FREE = (
    "look around", "inventory", "teleport to greenhouse", "open bee hive", "wait1", "look at agent", "dance",
    "teleport to kitchen", "open cupboard", "pick up thermometer", "focus on orange",
)  # fmt: skip


def asked(name: str, variation: int, seed: int = 0, **params: Any) -> Task:
    return Task(
        f"{name}-{variation}", "scienceworld", "g", seed, {"task": name, "variation": variation, **params}
    )


def made(task: Task) -> ScienceWorld:
    return cast(ScienceWorld, registry.make(task))


def of_recording(game: dict[str, Any]) -> Task:
    given = [game["simplification"]] if game["simplification"] else []
    return asked(game["task"], game["variation"], simplifications=given)


def parts(text: str) -> tuple[list[str], list[int]]:
    """The pieces of a text without the order in which the simulator lists things; the degrees apart."""
    degrees = [int(found) for found in re.findall(r"(-?\d+) degrees", text)]
    plain = re.sub(r"-?\d+(?= degrees)", "N", text).replace("containing ", "")
    return sorted(part for part in re.split(r"[\n\t,.()]+\s*", plain) if part), sorted(degrees)


def alike(text: str, other: str) -> bool:
    """Equal up to the order of lists and to two degrees of warmth."""
    (one, warm), (two, cold) = parts(text), parts(other)
    return one == two and all(abs(w - c) <= 2 for w, c in zip(warm, cold, strict=True))


def follow(number: int, steps: int | None = None, lists: bool = True) -> tuple[ScienceWorld, list[str]]:
    """Plays a recording: numbers and ends are equal, texts alike. Also the actions whose text, inventory or
    list of valid actions is not that of the recording to the letter; "" for what stands before the first."""
    game = recorded("scienceworld_tour")["tasks"][number]
    env, other, score = made(of_recording(game)), [], 0
    world = env._world

    def compare(action: str, text: str, then: dict[str, Any]) -> None:
        assert alike(text, then["observation"]), action
        equal = text == then["observation"] and world.ask("freeActionInventory") == then.get(
            "inv", world.ask("freeActionInventory")
        )
        if "valid_md5" in then and lists:
            valid = tuple(world.valid())
            assert len(valid) == then["valid_count"] - 1  # the one that we leave out
            equal = equal and all_of(valid) == then["valid_md5"]
        other.extend([] if equal else [action])

    compare("", env.observe().text, game["initial"])
    for step in game["steps"][:steps]:
        moved = env.step(step["action"])
        score += step["reward"]
        compare(step["action"], moved.observation.text, step)
        assert (env.score(), moved.done) == (step["score"] / 100, step["done"]), step["action"]
        assert moved.reward == pytest.approx(step["reward"] / 100)
        assert world.ask("getNumMoves") == step["moves"]
    if steps is None:
        assert (score, env.score(), moved.done) == (100, 1.0, True)
        assert world.ask("freeActionLook") == game["final_look"]
    return env, other


@here
@pytest.mark.parametrize(
    ("number", "lists"), [(0, False), (1, True), (4, True), pytest.param(0, True, marks=pytest.mark.slow)]
)
def test_equal_to_the_recordings_to_the_letter(number: int, lists: bool) -> None:
    """boil, find-animal, lifespan: every text and list of valid actions, number and end."""
    env, other = follow(number, lists=lists)
    assert other == []
    env.close()


@here
def test_one_thermometer_reads_two_degrees_less_than_recorded() -> None:
    """Where two things warm each other the order counts in which the package takes them, here and there."""
    env, other = follow(3)
    last = "use thermometer in inventory on sodium chloride in inventory"
    assert other == [last, "move sodium chloride in inventory to green box"]  # its warmth shows in one's hand
    env.close()


@here
def test_a_world_with_wires_goes_as_recorded_up_to_the_order_of_currents() -> None:
    """With the last recorded wire the lamp burns at once there; here, as there at another time, it takes the
    rest of the gold path."""
    env, other = follow(2, 9)
    assert other == ["", "open door to hallway"]  # of equal wires another is named first
    game = recorded("scienceworld_tour")["tasks"][2]
    moved = env.step(game["steps"][9]["action"])
    assert moved.observation.text == game["steps"][9]["observation"]
    assert (env.score(), game["steps"][9]["score"]) == (0.83, 100)
    for action in game["gold"][10:]:
        if env.step(action).done:
            break
    assert env.score() == 1.0
    env.close()


@here
@pytest.mark.slow
def test_a_world_of_chance_goes_as_recorded_up_to_the_first_draw() -> None:
    """The package's generator has another seed each time: bees fly elsewhere from the 47th action on. Until
    then 40 of 46 are equal to the letter; in the others the two seeds of a jar come out in another order."""
    env, other = follow(5, 46, lists=False)
    assert len(other) == 6
    env.close()


@here
def test_a_wrong_focus_ends_the_task_at_zero() -> None:
    env = made(asked("find-animal", 0))
    for step in recorded("scienceworld_tour")["wrong_end"]:
        moved = env.step(step["action"])
        assert alike(moved.observation.text, step["observation"])
        assert moved.done == step["done"]
        assert moved.valid == ("No known action" not in step["observation"])
    assert (env.score(), moved.reward) == (0.0, 0.0)
    again = env.step("look around")
    assert (again.done, again.valid, again.observation) == (True, False, moved.observation)
    env.close()


def all_of(admissible: tuple[str, ...]) -> str:
    """As the recording tells them, with the one that we leave out."""
    return hashlib.md5("\n".join(sorted([*admissible, "reset task"])).encode()).hexdigest()


@here
def test_valid_actions_are_listed_where_the_task_asks_for_them() -> None:
    game = recorded("scienceworld_tour")["tasks"][1]
    free = made(of_recording(game))
    assert free.observe().admissible == () and not free.observe().open
    task = of_recording(game)
    listed = made(Task("l", task.env, "g", 0, {**task.params, "list_actions": True}))
    seen = listed.observe()
    assert seen.open and len(seen.admissible) == game["initial"]["valid_count"] - 1
    assert list(seen.admissible) == sorted(set(seen.admissible)) and "reset task" not in seen.admissible
    assert all_of(seen.admissible) == game["initial"]["valid_md5"]
    for step in game["steps"][:4]:  # listing changes nothing
        mine, other = listed.step(step["action"]), free.step(step["action"])
        assert mine.observation.text == other.observation.text
        assert mine.observation.state_key == other.observation.state_key
        if "valid_md5" in step:
            assert all_of(mine.observation.admissible) == step["valid_md5"]
    free.close()
    listed.close()


@here
def test_reset_task_is_refused() -> None:
    env = made(asked("boil", 1))
    seen = env.observe()
    for action in ("reset task", " Reset  Task "):
        moved = env.step(action)
        assert (moved.valid, moved.done, moved.reward) == (False, False, 0.0)
        assert moved.observation.text == scienceworld.REFUSED
        assert moved.observation.state_key == seen.state_key
    assert env._world.ask("getNumMoves") == 0
    env.close()


@here
def test_where_it_is_unclear_what_is_meant_a_number_answers() -> None:
    env = made(asked("boil", 2, list_actions=True))
    plain = env.observe().state_key
    moved = env.step("look at substance")
    assert moved.valid and moved.observation.text.startswith("Ambiguous request: Please enter the number")
    assert moved.observation.admissible[:2] == ("0", "1") and moved.observation.state_key != plain
    answered = env.step("0")
    assert answered.valid and answered.observation.admissible[0] != "0"
    env.close()


@here
def test_facts_and_keys_are_of_the_true_state() -> None:
    env = made(asked("boil", 2))
    before, key = env.facts(), env.observe().state_key
    assert "agent in kitchen" in before and "cupboard is closed" in before
    assert env.step("look around").observation.state_key == key
    moved = env.step("open cupboard")
    assert moved.observation.state_key != key
    assert {"cupboard is open"} <= set(env.facts()) - set(before)
    assert env.step("wait1").observation.state_key != moved.observation.state_key  # time goes on
    env.close()


@here
def test_the_checker_finds_nothing() -> None:
    task = next(t for t in TASKS if t.params["task"] == "lifespan-longest-lived")
    other = next(t for t in TASKS if t.params["task"] == "find-animal")
    assert check(registry.spec("scienceworld").make, task, other=other, steps=12) == []


def free(task: Task, seed: int, steps: int) -> tuple[ScienceWorld, Iterator[Any]]:
    """An episode of free actions, drawn with a seed."""
    rng = random.Random(seed)
    env = made(task)
    return env, moves(env, (rng.choice(FREE) for _ in range(steps)), 0, steps)


def mixed(count: int) -> list[tuple[Task, int]]:
    """Episodes that share chance, counter and order: gardens with bees, paints, the same task twice."""
    tasks = [
        asked("grow-fruit", 3),
        asked("find-animal", 1),
        asked("find-animal", 1),
        asked("chemistry-mix", 2),
    ]
    return [(tasks[n % len(tasks)], n) for n in range(count)]


@here
def test_interleaved_episodes_are_as_one_by_one() -> None:
    jobs = mixed(6)
    alone = []
    for task, seed in jobs:
        env, going = free(task, seed, 5)
        alone.append(list(going))
        env.close()
    begun = [free(task, seed, 5) for task, seed in jobs]
    together: list[list[Any]] = [[] for _ in jobs]
    for _ in range(5):
        for number, (_, going) in enumerate(begun):
            together[number] += [move for move in [next(going, None)] if move is not None]
    assert together == alone
    for env, _ in begun:
        env.close()


@here
def test_the_seed_of_a_task_draws_what_chance_decides() -> None:
    def walk(seed: int) -> list[str]:
        env = made(asked("grow-fruit", 3, seed, simplifications=["easy"]))
        for action in ("teleport to greenhouse", "open bee hive", *["wait1"] * 8):
            env.step(action)
        seen = [fact for fact in env.facts() if fact.startswith("bee ")]
        env.close()
        return seen

    assert walk(0) == walk(0)
    assert len({tuple(walk(seed)) for seed in range(3)}) > 1


def digest() -> str:
    """Of a few traces, for a comparison between processes."""
    found = []
    for task, seed in mixed(3):
        env, going = free(task, seed, 5)
        found.append([env.observe(), *going])
        env.close()
    return hashlib.sha256(repr(found).encode()).hexdigest()


@here
def test_another_process_plays_the_same() -> None:
    code = "from tests.envs.test_scienceworld import digest; print(digest())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
        cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONHASHSEED": "7"},
    )  # fmt: skip
    assert done.stdout.strip() == digest(), done.stderr


def test_the_set_has_every_task_in_every_split() -> None:
    count = Counter((t.params["task"], t.split) for t in TASKS)
    assert {name for name, _ in count} == set(scienceworld.TASKS)
    assert {t.split for t in TASKS} == {"train", "dev", "test"}
    assert len({(t.params["task"], t.params["variation"]) for t in TASKS}) == len(TASKS)
    assert all(t.params["simplifications"] == ["easy"] for t in TASKS)
    assert registry.spec("scienceworld").max_steps(asked("boil", 0)) == 100


@here
def test_the_splits_are_the_packages_own() -> None:
    world = scienceworld.World("boil", 0, (), 0, False)
    for split in ("train", "dev", "test"):
        own = world.numbers(f"getVariations{split.title()}")
        assert {
            t.params["variation"] for t in TASKS if (t.params["task"], t.split) == ("boil", split)
        } <= set(own)
    world.close()


def full_marks(task: Task) -> None:
    env = made(task)
    plan = env.walkthrough()
    assert len(plan) <= registry.spec(task.env).max_steps(task)
    total = 0.0
    for action in plan:
        moved = env.step(action)
        total += moved.reward
        if moved.done:
            break
    assert (env.score(), moved.done) == (1.0, True), task
    assert total == pytest.approx(1.0)
    env.close()


@here
def test_some_gold_paths_score_full_marks() -> None:
    for name in ("find-animal", "lifespan-longest-lived", "identify-life-stages-2", "test-conductivity"):
        full_marks(next(t for t in TASKS if t.params["task"] == name and t.split == "test"))


@here
@pytest.mark.slow
@pytest.mark.parametrize("name", scienceworld.TASKS)
def test_the_gold_path_of_a_test_task_of_each_kind_scores_full_marks(name: str) -> None:
    full_marks(next(t for t in TASKS if t.params["task"] == name and t.split == "test"))


@here
def test_chance_is_far_from_full_marks() -> None:
    rng, scores = random.Random(0), []
    for name in ("boil", "find-plant", "lifespan-longest-lived"):
        env = made(asked(name, 0, list_actions=True, simplifications=["easy"]))
        for _ in range(10):
            if env.step(rng.choice(env.observe().admissible)).done:
                break
        scores.append(env.score())
        env.close()
    assert all(score < 0.5 for score in scores)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "params.task is None: one of boil"),
        ({"task": "boill", "variation": 0}, "did you mean 'boil'"),
        ({"task": "boil"}, "params.variation must be a whole number"),
        ({"task": "boil", "variation": -1}, "at least 0, found -1"),
        ({"task": "boil", "variation": 0, "simplifications": "easy"}, "a list of texts"),
        ({"task": "boil", "variation": 0, "simplifications": ["easier"]}, "did you mean 'easy'"),
        (
            {"task": "power-component", "variation": 0, "simplifications": ["noElectricalAction"]},
            "power-component needs electrical actions",
        ),
        ({"task": "boil", "variation": 0, "list_actions": 1}, "true or false"),
    ],
)
def test_what_is_wrong_with_a_task(params: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(Task("t", "scienceworld", "g", 0, params))


@here
def test_a_variation_that_is_none() -> None:
    with pytest.raises(
        ConfigError, match=r"does not load boil 999: .*exceeds the total number of variations"
    ):
        made(asked("boil", 999))


def test_the_names_are_those_of_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = registry.spec("scienceworld")
    assert (spec.blocking, spec.snapshots, spec.facts) == (True, False, True)
    assert "focus on X" in spec.vocabulary and "reset" not in spec.vocabulary
