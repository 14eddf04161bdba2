"""The checker: silent about good environments, one plain sentence for each fault."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.envs.checker import Limit, check, seed_ignored
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Observation, Task, Transition

TASK = Task("t1", "toy", "take the key", seed=3)


class Good:
    """A corridor: `on` three times leads to the key."""

    def __init__(self, task: Task) -> None:
        self.at = 0
        self.goal = task.goal

    def observe(self) -> Any:
        return Observation(f"{self.goal}: door {self.at}", ("on", "wait"))

    def step(self, action: str) -> Any:
        gained = action == "on" and self.at == 2
        self.at += action == "on" and self.at < 3
        return Transition(self.observe(), float(gained), self.at == 3)

    def score(self) -> Any:
        return float(self.at == 3)


class Leaves(Good):
    def step(self, action: str) -> Any:
        raise SystemExit(0)


def test_an_environment_that_ends_the_process_is_a_problem_not_a_pass() -> None:
    assert any("raised SystemExit(0)" in p for p in problems(Leaves))


def problems(factory: Callable[[Task], Any], **options: Any) -> list[str]:
    return check(factory, TASK, **options)


def one(factory: Callable[[Task], Any], said: str, **options: Any) -> None:
    found = problems(factory, **options)
    assert any(said in p for p in found), found
    assert all("\n" not in p and len(p) < 900 for p in found)


def test_a_good_environment_has_no_problems() -> None:
    assert problems(Good) == []
    assert problems(Good, other=Task("t2", "toy", "another goal")) == []


@pytest.mark.parametrize("tier", ["easy", "medium", "full"])
def test_household_has_no_problems(tier: str) -> None:
    tasks = load_tasks(f"household-{tier}", "dev")
    for task, other in itertools.pairwise(tasks[:7]):
        assert check(registry.spec("household").make, task, other=other) == []


def test_gym_shapes_are_no_problem() -> None:
    class Gym(Good):
        def step(self, action: str) -> Any:
            moved = super().step(action)
            return moved.observation.text, moved.reward, moved.done, False, {"admissible": ["on", "wait"]}

    class Reset(Gym):
        observe = property()

        def reset(self) -> Any:
            return f"{self.goal}: door {self.at}", {"admissible": ["on", "wait"]}

        def step(self, action: str) -> Any:
            self.at += action == "on"
            return f"door {self.at}", float(self.at == 3), self.at == 3, False, {"admissible": ["on", "wait"]}

    class Plain(Good):
        def observe(self) -> Any:
            return f"door {self.at}"

        def step(self, action: str) -> Any:
            self.at += 1
            return self.observe(), float(self.at == 3), self.at == 3, {}

    assert problems(Gym) == []
    assert problems(Reset) == []
    assert problems(Plain) == []


def test_env_08_an_environment_that_ignores_its_seed() -> None:
    source = random.Random(1)

    class Random(Good):
        def __init__(self, task: Task) -> None:
            super().__init__(task)
            self.goal = str(source.random())

    class Seeded(Good):
        def __init__(self, task: Task) -> None:
            super().__init__(task)
            self.goal = str(random.Random(task.seed).random())

    one(Random, "not reproducible: the same task and the same actions gave two different episodes")
    assert problems(Seeded) == []


def test_env_08_success_without_reward() -> None:
    class Unpaid(Good):
        def step(self, action: str) -> Any:
            moved = super().step(action)
            return Transition(moved.observation, 0.0, moved.done)

    one(Unpaid, "ended with score 1 but no step gave a reward")


def test_rewards_that_do_not_sum_to_the_score() -> None:
    class Generous(Good):
        def step(self, action: str) -> Any:
            moved = super().step(action)
            return Transition(moved.observation, 10 * moved.reward, moved.done)

    one(Generous, "sum to 10 but score() says 1; they should be equal")


def test_a_task_that_is_ignored() -> None:
    class Same(Good):
        def observe(self) -> Any:
            return Observation(f"door {self.at}", ("on",))

    assert problems(Same) == []
    one(Same, "the task is ignored", other=Task("t2", "toy", "another goal"))


def test_state_shared_between_episodes() -> None:
    class Shared(Good):
        place: ClassVar[list[int]] = [0]

        def __init__(self, task: Task) -> None:
            self.goal = "x"
            self.place[0] = 0

        @property
        def at(self) -> int:
            return self.place[0]

        @at.setter
        def at(self, value: int) -> None:
            self.place[0] = value

    one(Shared, "two episodes at the same time disturb each other")


def test_done_that_is_never_set() -> None:
    class Endless(Good):
        def step(self, action: str) -> Any:
            moved = super().step(action)
            return Transition(moved.observation, moved.reward, False)

    one(Endless, "done was never True in 4 episodes of 60 random actions")
    assert check(Endless, TASK, ending=False) == []

    class Planned(Endless):
        def walkthrough(self) -> list[str]:
            return ["on"] * 3

    one(Planned, "its own walkthrough() does not end the episode")


def test_a_hard_task_with_a_walkthrough_is_no_problem() -> None:
    class Hard(Good):
        def observe(self) -> Any:
            return Observation(f"door {self.at}", ("wait",))

        def walkthrough(self) -> list[str]:
            return ["on"] * 3

    assert problems(Hard) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "step('on'): step() returned NoneType"),
        (("door", 1.0), "a tuple of 2 (str, float)"),
        (("door", True, 1.0), "a tuple of 3 (str, bool, float)"),
        (("door", 1.0, True, "info"), "a tuple of 4 (str, float, bool, str)"),
        ({"reward": 1.0, "done": True}, "a dict with the keys reward, done"),
        ((None, 1.0, True), "no observation text: found NoneType None"),
    ],
)
def test_env_05_steps_of_an_unclear_shape(answer: Any, said: str) -> None:
    class Odd(Good):
        def observe(self) -> Any:
            return Observation("door", ("on",))

        def step(self, action: str) -> Any:
            return answer

    one(Odd, said)
    one(Odd, "must return roleagent_lite.types.Transition(observation, reward, done)")


@pytest.mark.parametrize("method", ["observe", "step", "score", "close"])
def test_exceptions_are_named(method: str) -> None:
    def fail(self: Any, *args: Any) -> Any:
        raise ZeroDivisionError("deep inside")

    broken = type("Broken", (Good,), {method: fail})
    one(broken, "raised ZeroDivisionError: deep inside")
    assert any(p.startswith(method) for p in problems(broken))


def test_what_cannot_be_made() -> None:
    one(lambda task: 1 / 0, "making it for a task raised ZeroDivisionError")
    one(lambda task: None, "making it for a task gives None; expected an environment")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "score() gives None"),
        ("high", "score() gives str 'high'; expected a number from 0 to 1"),
        (7, "score() gives 7; it must lie between 0 and 1"),
        (-0.5, "score() gives -0.5"),
        (float("nan"), "score() gives nan"),
    ],
)
def test_scores_out_of_range(value: Any, said: str) -> None:
    one(type("Odd", (Good,), {"score": lambda self: value}), said)


def test_missing_methods() -> None:
    class Bare:
        def __init__(self, task: Task) -> None:
            pass

    one(Bare, "there is no observe()")

    class Scoreless:
        def __init__(self, task: Task) -> None:
            self.inner = Good(task)
            self.observe, self.step = self.inner.observe, self.inner.step

    one(Scoreless, "there is no score()")


def test_observing_must_not_change_anything() -> None:
    class Ticking(Good):
        ticks = 0

        def observe(self) -> Any:
            self.ticks += 1
            return Observation(f"tick {self.ticks}", ("on",))

    one(Ticking, "observe() called twice gives two things")


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_observation(text: str) -> None:
    one(type("Mute", (Good,), {"observe": lambda self: text}), "observe() gives an empty text")


def test_slowness_is_measured_by_the_clock_given() -> None:
    seconds = itertools.count(0.0, 2.5)
    one(Good, "slow: 2.5 s a step on average", clock=lambda: next(seconds))
    assert problems(Good, clock=lambda: 0.0) == []


def test_it_closes_what_it_opens() -> None:
    opened: list[bool] = []

    class Closing(Good):
        def __init__(self, task: Task) -> None:
            super().__init__(task)
            opened.append(True)

        def close(self) -> None:
            opened.pop()

    assert problems(Closing) == []
    assert opened == []


def test_a_limit_ends_trials_at_any_moment_and_blames_nothing_that_was_cut() -> None:
    class Watched(Good):
        opened = 0

        def __init__(self, task: Task) -> None:
            super().__init__(task)
            Watched.opened += 1

        def close(self) -> None:
            Watched.opened -= 1

    ended = set()
    for seconds in (*range(40), 10_000):
        ticks = itertools.count()
        limit = Limit(float(seconds), clock=lambda ticks=ticks: float(next(ticks)))  # type: ignore[misc]
        assert problems(Watched, limit=limit, other=Task("t2", "toy", "another goal")) == []
        tasks = [Task(str(n), "toy", "g", seed=n) for n in range(3)]
        found = seed_ignored(Watched, tasks, limit=limit)
        assert bool(found) is not limit.stopped, "the corridor has no use for a seed"
        ended.add(limit.stopped)
    assert ended == {True, False} and Watched.opened == 0


def test_a_slow_environment_is_called_slow_though_its_trial_was_cut() -> None:
    ticks, seconds = itertools.count(), itertools.count(0.0, 3.0)

    class Long(Good):
        def step(self, action: str) -> Any:
            return Transition(self.observe(), 0.0, False)

    limit = Limit(5.0, clock=lambda: float(next(ticks)))
    assert problems(Long, limit=limit, clock=lambda: next(seconds)) == ["slow: 3.0 s a step on average"]
    assert limit.stopped
