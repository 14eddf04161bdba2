"""Says what is wrong with an environment, in plain words, before money is spent on it.

Owns short trial episodes and the sentences about them. Leaves out reading odd shapes (adapt.py): what is
merely unusual but understood is not a problem here.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from roleagent_lite.envs.adapt import describe, read_observation, read_reset, read_transition
from roleagent_lite.errors import EnvironmentFault, MissingExtra
from roleagent_lite.types import Observation, Task, Transition

STEPS = 60  # of a trial episode
SLOW = 1.0  # seconds a step on average
SECONDS = 30.0  # that all trial episodes of one command may take
PROBES = ("look", "help", "0", "hello")  # tried where an environment lists no actions


@dataclass(slots=True)
class Limit:
    """Seconds that trial episodes may take in all, from the making of this on; looked at before each step.

    `stopped` says whether it ended any. A step that never returns is the caller's to end.
    """

    seconds: float = SECONDS
    clock: Callable[[], float] = time.monotonic
    stopped: bool = False
    _begun: float = field(init=False)

    def __post_init__(self) -> None:
        self._begun = self.clock()

    def over(self) -> bool:
        self.stopped = self.stopped or self.clock() - self._begun >= self.seconds
        return self.stopped


@dataclass(slots=True)
class _Trial:
    """What one episode showed: texts, rewards and flags in order; problems in words."""

    seen: list[Any] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    total: float = 0.0
    done: bool = False
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    score: float | None = None


def _guard(trial: _Trial, what: str, call: Callable[[], Any]) -> Any:
    """The call's value; None and a problem where it raised."""
    try:
        return call()
    except MissingExtra:  # nothing is wrong with the environment: something is to be installed or fetched
        raise
    except EnvironmentFault as error:
        trial.problems.append(f"{what}: {error}")
    except SystemExit as error:  # would end the check, with the code of a good one if it is 0
        trial.problems.append(f"{what} raised SystemExit({error.code!r})"[:200])
    except Exception as error:  # noqa: BLE001  # border: a stranger's environment
        trial.problems.append(f"{what} raised {type(error).__name__}: {str(error)[:200]}")
    return None


def _look(trial: _Trial, env: Any, task: Task) -> Observation | None:
    if not hasattr(env, "observe"):
        if not hasattr(env, "reset"):
            trial.problems.append("there is no observe(); it gives the current Observation or its text")
            return None
        first: Observation | None = _guard(trial, "reset()", lambda: read_reset(env, task))
        return first
    seen: Observation | None = _guard(trial, "observe()", lambda: read_observation(env.observe()))
    again = None if seen is None else _guard(trial, "observe()", lambda: read_observation(env.observe()))
    if seen is not None and again is not None and seen != again:
        trial.problems.append("observe() called twice gives two things; it must not change the episode")
    if seen is not None and not seen.text.strip():
        trial.problems.append("observe() gives an empty text; the agent sees nothing")
    return seen


def _score(trial: _Trial, env: Any) -> None:
    if not hasattr(env, "score"):
        trial.problems.append("there is no score(); it gives the episode's score, a number from 0 to 1")
        return
    value = _guard(trial, "score()", env.score)
    if value is None:
        if not trial.problems:
            trial.problems.append("score() gives None; expected a number from 0 to 1")
    elif isinstance(value, str) or not hasattr(value, "__float__"):
        trial.problems.append(f"score() gives {describe(value)}; expected a number from 0 to 1")
    elif not 0.0 <= float(value) <= 1.0:
        trial.problems.append(f"score() gives {float(value):g}; it must lie between 0 and 1")
    else:
        trial.score = float(value)


def _step(trial: _Trial, env: Any, action: str, clock: Callable[[], float]) -> Transition | None:
    begun = clock()
    moved: Transition | None = _guard(trial, f"step({action!r})", lambda: read_transition(env.step(action)))
    trial.seconds += clock() - begun
    trial.actions.append(action)
    if moved is not None:
        trial.total += moved.reward
        trial.done = moved.done
        trial.seen.append((moved.observation, moved.reward, moved.done))
    return moved


def _walk(env: Any, script: list[str] | None, rng: random.Random, seen: Observation) -> str | None:
    if script is not None:
        return script.pop(0) if script else None
    return rng.choice(seen.admissible or PROBES)


def _play(
    make: Callable[[Task], Any],
    task: Task,
    seed: int,
    steps: int,
    clock: Callable[[], float],
    script: list[str] | None = None,
    limit: Limit | None = None,
) -> _Trial:
    """One episode: the script's actions, else random ones, up to the first problem, done or the end."""
    trial, rng = _Trial(), random.Random(seed)
    env = _guard(trial, "making it for a task", lambda: make(task))
    if env is None:
        if not trial.problems:
            trial.problems.append("making it for a task gives None; expected an environment")
        return trial
    try:
        seen = _look(trial, env, task)
        trial.seen.append(seen)
        rest = None if script is None else list(script)
        while seen is not None and not trial.problems and not trial.done and len(trial.actions) < steps:
            action = _walk(env, rest, rng, seen)
            if action is None or _over(limit):
                break
            moved = _step(trial, env, action, clock)
            seen = None if moved is None else moved.observation
        if seen is not None or not trial.problems:
            _score(trial, env)
    finally:
        _close(trial, env)
    return trial


def _over(limit: Limit | None) -> bool:
    return limit is not None and limit.over()


def _one_step(env: Any, action: str) -> Transition:
    return read_transition(env.step(action))


def _interleaved(
    make: Callable[[Task], Any], task: Task, actions: list[str], limit: Limit | None = None
) -> list[str] | None:
    """The texts of an episode while another is played between its steps; None where one raised."""
    trial = _Trial()
    pair = [_guard(trial, "", partial(make, task)) for _ in range(2)]
    texts = []
    for env in pair if not trial.problems else ():
        _look(trial, env, task)
    for action in actions if not trial.problems else ():
        if _over(limit):
            break
        moved = [_guard(trial, "", partial(_one_step, env, action)) for env in pair]
        if trial.problems:
            break
        texts.append(moved[0].observation.text)
    for env in pair:
        _close(trial, env)
    return None if trial.problems else texts


def _close(trial: _Trial, env: Any) -> None:
    if hasattr(env, "close"):
        _guard(trial, "close()", env.close)


def _rewards(trial: _Trial) -> list[str]:
    """Whether rewards and score tell the same story."""
    if trial.score is None or trial.problems:
        return []
    if trial.done and trial.score > 0 and trial.total == 0:
        return [f"the episode ended with score {trial.score:g} but no step gave a reward"]
    if abs(trial.total - trial.score) > 1e-6:
        return [
            f"the rewards of an episode sum to {trial.total:g} but score() says {trial.score:g}; "
            "they should be equal"
        ]
    return []


def _winning(make: Callable[[Task], Any], task: Task) -> list[str] | None:
    """The environment's own winning plan, where it has one (`walkthrough()`)."""
    trial = _Trial()
    env = _guard(trial, "", lambda: make(task))
    plan = _guard(trial, "", env.walkthrough) if hasattr(env, "walkthrough") else None
    _close(trial, env)
    return list(plan) if plan else None


def check(
    make: Callable[[Task], Any],
    task: Task,
    *,
    other: Task | None = None,
    steps: int = STEPS,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    limit: Limit | None = None,
    ending: bool = True,
) -> list[str]:
    """Problems of an environment, one sentence each; empty = none found.

    make: the class or function that takes a Task; other: a second task that must begin differently; steps:
    the length of trial episodes (random actions with the given seed, and the environment's own
    `walkthrough()` if it has one); clock: seconds, for the speed test; limit: ends the trials early, then
    what was found up to there comes back and `limit.stopped` is true; ending: whether it is a problem that
    no random play ends an episode where there is no plan (not of our worlds, where a form of words ends it).
    """
    trial = _play(make, task, seed, steps, clock, limit=limit)
    if trial.problems:
        return list(dict.fromkeys(trial.problems))
    problems = _rewards(trial)
    looks: tuple[Callable[[], list[str]], ...] = (
        lambda: _repeated(make, task, trial, seed, steps, clock, limit),
        lambda: [] if other is None else _other(make, other, trial, seed, clock),
        lambda: _ending(make, task, trial, seed, steps, clock, limit, ending),
    )
    for look in looks:
        if _over(limit):
            break
        found = look()
        if not _over(limit):  # what was cut short says nothing
            problems += found
    if trial.actions and trial.seconds / len(trial.actions) > SLOW:
        problems.append(f"slow: {trial.seconds / len(trial.actions):.1f} s a step on average")
    return list(dict.fromkeys(problems))


def _repeated(
    make: Callable[[Task], Any],
    task: Task,
    trial: _Trial,
    seed: int,
    steps: int,
    clock: Callable[[], float],
    limit: Limit | None,
) -> list[str]:
    """Whether the same actions give the same episode, alone and beside another."""
    again = _play(make, task, seed, steps, clock, trial.actions, limit)
    if again.seen != trial.seen or again.score != trial.score:
        return [
            "not reproducible: the same task and the same actions gave two different episodes; draw "
            "everything random from the task's seed"
        ]
    if not trial.actions or _interleaved(make, task, trial.actions, limit) == [
        seen[0].text for seen in trial.seen[1:]
    ]:
        return []
    return [
        "two episodes at the same time disturb each other; keep all state in the instance, none in "
        "the class or module"
    ]


def _other(
    make: Callable[[Task], Any], other: Task, trial: _Trial, seed: int, clock: Callable[[], float]
) -> list[str]:
    """Whether another task begins differently."""
    if _play(make, other, seed, 0, clock).seen != trial.seen[:1]:
        return []
    return ["the task is ignored: two different tasks begin with the same observation"]


def seed_ignored(
    make: Callable[[Task], Any],
    tasks: Sequence[Task],
    *,
    steps: int = STEPS,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    limit: Limit | None = None,
) -> list[str]:
    """One sentence where tasks that differ by seed alone give one and the same episode; else nothing.

    The same actions are played in each of `tasks` (at least two, else nothing is said). A beginning that is
    alike is no fault: what is hidden may differ.
    """
    if len({task.seed for task in tasks}) < 2:
        return []
    first = _play(make, tasks[0], seed, steps, clock, limit=limit)
    if first.problems or _over(limit):
        return []  # `check` has told it
    for other in tasks[1:]:
        again = _play(make, other, seed, steps, clock, first.actions, limit)
        if _over(limit):
            return []
        if again.problems or again.seen[: len(first.seen)] != first.seen or again.score != first.score:
            return []
    return [
        f"the seed is ignored: {len(tasks)} tasks with different seeds are one and the same episode; draw "
        "what differs from task.seed"
    ]


def _ending(
    make: Callable[[Task], Any],
    task: Task,
    trial: _Trial,
    seed: int,
    steps: int,
    clock: Callable[[], float],
    limit: Limit | None,
    asked: bool,
) -> list[str]:
    """Whether `done` is ever set: by random play, else by the environment's own plan."""
    plan = _winning(make, task)
    if plan is not None:
        won = _play(make, task, seed, len(plan), clock, plan, limit)
        if won.problems:
            return won.problems
        if not won.done:
            return [
                "its own walkthrough() does not end the episode: done is still False after the last action"
            ]
        return _rewards(won)
    if (
        not asked
        or trial.done
        or any(_play(make, task, seed + k, steps, clock, limit=limit).done for k in range(1, 4))
    ):
        return []
    return [
        f"done was never True in 4 episodes of {steps} random actions; that is fine for a hard task, but "
        "make sure that step() sets it (or give the environment a walkthrough() so that this can be tested)"
    ]
