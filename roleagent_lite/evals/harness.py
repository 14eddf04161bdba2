"""Scores one agent or one system on a list of tasks: played once each at temperature 0 unless told otherwise.

Owns the Result row: which episodes count, its interval, its calls, tokens and time. Leaves out playing
(rollout, systems), what a suite is (suite), opening a run (play) and comparing two results (compare).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from roleagent_lite.config import RunConfig
from roleagent_lite.errors import ConfigError
from roleagent_lite.evals.suite import Assigned, Suite
from roleagent_lite.rollout import Episode, many, outline, play_many
from roleagent_lite.stats import spread, success_rate
from roleagent_lite.store import Run
from roleagent_lite.types import Agent, Listener, Result, System, Task, Trajectory, Usage


def result_of(
    suite: str,
    system: str,
    tasks: Sequence[Task],
    played: Sequence[Trajectory],
    usage: Usage,
    *,
    temperature: float | None = None,
    budget: str = "",
    model: str = "",
) -> Result:
    """The Result of `played`; its rows in task order, then by rollout, whatever ended first.

    A score is 1.0 for a solved episode and 0.0 for any other; None = infrastructure error, which is left out
    of `mean`, `low`, `high` (95 % Wilson, clustered by task where tasks are repeated) and `n`.
    """
    by_task: dict[str, list[Trajectory]] = {task.id: [] for task in tasks}
    for trajectory in played:
        by_task[trajectory.task].append(trajectory)
    ordered = {task: sorted(episodes, key=lambda t: t.rollout) for task, episodes in by_task.items()}
    scores = {
        task: tuple(float(t.solved) if t.outcome.scored else None for t in row)
        for task, row in ordered.items()
    }
    rate = success_rate(scores)
    return Result(
        suite, system, scores, rate.mean, rate.low, rate.high, rate.n, usage,
        values={
            task: tuple(t.score if t.outcome.scored else None for t in row) for task, row in ordered.items()
        },
        trajectories={task: tuple(t.id for t in row) for task, row in ordered.items()},
        calls=len(calls_of(played)),
        seconds=round(math.fsum(t.seconds for row in ordered.values() for t in row), 3),
        spread=spread(scores),
        temperature=temperature,
        budget=budget,
        model=model,
    )  # fmt: skip


def calls_of(played: Iterable[Trajectory]) -> list[str]:
    """Ids of all calls that went into these episodes, each once, those of no step among them."""
    ids: dict[str, None] = {}
    for trajectory in played:
        for step in trajectory.steps:
            ids.update(dict.fromkeys(step.call_ids))
        ids.update(dict.fromkeys(trajectory.other_calls))
    return list(ids)


def usage_of(run: Run, played: Iterable[Trajectory]) -> Usage:
    """Tokens and dollars of the calls these episodes are made of; None where it is unknown of any one.

    Read from the run's record, so that a resumed evaluation counts the same as an undisturbed one. A call
    that several episodes share is counted once.
    """
    total: dict[str, float | None] = dict.fromkeys(("input", "output", "cached", "reasoning", "dollars"), 0)
    for call_id in calls_of(played):
        call = run.calls.get(call_id)
        for name, so_far in total.items():
            value = getattr(call.reply.usage, name) if call is not None else None
            total[name] = None if so_far is None or value is None else so_far + value
    whole = {
        name: None if total[name] is None else int(total[name] or 0) for name in total if name != "dollars"
    }
    return Usage(**whole, dollars=total["dollars"])


async def score_agent(
    *,
    agent: Agent,
    tasks: Sequence[Task],
    run: Run,
    models: Any,
    config: RunConfig,
    suite: str,
    system: str,
    round: int,
    repetitions: int = 1,
    temperature: float = 0.0,
    predict: bool = False,
    listener: Listener | None = None,
    workers: int | None = None,
) -> Result:
    """Play `tasks` x `repetitions`, store trajectories and the Result row in `run`, give the Result.

    suite: the name of the task list ("test"); system: the name of what is scored ("seed"); a Result is keyed
    by both. models: the open pool (`lm.open_models`), for the agent's model name. predict: also ask for
    predictions, which cost tokens and enter no score. workers: default `config.workers`; the Result does not
    depend on it. Episodes that the run holds are not played again. Raises ConfigError for no tasks or
    repetitions under 1, and what ends a run (FatalModelError, BudgetStop).
    """
    if not tasks:
        raise ConfigError(f"suite '{suite}' has no tasks to play")
    if repetitions < 1:
        raise ConfigError(f"repetitions is {repetitions}; at least 1 is needed")
    episodes = [
        Episode(task, round, rollout, temperature, predict)
        for task in tasks
        for rollout in range(repetitions)
    ]
    model = models["agent"].name
    played = await play_many(
        agent,
        episodes,
        run=run,
        workers=workers or config.workers,
        model_name=model,
        wia=config.wia,
        listener=listener,
        stage=suite,
        keep=outline,
    )
    result = result_of(
        suite, system, tasks, played, usage_of(run, played), temperature=temperature, model=model
    )
    run.results.put(result)
    return result


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One task once, by the system made for one seed."""

    system: System
    assigned: Assigned
    rollout: int


async def play_system(
    systems: Sequence[System],
    suite: Suite,
    tasks: Sequence[Assigned],
    *,
    run: Run,
    workers: int,
    listener: Listener | None = None,
) -> Result:
    """Play one system on all tasks of a suite, store its Result row in `run` and give it.

    systems: the same system once for each seed of the suite, in their order; rollouts are numbered through
    all of them. Trajectories come in task order; those that the run holds are not played again. Raises
    ConfigError for no tasks, and what ends a run (FatalModelError, BudgetStop).
    """
    if not tasks:
        raise ConfigError(f"suite '{suite.name}' has no tasks to play")
    attempts = [
        _Attempt(system, assigned, number * suite.repetitions + repetition)
        for assigned in tasks
        for number, system in enumerate(systems)
        for repetition in range(suite.repetitions)
    ]

    async def solve(one: _Attempt) -> Trajectory:
        return await one.system.solve(
            one.assigned.task,
            round=0,
            rollout=one.rollout,
            temperature=suite.temperature,
            max_steps=one.assigned.max_steps,
        )

    first = systems[0]
    played = await many(
        attempts,
        solve,
        lambda one: one.assigned.task.env,
        run=run,
        workers=workers,
        listener=listener,
        stage=f"system {first.name}",
        keep=outline,
    )
    result = result_of(
        suite.name, first.name, [one.task for one in tasks], played, usage_of(run, played),
        temperature=suite.temperature, budget=suite.budget.words, model=first.model,
    )  # fmt: skip
    run.results.put(result)
    return result
