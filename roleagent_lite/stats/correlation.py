"""Correlation of a measure with a yes/no outcome; the arithmetic is SciPy's. None where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roleagent_lite.stats.paired import TIE


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
