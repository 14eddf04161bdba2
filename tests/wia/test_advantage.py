"""advantage: both levels of GiGPO's own code, and the exact zeros."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.wia.advantage import EPSILON, NORMALISERS, relative, within
from tests.wia.make import load

CASES: list[Any] = load("group_advantage.json")["cases"]
NAMES = {"mean_std_norm": "mean_std", "mean_norm": "mean"}
MANY = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12)


def by_task(case: Any) -> list[list[Any]]:
    groups: dict[str, list[Any]] = {}
    for trajectory in case["trajectories"]:
        groups.setdefault(trajectory["group"], []).append(trajectory)
    return list(groups.values())


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"case{c['id']}")
def test_state_level_equals_the_reference(case: Any) -> None:
    for group in by_task(case):
        found = within(
            [t["returns"] for t in group], [t["state_group"] for t in group], NAMES[case["normalise"]]
        )
        for values, trajectory in zip(found, group, strict=True):
            assert list(values) == pytest.approx(trajectory["state_advantage"], abs=1.01e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"case{c['id']}")
def test_episode_level_equals_the_reference(case: Any) -> None:
    assert case["epsilon"] == EPSILON
    for group in by_task(case):
        found = relative([sum(t["rewards"]) for t in group], NAMES[case["normalise"]])
        assert found == pytest.approx([t["episode_advantage"] for t in group], abs=1.01e-5)


@pytest.mark.parametrize("normalise", sorted(NORMALISERS))
def test_one_or_equal_values_are_exactly_zero(normalise: str) -> None:
    assert relative([], normalise) == []
    assert relative([0.7], normalise) == [0.0]
    assert relative([0.1] * 3, normalise) == [0.0] * 3  # 0.1 * 3 / 3 is not 0.1 in binary


def test_two_values_by_hand() -> None:
    assert relative([1.0, 0.0], "mean") == [0.5, -0.5]
    assert relative([1.0, 0.0], "mean_std") == pytest.approx(
        [0.5 / (0.5**0.5 + 1e-6), -0.5 / (0.5**0.5 + 1e-6)]
    )
    assert relative([1.0, 0.0], "mean_std")[0] < 0.5**0.5  # epsilon is added, and to the deviation


def test_rl_01_one_success_of_four() -> None:
    found = relative([1, 0, 0, 0], "mean_std")
    assert found[0] > 0
    assert found[1] == found[2] == found[3] < 0
    assert sum(found) == pytest.approx(0, abs=1e-9)


@given(MANY, st.sampled_from(sorted(NORMALISERS)))
def test_advantages_sum_to_nothing_and_keep_the_order(values: list[float], normalise: str) -> None:
    found = relative(values, normalise)
    assert sum(found) == pytest.approx(0, abs=1e-6)
    ordered = [advantage for _, advantage in sorted(zip(values, found, strict=True))]
    assert ordered == sorted(ordered)


@given(MANY, st.floats(-100, 100))
def test_a_common_bonus_changes_nothing(values: list[float], bonus: float) -> None:
    moved = relative([v + bonus for v in values], "mean")
    assert moved == pytest.approx(relative(values, "mean"), abs=1e-9)


def test_within_compares_only_inside_a_state_group() -> None:
    assert within([[1.0, 5.0], [0.0, 7.0]], [(0, 1), (0, 2)], "mean") == [(0.5, 0.0), (-0.5, 0.0)]
    # repeats inside one rollout count as members
    assert within([[3.0, 1.0], [2.0]], [(4, 4), (4,)], "mean") == [(1.0, -1.0), (0.0,)]
    assert within([[], [1.0]], [(), (0,)], "mean") == [(), (0.0,)]


def test_within_refuses_shapes_that_do_not_match() -> None:
    with pytest.raises(ValueError):
        within([[1.0, 2.0]], [(0,)], "mean")
    with pytest.raises(ValueError):
        within([[1.0]], [(0,), (0,)], "mean")


def test_an_unknown_normaliser_fails() -> None:
    with pytest.raises(KeyError):
        relative([1.0, 2.0], "median")
