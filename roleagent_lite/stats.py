"""Intervals, paired tests, correlation and the size of effect that n tasks can see.

Owns the choice of test and how a result is worded; the arithmetic is SciPy's and statsmodels', imported on
use. Nothing returns nan: no data is None. Differences are second minus first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

TIE = 1e-9  # scores closer than this are equal: 0.1 + 0.2 ties with 0.3
LEVEL = 0.95

Alternative = Literal["greater", "two-sided"]


def wilson(successes: int, n: int, level: float = LEVEL) -> tuple[float, float] | tuple[None, None]:
    """Wilson score interval of a share, both ends in 0..1; (None, None) where n is 0.

    7 of 10 gives 0.397 and 0.892. Raises ValueError for successes outside 0..n or a level outside 0..1.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: must lie in 0..n")
    if not 0 < level < 1:
        raise ValueError(f"level {level} must lie between 0 and 1")
    if n == 0:
        return None, None
    # By hand: importing SciPy takes seconds that the partial report of an interrupted run has not got.
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, reach = successes / n, z * z / n
    middle = (share + reach / 2) / (1 + reach)
    half = z * math.sqrt((share * (1 - share) + reach / 4) / n) / (1 + reach)
    low = 0.0 if successes == 0 else middle - half
    high = 1.0 if successes == n else middle + half
    return max(0.0, low), min(1.0, high)


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


# --- two systems on the same tasks --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Paired:
    """Two systems on their `n` common tasks. `difference` = mean of second minus first, in -1..1.

    `low`, `high`: interval of the difference, None for fewer than 2 tasks. `wins`: tasks on which the second
    scored more. `better`, `differs`: one-sided (second better) and two-sided p of the sign test.
    """

    n: int
    wins: int
    losses: int
    ties: int
    difference: float
    low: float | None
    high: float | None
    better: float
    differs: float

    @property
    def win_rate(self) -> float:
        """Share of tasks won by the second, ties counting half, in 0..1."""
        return (self.wins + self.ties / 2) / self.n


def task_means(scores: Mapping[str, Sequence[float | None]]) -> dict[str, float]:
    """`Result.scores` as one mean a task; None entries are left out, and tasks that have nothing else."""
    known = {task: [v for v in values if v is not None] for task, values in scores.items()}
    return {task: math.fsum(values) / len(values) for task, values in known.items() if values}


def paired_difference(
    first: Mapping[str, float | None],
    second: Mapping[str, float | None],
    level: float = LEVEL,
    seed: int = 0,
) -> Paired | None:
    """Second minus first over the tasks that both scored (None is no score), with an interval.

    Where every difference is -1, 0 or 1 (yes/no outcomes): the Wald interval with one more win and one more
    loss (Bonett and Price 2012), which does not shrink to a point when nothing changed. Else the percentile
    bootstrap over tasks, 9,999 draws, seeded. None where no task is common. Order of the tasks is no matter.
    """
    pairs = [(first[t], second[t]) for t in sorted(first.keys() & second.keys())]
    gains = [0.0 if abs(b - a) < TIE else b - a for a, b in pairs if a is not None and b is not None]
    if not gains:
        return None
    n, wins, losses = len(gains), sum(g > 0 for g in gains), sum(g < 0 for g in gains)
    yes_no = all(min(abs(g - k) for k in (-1, 0, 1)) < TIE for g in gains)
    low, high = _adjusted_wald(wins, losses, n, level) if yes_no else _bootstrap(gains, level, seed)
    return Paired(
        n=n, wins=wins, losses=losses, ties=n - wins - losses, difference=math.fsum(gains) / n,
        low=low if n > 1 else None, high=high if n > 1 else None,
        better=sign_test(wins, losses), differs=mcnemar(wins, losses),
    )  # fmt: skip


def _adjusted_wald(wins: int, losses: int, n: int, level: float) -> tuple[float, float]:
    from scipy.stats import norm

    up, down = (wins + 1) / (n + 2), (losses + 1) / (n + 2)
    half = float(norm.ppf((1 + level) / 2)) * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    return max(-1.0, up - down - half), min(1.0, up - down + half)


def _bootstrap(gains: Sequence[float], level: float, seed: int) -> tuple[float, float] | tuple[None, None]:
    if len(gains) < 2:
        return None, None
    import numpy as np
    from scipy.stats import bootstrap

    drawn = bootstrap((np.asarray(gains),), np.mean, confidence_level=level, method="percentile", rng=seed)
    return float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)


# --- correlation --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Correlation:
    """r in -1..1, two-sided p, n pairs."""

    r: float
    p: float
    n: int


def point_biserial(values: Sequence[float], flags: Sequence[bool]) -> Correlation | None:
    """Correlation of a measure with a yes/no outcome.

    None for fewer than 3 pairs, or where all values or all flags are equal: there is none then, not 0.
    Raises ValueError where the lengths differ.
    """
    if len(values) != len(flags):
        raise ValueError(f"{len(values)} values but {len(flags)} flags")
    if len(values) < 3 or len(set(flags)) < 2 or max(values) - min(values) < TIE:
        return None
    from scipy.stats import pointbiserialr

    found = pointbiserialr([bool(f) for f in flags], list(values))
    return Correlation(float(found.statistic), float(found.pvalue), len(values))


# --- what n can see -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Detectable:
    """The smallest improvement that a comparison finds with the power asked for.

    `difference`: in shares (0.25 = 25 percentage points), None where even success on every task would not
    be found. Paired: the two systems' outcomes on a task are taken as independent; `at_best` is the same
    where no solved task is lost again. `words` says it for a report.
    """

    n: int
    base: float
    difference: float | None
    at_best: float | None
    words: str


def detectable_effect(
    n: int,
    base: float,
    power: float = 0.8,
    alpha: float = 0.05,
    *,
    paired: bool = True,
    alternative: Alternative = "greater",
) -> Detectable:
    """The improvement over success share `base` (0..1) that `n` tasks (n each, if not paired) can see.

    Paired: the exact power of the sign test. Not paired: the normal approximation on the arcsine scale
    (statsmodels' NormalIndPower). Raises ValueError for a base, power or alpha outside 0..1, or negative n.
    """
    if n < 0 or not 0 <= base <= 1 or not 0 < power < 1 or not 0 < alpha < 1:
        raise ValueError(f"n = {n}, base = {base}, power = {power}, alpha = {alpha}: out of range")
    if paired:
        difference = _smallest(n, base, power, alpha, alternative, losses=True)
        at_best = _smallest(n, base, power, alpha, alternative, losses=False)
    else:
        difference = at_best = _smallest_unpaired(n, base, power, alpha, alternative)
    return Detectable(
        n,
        base,
        difference,
        at_best,
        _words(n, base, difference, at_best, _terms(power, alpha, alternative), paired),
    )


def _power(n: int, up: float, down: float, alpha: float, alternative: Alternative) -> float:
    """Chance that the sign test finds "second better", with chances `up` and `down` of a win and a loss."""
    import numpy as np
    from scipy.stats import binom

    decided = np.arange(n + 1)
    one_sided = alpha if alternative == "greater" else alpha / 2
    needed = binom.isf(one_sided, decided, 0.5) + 1  # fewest wins among `decided` with p <= alpha
    share = up / (up + down) if up + down else 0.0
    found = binom.sf(needed - 1, decided, share)
    return float(np.sum(binom.pmf(decided, n, min(1.0, up + down)) * found))


def _smallest(
    n: int, base: float, power: float, alpha: float, alternative: Alternative, *, losses: bool
) -> float | None:
    def short(gain: float) -> float:
        after = base + gain
        up, down = ((1 - base) * after, base * (1 - after)) if losses else (gain, 0.0)
        return _power(n, up, down, alpha, alternative) - power

    most = 1 - base
    if n == 0 or most <= 0 or short(most) < 0:
        return None
    from scipy.optimize import brentq

    return float(brentq(short, 0.0, most, xtol=1e-6))


def _smallest_unpaired(
    n: int, base: float, power: float, alpha: float, alternative: Alternative
) -> float | None:
    if n == 0 or base >= 1:
        return None
    from statsmodels.stats.power import NormalIndPower

    side = "larger" if alternative == "greater" else alternative
    effect = NormalIndPower().solve_power(nobs1=n, alpha=alpha, power=power, alternative=side)
    angle = math.asin(math.sqrt(base)) + float(effect) / 2
    return math.sin(angle) ** 2 - base if angle <= math.pi / 2 else None


def _terms(power: float, alpha: float, alternative: Alternative) -> str:
    side = "two-sided" if alternative == "two-sided" else "one-sided"
    return f"{side} p < {alpha:g}, {power:.0%} power"


def _words(
    n: int, base: float, difference: float | None, best: float | None, terms: str, paired: bool
) -> str:
    who = f"{n} paired tasks" if paired else f"{n} tasks each"
    if difference is None or best is None:  # both at once: at the top no solved task is left to lose
        return f"{who} cannot show an improvement over {base:.0%} ({terms})"
    text = f"{who} show an improvement over {base:.0%} from {100 * difference:.0f} percentage points on"
    if difference - best >= 0.005:
        text += f" ({100 * best:.0f} if no solved task is lost again)"
    return f"{text}, {terms}"
