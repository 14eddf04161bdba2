"""Played: one task's rollouts under one prompt set in one round, with their credits.

Owns the two numbers by which candidates are compared. Leaves out playing (adapter) and comparing (accept).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roleagent_lite.types import Credit, Task, Trajectory


@dataclass(frozen=True, slots=True)
class Played:
    """The rollouts of one task, in rollout order; `credits` by trajectory id (empty where none was given)."""

    task: Task
    trajectories: tuple[Trajectory, ...]
    credits: Mapping[str, Credit] = field(default_factory=dict)

    @property
    def scored(self) -> tuple[Trajectory, ...]:
        """Rollouts that count: all but those that ended in an infrastructure error."""
        return tuple(t for t in self.trajectories if t.outcome.scored)

    @property
    def success(self) -> float | None:
        """Mean success over the scored rollouts, 0..1; None where none could be scored."""
        scored = self.scored
        return sum(t.solved for t in scored) / len(scored) if scored else None

    @property
    def foresight(self) -> float | None:
        """Mean over the credited rollouts of sum_t R_t, the modulated return (arXiv 2606.10917 Eq. 6)."""
        sums = [sum(self.credits[t.id].reward) for t in self.scored if t.id in self.credits]
        return sum(sums) / len(sums) if sums else None

    @property
    def failures(self) -> tuple[Trajectory, ...]:
        """Rollouts that failed in a way that teaches (lost, step limit, loop, bad format)."""
        return tuple(t for t in self.trajectories if t.outcome.teaches and not t.solved)
