"""From alignment to the reward of a step (paper Eq. 5-6). Leaves out comparison with other rollouts."""

from __future__ import annotations

from collections.abc import Sequence


def returns(rewards: Sequence[float], gamma: float) -> tuple[float, ...]:
    """R_task(a_t) = sum over k >= t of gamma^(k-t) r_k, one entry a step (paper Eq. 6)."""
    out: list[float] = []
    rest = 0.0
    for reward in reversed(rewards):
        rest = reward + gamma * rest
        out.append(rest)
    return tuple(reversed(out))


def predictive(alignment: Sequence[float | None], gamma: float) -> float:
    """R_pre(a_t) = sum over h of gamma^(h-1) r~_{t,h}, not divided by H (paper Eq. 5).

    A missing entry contributes nothing; the entries after it keep their discount.
    """
    return sum(gamma**i * value for i, value in enumerate(alignment) if value is not None)


def modulate(task_return: float, foresight: float) -> float:
    """R_t = R_task * (1 + R_pre) (paper Eq. 5-6); R_task <= 0 stays as it is.

    Foresight scales credit that exists: it earns nothing in a failure and never deepens a penalty.
    """
    return task_return * (1.0 + foresight) if task_return > 0 else task_return
