"""reward: discounting, the predictive sum, and a product that cannot deepen a penalty."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.wia.reward import modulate, predictive, returns

FLOAT = st.floats(-100, 100)


def test_returns_by_hand() -> None:
    assert returns([], 0.5) == ()
    assert returns([1.0, 2.0, 4.0], 0.5) == (1 + 1 + 1, 2 + 2, 4)
    assert returns([0.0, 0.0, 1.0], 1.0) == (1.0, 1.0, 1.0)
    assert returns([0.0, -0.1, 1.0], 0.9) == pytest.approx((0.72, 0.8, 1.0))


@given(st.lists(FLOAT, max_size=8), st.floats(0.01, 1))
def test_returns_are_the_discounted_sum(rewards: list[float], gamma: float) -> None:
    for t, value in enumerate(returns(rewards, gamma)):
        assert value == pytest.approx(sum(gamma ** (k - t) * rewards[k] for k in range(t, len(rewards))))


def test_predictive_is_a_plain_discounted_sum() -> None:
    assert predictive((), 0.95) == 0.0
    assert predictive((None, None), 0.95) == 0.0
    assert predictive((1.0,), 0.5) == 1.0
    assert predictive((1.0, 1.0, 1.0), 0.5) == 1.75  # not divided by the horizon
    assert predictive((None, 0.8), 0.5) == 0.4  # a missing entry keeps the discount of the later ones
    assert predictive((0.0, 1.0), 1.0) == 1.0


def test_modulate_scales_only_credit_that_exists() -> None:
    assert modulate(0.5, 1.0) == 1.0
    assert modulate(0.5, 0.0) == 0.5
    assert modulate(0.0, 2.0) == 0.0
    assert modulate(-0.5, 2.0) == -0.5


@given(FLOAT, st.floats(0, 3))
def test_modulate_never_lowers_a_reward(task_return: float, foresight: float) -> None:
    assert modulate(task_return, foresight) >= task_return
