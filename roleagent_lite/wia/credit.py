"""World-In-Agent's verdict on a group of rollouts: align -> reward -> group -> advantage.

Owns the order of these and who is compared with whom. Leaves out where Credits are kept and what uses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import roleagent_lite.wia.advantage as advantage
import roleagent_lite.wia.align as align
import roleagent_lite.wia.group as group
import roleagent_lite.wia.reward as reward
from roleagent_lite.config import Wia
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.types import Credit, Trajectory
from roleagent_lite.wia.horizon import horizon

# R^E, the raw outcome of an episode: what A^E compares.
OUTCOMES: dict[str, Callable[[Trajectory], float]] = {
    "solved": lambda t: 1.0 if t.solved else 0.0,
    "score": lambda t: t.score,
}
NO_GROUP = -1  # state group of a step that is compared with nobody


def _check(trajectories: Sequence[Trajectory]) -> None:
    groups = {t.group for t in trajectories}
    if len(groups) > 1:
        raise ValueError(f"rollouts of {len(groups)} groups in one: {', '.join(sorted(groups)[:2])}, …")
    if len({t.id for t in trajectories}) < len(trajectories):
        raise ValueError(f"a trajectory occurs twice in group {groups.pop()}")
    for trajectory in trajectories:
        for number, step in enumerate(trajectory.steps, 1):
            if not math.isfinite(step.reward):
                raise RoleAgentError(
                    f"trajectory {trajectory.id}, step {number}: reward is {step.reward}; "
                    "an environment must give finite rewards"
                )


def _judge(trajectory: Trajectory, wia: Wia) -> Credit:
    """What one rollout earns by itself; compared with nobody yet (state groups -1, advantages 0)."""
    steps, none = trajectory.steps, (0.0,) * len(trajectory.steps)
    ahead = horizon(trajectory.max_steps, wia.horizon_share)
    matrix, cut = align.align(steps, ahead, align.scorer(wia.scorer))
    foresight = tuple(reward.predictive(row, wia.gamma) for row in matrix)
    task_return = reward.returns([s.reward for s in steps], wia.gamma)
    shaped = tuple(reward.modulate(r, p) for r, p in zip(task_return, foresight, strict=True))
    return Credit(
        trajectory=trajectory.id, alignment=matrix, predictive=foresight, task_return=task_return,
        reward=shaped, state_group=(NO_GROUP,) * len(steps), state_advantage=none, episode_advantage=0.0,
        advantage=none, cut=cut, formula=_formula(wia, ahead),
    )  # fmt: skip


def _formula(wia: Wia, ahead: int) -> dict[str, str | float]:
    return {
        "name": "R_task * (1 + R_pre); A = A_S + alpha * A_E",
        "scorer": wia.scorer, "horizon": ahead, "gamma": wia.gamma, "alpha": wia.alpha,
        "states": wia.states, "merge_above": wia.merge_above, "normalise": wia.normalise,
        "outcome": wia.outcome, "epsilon": advantage.EPSILON, "long": align.LONG, "words": align.WORDS,
    }  # fmt: skip


def _compare(own: Sequence[Credit], peers: Sequence[Trajectory], wia: Wia) -> list[Credit]:
    """The credits of `peers` (same order) with state groups and advantages filled in."""
    rollouts = [t.steps for t in peers]
    groups = group.STATES[wia.states](rollouts, wia.merge_above)
    told_by = "key" if wia.states == "key" and group.has_keys(rollouts) else "text"
    by_state = advantage.within([c.reward for c in own], groups, wia.normalise)
    by_episode = advantage.relative([OUTCOMES[wia.outcome](t) for t in peers], wia.normalise)
    return [
        Credit(
            trajectory=c.trajectory, alignment=c.alignment, predictive=c.predictive, cut=c.cut,
            task_return=c.task_return, reward=c.reward, state_group=ids, state_advantage=a_s,
            episode_advantage=a_e, advantage=tuple(a + wia.alpha * a_e for a in a_s),
            formula={**c.formula, "states": told_by},
        )
        for c, ids, a_s, a_e in zip(own, groups, by_state, by_episode, strict=True)
    ]  # fmt: skip


def credit_group(trajectories: Sequence[Trajectory], wia: Wia) -> list[Credit]:
    """Credits of the rollouts of one group (one task, prompt set, model, arm and round), in the order given.

    Who is compared (`Outcome` in types.py): solved, failed and bad_format teach, so they form the state
    groups and the means. An infrastructure error gets no Credit. A cut_off episode (max_tokens, context,
    refusal, filter) does not teach: its Credit holds alignment and rewards as measured, but it enters no
    group and no mean, its state groups are -1 and its advantages 0.

    State groups are numbered over rollouts by index, then steps, so the order of arrival changes nothing.
    `formula["states"]` says what told states apart in the end: "key", or "text" where a key was missing.
    Raises ValueError on rollouts of several groups, RoleAgentError on a reward that is no finite number.
    Paper Eq. 1-8, section 3.2: A = A^S + alpha A^E.
    """
    _check(trajectories)
    own = {t.id: _judge(t, wia) for t in trajectories if t.outcome.scored}
    peers = sorted((t for t in trajectories if t.outcome.teaches), key=lambda t: t.rollout)
    own |= {c.trajectory: c for c in _compare([own[t.id] for t in peers], peers, wia)}
    return [own[t.id] for t in trajectories if t.id in own]


def credit_all(trajectories: Sequence[Trajectory], wia: Wia) -> list[Credit]:
    """Credits of many rollouts, split by `Trajectory.group`; in the order given. Raises as `credit_group`."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(trajectory.group, []).append(trajectory)
    credits = {c.trajectory: c for members in groups.values() for c in credit_group(members, wia)}
    return [credits[t.id] for t in trajectories if t.id in credits]
