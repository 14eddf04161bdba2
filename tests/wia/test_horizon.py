"""horizon: the published limits, and rounding half up without binary accidents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.wia.horizon import horizon
from tests.wia.make import load


@pytest.mark.parametrize("case", load("wia.json")["horizons"], ids=str)
def test_equals_the_vectors(case: Any) -> None:
    assert horizon(case["max_steps"], case["share"]) == case["horizon"]


def test_the_published_limits_at_the_default_share() -> None:
    assert [horizon(n) for n in (50, 15, 4)] == [3, 1, 1]


@pytest.mark.parametrize(
    ("max_steps", "share", "wanted"),
    [
        (0, 0.05, 1),
        (1, 0.05, 1),
        (29, 0.05, 1),
        (30, 0.05, 2),
        (50, 0.29, 15),
        (70, 0.05, 4),
        (10, 1.0, 10),
        (5, 0.5, 3),
    ],
)
def test_half_is_rounded_up_and_one_is_the_least(max_steps: int, share: float, wanted: int) -> None:
    assert horizon(max_steps, share) == wanted


@given(st.integers(1, 10_000), st.integers(1, 100))
def test_against_whole_numbers(max_steps: int, percent: int) -> None:
    assert horizon(max_steps, percent / 100) == max(1, (2 * max_steps * percent + 100) // 200)
