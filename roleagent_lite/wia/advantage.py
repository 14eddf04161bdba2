"""How much better than its peers: the normalised difference from a group's mean (paper Eq. 1, 8).

Owns the arithmetic at both levels. Leaves out who the peers are (group, credit).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

EPSILON = 1e-6


def _divided(deviations: Sequence[float]) -> list[float]:
    std = math.sqrt(math.fsum(d * d for d in deviations) / (len(deviations) - 1))
    return [d / (std + EPSILON) for d in deviations]


# `mean_std` divides by the unbiased standard deviation + 1e-6, `mean` does not divide (GiGPO's option).
NORMALISERS: dict[str, Callable[[Sequence[float]], list[float]]] = {"mean_std": _divided, "mean": list}


def relative(values: Sequence[float], normalise: str) -> list[float]:
    """Advantage of each value among `values`: (v - mean) / (std + 1e-6), or v - mean.

    A group of one, and values that are all equal, give exactly 0. Paper Eq. 1 and 8.
    """
    if len(set(values)) < 2:
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    return NORMALISERS[normalise]([v - mean for v in values])


def within(
    rewards: Sequence[Sequence[float]], groups: Sequence[Sequence[int]], normalise: str
) -> list[tuple[float, ...]]:
    """A^S: each step's reward relative to the steps of its state group; both arguments rollout by rollout."""
    members: dict[int, list[float]] = {}
    for values, ids in zip(rewards, groups, strict=True):
        for value, number in zip(values, ids, strict=True):
            members.setdefault(number, []).append(value)
    # Steps are read back in the order in which they went in.
    waiting = {number: iter(relative(values, normalise)) for number, values in members.items()}
    return [tuple(next(waiting[number]) for number in ids) for ids in groups]
