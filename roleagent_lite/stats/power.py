"""The size of effect that n tasks can see, in numbers and words. SciPy and statsmodels do the arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roleagent_lite.stats.paired import Alternative


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
