"""Two systems on the same tasks: who wins how often, by how much, and whether it is more than noise.

Owns the choice of test and the words of a verdict; the arithmetic is SciPy's and statsmodels', imported on
use. Differences are second minus first; swapping the two mirrors every number exactly. No data is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from roleagent_lite.stats.intervals import LEVEL, Scores, known

TIE = 1e-9  # scores closer than this are equal: 0.1 + 0.2 ties with 0.3
NOISE = 0.05  # two-sided p from which a difference is called within noise
DRAWS = 9_999  # of the bootstrap and of the permutation test

Alternative = Literal["greater", "two-sided"]


def sign_test(wins: int, losses: int, alternative: Alternative = "greater") -> float:
    """Exact p of `wins` against `losses` under even odds; ties are no argument, they are left out.

    On paired yes/no outcomes this is the exact McNemar test. "greater": one-sided, for more wins than
    losses. No win and no loss is no evidence: 1.0. Raises ValueError for negative counts.
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"{wins} wins and {losses} losses: counts cannot be negative")
    if wins + losses == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses, 0.5, alternative=alternative).pvalue)


def mcnemar(wins: int, losses: int) -> float:
    """The exact two-sided McNemar p; 10 against 2 gives 0.0386. Same ties and errors as `sign_test`."""
    return sign_test(wins, losses, "two-sided")


def mcnemar_one_sided(wins: int, losses: int) -> float:
    """The exact one-sided McNemar p, for more wins than losses. Same ties and errors as `sign_test`."""
    return sign_test(wins, losses, "greater")


@dataclass(frozen=True, slots=True)
class Paired:
    """Two systems on their `n` common tasks. `difference` = mean of second minus first, in -1..1.

    `low`, `high`: interval of the difference, None where there is none (a single task, say). `wins`: tasks on
    which the second scored more. `p`: two-sided, of `test`, which names it.
    """

    n: int
    wins: int
    losses: int
    ties: int
    difference: float
    low: float | None
    high: float | None
    p: float
    test: str

    @property
    def win_rate(self) -> float:
        """Share of tasks won by the second, ties counting half, in 0..1."""
        return (self.wins + self.ties / 2) / self.n

    def within_noise(self, p: float | None = None) -> bool:
        """Whether no winner may be named: the interval covers 0, or p (perhaps corrected) is 0.05 or over."""
        apart = self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)
        return not apart or (self.p if p is None else p) >= NOISE


def task_means(scores: Scores) -> dict[str, float]:
    """`Result.scores` as one mean a task; None entries are left out, and tasks that have nothing else."""
    return {task: math.fsum(row) / len(row) for task, row in known(scores).items()}


def paired_difference(
    first: Mapping[str, float | None],
    second: Mapping[str, float | None],
    level: float = LEVEL,
    seed: int = 0,
) -> Paired | None:
    """Second minus first over the tasks that both scored (None is no score), with an interval and a test.

    Where every difference is -1, 0 or 1 (yes/no outcomes): the exact McNemar test, and the Wald interval with
    one more win and one more loss (Bonett and Price 2012), which does not shrink to a point when nothing
    changed. Else the sign-flip permutation test and the percentile bootstrap over tasks, 9,999 draws, seeded;
    no interval where all differ by one and the same amount. None where no task is common. Order of the tasks
    is no matter.
    """
    pairs = [(first[t], second[t]) for t in sorted(first.keys() & second.keys())]
    gains = [0.0 if abs(b - a) < TIE else b - a for a, b in pairs if a is not None and b is not None]
    if not gains:
        return None
    n, wins, losses = len(gains), sum(g > 0 for g in gains), sum(g < 0 for g in gains)
    low: float | None
    high: float | None
    if all(min(abs(g - k) for k in (-1, 0, 1)) < TIE for g in gains):
        low, high = _adjusted_wald(wins, losses, n, level)
        p, test = mcnemar(wins, losses), "exact McNemar"
    else:
        (low, high), p, test = _resampled(gains, level, seed)
    return Paired(
        n=n, wins=wins, losses=losses, ties=n - wins - losses, difference=math.fsum(gains) / n,
        low=low if n > 1 else None, high=high if n > 1 else None, p=p, test=test,
    )  # fmt: skip


def _adjusted_wald(wins: int, losses: int, n: int, level: float) -> tuple[float, float]:
    from scipy.stats import norm

    up, down = (wins + 1) / (n + 2), (losses + 1) / (n + 2)
    half = float(norm.ppf((1 + level) / 2)) * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    return max(-1.0, up - down - half), min(1.0, up - down + half)


def _resampled(
    gains: Sequence[float], level: float, seed: int
) -> tuple[tuple[float | None, float | None], float, str]:
    """Interval and p by resampling tasks. Drawn for the side that gains, so that a swap mirrors exactly."""
    name = "sign-flip permutation"
    if len(gains) < 2:
        return (None, None), 1.0, name
    alike = max(gains) - min(gains) < TIE  # nothing to resample: an interval of no width would be a lie
    import numpy as np
    from scipy.stats import bootstrap, permutation_test

    total = math.fsum(gains)
    behind = total < 0 or (total == 0 and next(g for g in gains if g) < 0)
    data = (np.asarray([-g for g in gains] if behind else gains),)
    p = float(permutation_test(data, np.mean, permutation_type="samples", n_resamples=DRAWS, rng=seed).pvalue)
    if alike:
        return (None, None), min(1.0, p), name
    drawn = bootstrap(
        data, np.mean, confidence_level=level, n_resamples=DRAWS, method="percentile", rng=seed
    ).confidence_interval
    low, high = float(drawn.low), float(drawn.high)
    return ((-high, -low) if behind else (low, high)), min(1.0, p), name


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction for several comparisons, in the order given; each at least as large."""
    if len(ps) < 2:
        return list(ps)
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests(ps, method="holm")[1]]


def points(value: float) -> str:
    """A difference of shares as `+12 percentage points`."""
    return f"{100 * value:+.0f} percentage points"


def p_words(p: float) -> str:
    """`= 0.62`, `= 0.031` or `< 0.001`: never a p of 0."""
    if p < 0.001:
        return "< 0.001"
    return f"= {p:.3f}" if p < NOISE else f"= {p:.2f}"


def verdict(paired: Paired, first: str, second: str, p: float | None = None, what: str = "solved") -> str:
    """One sentence: better, worse, or within noise; never a winner where `Paired.within_noise`.

    first, second: as they stand inside a sentence ("the seed prompt"). p: a corrected p in place of the
    pair's own. what: the verb of the measure ("solved", "scored").
    """
    own = paired.p if p is None else p
    mark = "two-sided p" if own == paired.p else "two-sided p, corrected,"
    if not paired.within_noise(p):
        side = "more" if paired.difference > 0 else "fewer"
        things = f"{side} tasks" if what == "solved" else {"more": "higher", "fewer": "lower"}[side]
        return f"That is more than noise ({mark} {p_words(own)}): {second} {what} {things} than {first}."
    if paired.wins == paired.losses == 0:
        return f"No difference was seen: {second} and {first} ended alike on every task."
    claim = "better" if paired.difference > 0 else "worse" if paired.difference < 0 else "any different"
    told = f"({mark} {p_words(own)})"
    return f"The difference is within noise {told}: this does not show that {second} is {claim}."
