"""Scores one agent on a list of tasks: played once each at temperature 0 unless told otherwise.

Owns the Result row: which episodes count, its interval, its tokens. Leaves out playing (rollout) and
comparing two results (report).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from roleagent_lite.config import RunConfig
from roleagent_lite.errors import ConfigError
from roleagent_lite.rollout import Episode, play_many
from roleagent_lite.stats import wilson
from roleagent_lite.store import Run
from roleagent_lite.types import Agent, Listener, Result, Task, Trajectory, Usage


def result_of(
    suite: str, system: str, tasks: Sequence[Task], played: Sequence[Trajectory], usage: Usage
) -> Result:
    """The Result of `played`; `scores` in task order, then by rollout, whatever ended first.

    A score is 1.0 for a solved episode and 0.0 for any other; None = infrastructure error, which is left out
    of `mean`, `low`, `high` (95 % Wilson) and `n`.
    """
    by_task: dict[str, list[Trajectory]] = {task.id: [] for task in tasks}
    for trajectory in played:
        by_task[trajectory.task].append(trajectory)
    scores: dict[str, tuple[float | None, ...]] = {}
    for task, episodes in by_task.items():
        ordered = sorted(episodes, key=lambda t: t.rollout)
        scores[task] = tuple(float(t.solved) if t.outcome.scored else None for t in ordered)
    known = [s for row in scores.values() for s in row if s is not None]
    solved, n = round(math.fsum(known)), len(known)
    low, high = wilson(solved, n)
    return Result(suite, system, scores, solved / n if n else None, low, high, n, usage)


def usage_of(run: Run, played: Iterable[Trajectory]) -> Usage:
    """Tokens and dollars of the calls these episodes are made of; None where it is unknown of any one.

    Read from the run's record, so that a resumed evaluation counts the same as an undisturbed one.
    """
    total: dict[str, float | None] = dict.fromkeys(("input", "output", "cached", "reasoning", "dollars"), 0)
    for trajectory in played:
        for call_id in (c for step in trajectory.steps for c in step.call_ids):
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
    played = await play_many(
        agent,
        episodes,
        run=run,
        workers=workers or config.workers,
        model_name=models["agent"].name,
        wia=config.wia,
        listener=listener,
        stage=suite,
    )
    result = result_of(suite, system, tasks, played, usage_of(run, played))
    run.results.put(result)
    return result
