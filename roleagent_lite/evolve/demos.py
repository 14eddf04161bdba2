"""Demonstrations: which solved episodes are shown to the agent, and how they read.

Pure: no call is made and nothing is stored. Owns choice, order, wording and size. Leaves out when
demonstrations are swapped (propose). For small models this is the change that helps most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from roleagent_lite.evolve.feedback import clip
from roleagent_lite.types import Credit, Task, Trajectory

MOST = 40  # demonstrations in one text; evolve.max_chars usually binds before
_SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class Demo:
    """A solved episode that may be shown: its actions and what came of them. `alignment`: mean over its
    predictions, 0..1; None = none."""

    task: Task
    trajectory: Trajectory
    alignment: float | None


def demo(task: Task, trajectory: Trajectory, credit: Credit | None) -> Demo:
    values = [a for row in (credit.alignment if credit else ()) for a in row if a is not None]
    # All solved episodes of a run are held: without what no demonstration shows, most of all the lists of
    # legal actions.
    steps = tuple(
        replace(step, observation="", admissible=(), thought="", said="", predictions=(), call_ids=())
        for step in trajectory.steps
    )
    trajectory = replace(trajectory, steps=steps)
    return Demo(task, trajectory, sum(values) / len(values) if values else None)


def words(text: str) -> frozenset[str]:
    """Lower-case words without numbers: 'mug 2' and 'mug 3' are the same thing to do."""
    return frozenset(re.findall(r"[^\W\d_]+", text.lower()))


def likeness(a: str, b: str) -> float:
    """Shared words over all words of two texts, 0..1."""
    left, right = words(a), words(b)
    return len(left & right) / len(left | right) if left | right else 0.0


def fit(candidate: Demo, failing: Sequence[Task], related: Iterable[str]) -> float:
    """How well an episode answers the failures, 0..1.

    1 where the same task failed in another rollout, 0.9 where retrieval chose the task as one that shares
    the failure mode, else the best likeness of its goal to a failing one.
    """
    if any(candidate.task.id == task.id for task in failing):
        return 1.0
    if candidate.task.id in set(related):
        return 0.9
    return max((likeness(candidate.task.goal, task.goal) for task in failing), default=0.0)


def rank(solved: Sequence[Demo], failing: Sequence[Task], related: Iterable[str] = ()) -> list[Demo]:
    """Best first, one episode a task: fit to the failure, then good foresight, then few steps, then the id.

    Foresight counts half as much as fit; an episode without predictions is taken as half foreseen.
    """
    related = frozenset(related)

    def key(d: Demo) -> tuple[float, int, str]:
        foreseen = 0.5 if d.alignment is None else d.alignment
        return (-(fit(d, failing, related) + 0.5 * foreseen), len(d.trajectory.steps), d.trajectory.id)

    best: dict[str, Demo] = {}
    for candidate in sorted(solved, key=key):
        best.setdefault(candidate.task.id, candidate)
    return list(best.values())


def render(candidate: Demo) -> str:
    """One episode as the log that an agent reads its own in: goal, each move, what came of it.

    The first sight is left out: without it a small model solved more, from a shorter prompt. Moves that the
    world did not admit changed nothing and are left out, too.
    """
    moves = [step for step in candidate.trajectory.steps if step.valid]
    lines = [f"Goal: {clip(candidate.task.goal, 300)}"]
    for step in moves:
        lines += [f"> {clip(step.action, 100)}", clip(step.outcome, 200)]
    return "\n".join(lines)


def swap(current: str, ranked: Sequence[Demo], max_chars: int) -> tuple[str, Demo] | None:
    """The text with the best demonstration that is not yet in it put first; older ones stay as room allows.

    At most `MOST` demonstrations and `max_chars` characters. None where no episode is new and short enough.
    """
    old = [block for block in current.split(_SEPARATOR) if block.strip()]
    for candidate in ranked:
        block = render(candidate)
        if block in old or len(block) > max_chars:
            continue
        kept = [block]
        for other in old:
            if len(kept) < MOST and len(_SEPARATOR.join([*kept, other])) <= max_chars:
                kept.append(other)
        return _SEPARATOR.join(kept), candidate
    return None
