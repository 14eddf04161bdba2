"""Small facts for the tests of evolve/: tasks, episodes and credits with just what a test needs."""

from __future__ import annotations

from collections.abc import Sequence

from roleagent_lite.evolve.played import Played
from roleagent_lite.types import Credit, Kind, Outcome, Split, Step, Task, Trajectory


def task(id: str = "t1", goal: str = "put a mug on desk 1", split: Split = "train") -> Task:
    return Task(id, "toy", goal, split=split)


def step(
    action: str = "go", outcome: str = "You go.", foretold: str | None = None, valid: bool = True
) -> Step:
    return Step(
        "You see.", action, outcome, predictions=(foretold,) if foretold is not None else (), valid=valid
    )


def episode(
    of: Task, kind: Kind = "solved", rollout: int = 0, steps: Sequence[Step] | None = None, reason: str = ""
) -> Trajectory:
    id = f"1/aaaaaaaa/{of.id}#{rollout}"
    made = (step(),) if steps is None else tuple(steps)
    score = 1.0 if kind == "solved" else 0.0
    return Trajectory(id, of.id, "a" * 12, "m", 1, rollout, of.split, made, score, Outcome(kind, reason))


def credit(of: Trajectory, alignment: Sequence[float | None] = (), reward: Sequence[float] = ()) -> Credit:
    zeros = tuple(0.0 for _ in of.steps)
    return Credit(
        of.id, tuple((a,) for a in alignment), zeros, zeros, tuple(reward) or zeros,
        tuple(0 for _ in of.steps), zeros, 0.0, zeros,
    )  # fmt: skip


def played(of: Task, kinds: Sequence[Kind], returns: Sequence[float] | None = None) -> Played:
    """One task's rollouts with these outcomes; `returns`: sum_t R_t of each, no credits where None."""
    rollouts = tuple(episode(of, kind, n) for n, kind in enumerate(kinds))
    credits = {}
    if returns is not None:
        credits = {t.id: credit(t, reward=[r]) for t, r in zip(rollouts, returns, strict=True)}
    return Played(of, rollouts, credits)
