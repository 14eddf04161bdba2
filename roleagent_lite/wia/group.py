"""Which steps of a group's rollouts were taken in the same state (paper Eq. 7, Table 5; GiGPO).

Owns the two ways to tell: by the environment's key, or by text. Leaves out what is done with the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roleagent_lite.types import Step
from roleagent_lite.wia.align import lms

Ids = list[tuple[int, ...]]
"""State group of each step, rollout by rollout; numbered from 0 in the order they were opened."""


def by_text(rollouts: Sequence[Sequence[Step]], merge_above: float) -> Ids:
    """A step joins the first state group whose first member is equal, or alike with LMS > `merge_above`.

    Rollouts in the order given, then steps; whatever the step index; repeats inside one rollout included.
    LMS(state, first member); strictly above, so that `merge_above` = 1 means equal states only.
    """
    first: list[str] = []
    known: dict[str, int] = {}  # first members stay, so an equal text belongs where the text was put before

    def find(state: str) -> int:
        for number, member in enumerate(first):
            # 2 min / sum bounds the ratio from above: texts of very unequal length need no matching
            shorter, both = min(len(state), len(member)), len(state) + len(member)
            if 2 * shorter / both > merge_above and lms(state, member) > merge_above:
                return number
        first.append(state)
        return len(first) - 1

    def number_of(state: str) -> int:
        if state not in known:
            known[state] = find(state)
        return known[state]

    return [tuple(number_of(step.observation) for step in steps) for steps in rollouts]


def has_keys(rollouts: Sequence[Sequence[Step]]) -> bool:
    """Whether every step carries a state key: keys and texts cannot be compared with each other."""
    return all(step.state_key is not None for steps in rollouts for step in steps)


def by_key(rollouts: Sequence[Sequence[Step]], merge_above: float) -> Ids:
    """Steps with equal `state_key`; by text where any step of the group lacks a key."""
    if not has_keys(rollouts):
        return by_text(rollouts, merge_above)
    known: dict[str | None, int] = {}
    return [tuple(known.setdefault(step.state_key, len(known)) for step in steps) for steps in rollouts]


STATES: dict[str, Callable[[Sequence[Sequence[Step]], float], Ids]] = {"key": by_key, "text": by_text}
