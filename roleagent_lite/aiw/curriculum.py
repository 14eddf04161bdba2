"""The curriculum: how often each training task is drawn, from what retrieval chose and what was solved.

Owns rule 6 of the method (spec section 3): counts, probabilities and the seeded draw. Pure: no I/O, no
clock, no weights changed in place. Leaves out how tasks are chosen (`aiw/retrieve.py`) and recording.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from roleagent_lite.errors import RoleAgentError, nearest

FORGET_BELOW = 0.05  # a count under this is 0
CAP = 0.25  # no task gets more than max(CAP, 2/N)


@dataclass(frozen=True, slots=True)
class Curriculum:
    """Counts c over N training tasks; a new round gives a new Curriculum.

    task_ids: N unique ids, in a fixed order (the order decides the draw, so keep the task file's).
    rho: 0..1, the most that the counts may take from uniform. decay: 0..1, what is left of c after a round.
    counts: c, one a task, all 0 at the start. Raises RoleAgentError on no tasks or doubled ids.
    """

    task_ids: tuple[str, ...]
    rho: float
    decay: float
    seed: int
    counts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.task_ids:
            raise RoleAgentError(
                "the curriculum has no training tasks; the task set needs rows of split train"
            )
        if len(set(self.task_ids)) != len(self.task_ids):
            raise RoleAgentError("the curriculum got a task id twice; give each task its own id")
        if not self.counts:
            object.__setattr__(self, "counts", (0.0,) * len(self.task_ids))

    @classmethod
    def start(cls, task_ids: Iterable[str], rho: float, decay: float, seed: int) -> Curriculum:
        """All counts 0: uniform."""
        return cls(tuple(task_ids), rho, decay, seed)

    def replay(self, rounds: Iterable[tuple[Sequence[str], Collection[str]]]) -> Curriculum:
        """The curriculum after recorded rounds of (chosen, solved), oldest first."""
        current = self
        for chosen, solved in rounds:
            current = current.update(chosen, solved)
        return current

    def update(self, chosen: Sequence[str], solved: Collection[str]) -> Curriculum:
        """The curriculum after a round.

        chosen: task ids, one entry each time a task was chosen, repeats count. solved: ids of tasks whose
        scored rollouts were all solved. In this order (spec section 3, rule 6): c <- decay * c; halve where
        solved; add the chosen; what is under 0.05 becomes 0. Raises RoleAgentError on an id that is no
        training task.
        """
        known = set(self.task_ids)
        for task in (*chosen, *solved):
            if task not in known:
                raise RoleAgentError(f"'{task}' is no training task{nearest(task, known)}")
        halved = set(solved)
        after = []
        for task, count in zip(self.task_ids, self.counts, strict=True):
            faded = self.decay * count * (0.5 if task in halved else 1.0)
            grown = faded + sum(1 for c in chosen if c == task)
            after.append(0.0 if grown < FORGET_BELOW else grown)
        return Curriculum(self.task_ids, self.rho, self.decay, self.seed, tuple(after))

    def probabilities(self) -> dict[str, float]:
        """p by task id; sums to 1, none under (1 - rho)/N, none over max(0.25, 2/N).

        With C = sum(c): rho_k = rho C/(C + 1), p_i = (1 - rho_k)/N + rho_k c_i/C; uniform when C = 0. Then
        the cap (spec section 3, rule 6), which gives its excess to the rest in proportion to their p.
        """
        n, total = len(self.task_ids), sum(self.counts)
        rho_k = self.rho * total / (total + 1)
        p = [(1 - rho_k) / n + self.rho * c / (total + 1) for c in self.counts]  # rho_k c/C without the 0/0
        return dict(zip(self.task_ids, _capped(p, max(CAP, 2 / n)), strict=True))

    def draw(self, k: int, round: int) -> list[str]:
        """k different task ids for one round (all N where k > N), the same for the same seed and round.

        Successive sampling: draw one id in proportion to p, take it out, draw the next in proportion to
        the p of those left. This flattens p a little, never the other way: a task whose p is under 1/N
        is drawn at least as often as p says, so the floor (1 - rho)/N holds for episodes played as well.
        """
        rng = random.Random(f"{self.seed}/{round}")
        left = self.probabilities()
        drawn: list[str] = []
        while left and len(drawn) < k:
            drawn += rng.choices(list(left), list(left.values()))
            del left[drawn[-1]]
        return drawn


def _capped(p: Sequence[float], most: float) -> list[float]:
    """p with no entry over `most`: fix those over it, share the excess in proportion, until none is over."""
    out = list(p)
    fixed: set[int] = set()
    while over := {i for i, x in enumerate(out) if i not in fixed and x > most}:
        fixed |= over
        room = 1 - most * len(fixed)
        free = sum(x for i, x in enumerate(out) if i not in fixed)
        out = [most if i in fixed else x * room / free for i, x in enumerate(out)]
    return out
