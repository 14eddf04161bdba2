"""pass@k and pass^k: what k samples of one task can do, from n samples of which c solved it.

Owns the unbiased estimators, by exact counting, and the words where there are too few samples or they were
not sampled at all. Source of pass@k: Chen et al., arXiv 2107.03374, Eq. 1; of pass^k: Yao et al., arXiv
2406.12045, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roleagent_lite.stats.intervals import Scores, known

SAMPLED_AT = 0.9  # the temperature at which a suite samples for these


def _checked(n: int, c: int, k: int) -> None:
    if k < 1 or not 0 <= c <= n:
        raise ValueError(f"n = {n} samples, c = {c} of them solved, k = {k}: needs 0 <= c <= n and k >= 1")


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Chance that at least one of k samples solves the task: 1 - C(n-c, k) / C(n, k), in 0..1.

    None where n < k: it needs at least k samples. n=300, c=1, k=100 gives 0.3333. Raises ValueError for k < 1
    or c outside 0..n.
    """
    _checked(n, c, k)
    return None if n < k else 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """Chance that all of k samples solve the task: C(c, k) / C(n, k). None and errors as in `pass_at_k`."""
    _checked(n, c, k)
    return None if n < k else math.comb(c, k) / math.comb(n, k)


@dataclass(frozen=True, slots=True)
class PassK:
    """Means over `tasks` tasks of pass@k (`any`) and pass^k (`every`), both None where `words` say why."""

    k: int
    any: float | None
    every: float | None
    tasks: int
    words: str


def passes(scores: Scores, temperature: float | None, ks: Sequence[int]) -> tuple[PassK, ...]:
    """pass@k and pass^k of a system for each k, over the tasks that have at least k scored samples.

    temperature: that of the episodes, None = unknown. At temperature 0 nothing is sampled and nothing is
    computed, unless k is 1. Raises ValueError for a k under 1.
    """
    rows = known(scores)
    return tuple(_over(rows, len(scores), temperature, k) for k in ks)


def _over(rows: dict[str, list[float]], played: int, temperature: float | None, k: int) -> PassK:
    if k < 1:
        raise ValueError(f"k = {k}: at least 1 is needed")
    if k > 1 and not temperature:
        state = "temperature 0" if temperature == 0 else "an unknown temperature"
        why = f"not computed: played at {state}, where repetitions are no samples; sample at {SAMPLED_AT}"
        return PassK(k, None, None, 0, why)
    enough = [(len(row), sum(v >= 1 for v in row)) for row in rows.values() if len(row) >= k]
    if not enough:
        most = max((len(row) for row in rows.values()), default=0)
        return PassK(k, None, None, 0, f"needs at least {k} samples a task, there are {most}")
    some = math.fsum(pass_at_k(n, c, k) or 0.0 for n, c in enough) / len(enough)
    every = math.fsum(pass_hat_k(n, c, k) or 0.0 for n, c in enough) / len(enough)
    words = f"pass@{k} {some:.4f}, pass^{k} {every:.4f} over {len(enough)} tasks"
    if short := played - len(enough):  # tasks without any scored sample among them
        words += f" ({short} with fewer than {k} samples left out)"
    return PassK(k, some, every, len(enough), words)
