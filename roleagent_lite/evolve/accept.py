"""Whether a child enters the pool: comparisons of parent and child over the same tasks and seeds.

Owns the criteria by name and the words of the reason. Leaves out how a rollout is scored (played) and
which candidate is kept in the end (select).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.evolve.played import Played

_SAME = 1e-9  # means over two and over three rollouts that are equal on paper may differ in the last bit


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts are tasks; a task that could not be scored for both is in none of them."""

    accepted: bool
    wins: int
    losses: int
    ties: int
    reason: str


Criterion = Callable[[Sequence[Played], Sequence[Played]], Verdict]


def _pairs(parent: Sequence[Played], child: Sequence[Played]) -> list[tuple[Played, Played]]:
    if [p.task.id for p in parent] != [c.task.id for c in child]:
        raise ValueError("parent and child must have played the same tasks in the same order")
    return [
        (p, c) for p, c in zip(parent, child, strict=True) if p.success is not None and c.success is not None
    ]


def _count(pairs: Sequence[tuple[Played, Played]]) -> tuple[int, int, int]:
    gains = [(c.success or 0.0) - (p.success or 0.0) for p, c in pairs]
    wins, losses = sum(g > _SAME for g in gains), sum(g < -_SAME for g in gains)
    return wins, losses, len(gains) - wins - losses


def paired(parent: Sequence[Played], child: Sequence[Played]) -> Verdict:
    """More tasks won than lost; a tie goes to the higher mean sum_t R_t, and else to the parent.

    Both sequences hold the same tasks in the same order. A task is won where the child's mean success over
    its rollouts is higher. Raises ValueError where the tasks differ.
    """
    pairs = _pairs(parent, child)
    wins, losses, ties = _count(pairs)
    score = f"{wins} won, {losses} lost, {ties} equal"
    if wins != losses:
        return Verdict(wins > losses, wins, losses, ties, score)
    both = [(p.foresight, c.foresight) for p, c in pairs]
    known = [(p, c) for p, c in both if p is not None and c is not None]
    if not known:
        return Verdict(False, wins, losses, ties, f"{score}; no return to compare")
    before, after = sum(p for p, _ in known) / len(known), sum(c for _, c in known) / len(known)
    words = f"{score}; mean modulated return {before:.3f} then {after:.3f}"
    return Verdict(after > before + _SAME, wins, losses, ties, words)


def score(parent: Sequence[Played], child: Sequence[Played]) -> Verdict:
    """A strictly higher sum of mean successes: GEPA's own rule. Raises ValueError where the tasks differ."""
    pairs = _pairs(parent, child)
    wins, losses, ties = _count(pairs)
    before, after = sum(p.success or 0.0 for p, _ in pairs), sum(c.success or 0.0 for _, c in pairs)
    return Verdict(
        after > before + _SAME, wins, losses, ties, f"summed success {before:.2f} then {after:.2f}"
    )


ACCEPT: dict[str, Criterion] = {"paired": paired, "score": score}


def criterion(name: str) -> Criterion:
    """The criterion of that name. Raises ConfigError with the nearest name."""
    if name not in ACCEPT:
        raise ConfigError(f"evolve.accept: no criterion '{name}'{nearest(name, ACCEPT)}")
    return ACCEPT[name]
