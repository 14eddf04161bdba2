"""Intervals of a share: Wilson's, also where a task is played several times.

Owns the choice of interval for success. Leaves out comparisons (paired). No data is None, never nan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

LEVEL = 0.95
Scores = Mapping[str, Sequence[float | None]]  # one entry a repetition, by task; None = infrastructure error


def wilson(successes: int, n: int, level: float = LEVEL) -> tuple[float, float] | tuple[None, None]:
    """Wilson score interval of a share, both ends in 0..1; (None, None) where n is 0.

    7 of 10 gives 0.397 and 0.892. Raises ValueError for successes outside 0..n or a level outside 0..1.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: must lie in 0..n")
    if not 0 < level < 1:
        raise ValueError(f"level {level} must lie between 0 and 1")
    return _wilson(successes / n, n, level) if n else (None, None)


def _wilson(share: float, n: float, level: float) -> tuple[float, float]:
    # By hand: importing SciPy takes seconds that the partial report of an interrupted run has not got.
    z = NormalDist().inv_cdf((1 + level) / 2)
    reach = z * z / n
    middle = (share + reach / 2) / (1 + reach)
    half = z * math.sqrt((share * (1 - share) + reach / 4) / n) / (1 + reach)
    low = 0.0 if share <= 0 else middle - half
    high = 1.0 if share >= 1 else middle + half
    return max(0.0, low), min(1.0, high)


@dataclass(frozen=True, slots=True)
class Rate:
    """Success over `n` episodes of `tasks` tasks, in 0..1; all None where n is 0. `how`: the interval's name.

    `effective`: how many independent episodes the interval stands on; n where no task was repeated.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    tasks: int
    effective: float
    how: str


def known(scores: Scores) -> dict[str, list[float]]:
    """The entries that are not None, by task; tasks that have none are left out."""
    rows = {task: [v for v in row if v is not None] for task, row in scores.items()}
    return {task: row for task, row in rows.items() if row}


def success_rate(scores: Scores, level: float = LEVEL) -> Rate:
    """Share of solved episodes (entries 0 or 1; None is left out) with a Wilson interval.

    Repetitions of one task are no independent evidence: where a task has several, the interval is Wilson's on
    the effective number of episodes p (1 - p) / se^2, se the standard error clustered by task (statsmodels,
    no small-sample correction). So a deterministic system that is played three times gets the interval of
    playing it once, and pure noise that of three times as many tasks.
    """
    rows = known(scores)
    n, tasks = sum(map(len, rows.values())), len(rows)
    if not n:
        return Rate(None, None, None, 0, 0, 0.0, "no scored episode")
    mean = math.fsum(v for row in rows.values() for v in row) / n
    if n == tasks:
        return Rate(mean, *_wilson(mean, n, level), n, tasks, float(n), "Wilson")
    error = clustered_error(rows)
    effective = float(tasks) if error == 0 else min(float(n), max(1.0, mean * (1 - mean) / error**2))
    return Rate(mean, *_wilson(mean, effective, level), n, tasks, effective, "Wilson, clustered by task")


def clustered_error(rows: Mapping[str, Sequence[float]]) -> float:
    """Standard error of the mean over all entries, clustered by task; 0 where all tasks have one mean."""
    values = [v for row in rows.values() for v in row]
    if max(values) == min(values):
        return 0.0
    import numpy as np
    from statsmodels.regression.linear_model import OLS

    groups = np.repeat(np.arange(len(rows)), [len(row) for row in rows.values()])
    how = {"groups": groups, "use_correction": False}
    error = float(OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds=how).bse[0])
    return error if math.isfinite(error) and error > 1e-12 else 0.0
