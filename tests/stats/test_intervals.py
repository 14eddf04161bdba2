"""Intervals: known values, agreement with statsmodels, repetitions as clusters, no width of zero."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roleagent_lite.stats.intervals import clustered_error, known, success_rate, wilson

COUNT = st.integers(0, 40)


def test_wilson_known_values() -> None:
    assert wilson(7, 10) == pytest.approx((0.397, 0.892), abs=5e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=5e-4)
    assert wilson(10, 10) == pytest.approx((0.7225, 1.0), abs=5e-4)
    assert wilson(0, 0) == (None, None)


def test_wilson_equals_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for k, n, level in [(1, 3, 0.95), (12, 50, 0.9), (50, 50, 0.99)]:
        wanted = proportion_confint(k, n, alpha=1 - level, method="wilson")
        assert wilson(k, n, level) == pytest.approx(wanted, abs=1e-12)


@given(COUNT, COUNT)
@settings(max_examples=30)
def test_wilson_holds_the_share_and_stays_in_range(k: int, more: int) -> None:
    low, high = wilson(k, k + more)
    if k + more == 0:
        assert low is high is None
    else:
        assert low is not None
        assert high is not None
        assert 0.0 <= low <= k / (k + more) + 1e-12
        assert k / (k + more) - 1e-12 <= high <= 1.0


@pytest.mark.parametrize(
    ("k", "n", "level"), [(-1, 3, 0.95), (4, 3, 0.95), (1, 3, 0.0), (1, 3, 1.0), (1, -1, 0.95)]
)
def test_wilson_refuses_nonsense(k: int, n: int, level: float) -> None:
    with pytest.raises(ValueError):
        wilson(k, n, level)


# --- success, repetitions included ---


def test_one_episode_a_task_is_plain_wilson() -> None:
    rows = {f"t{i}": (float(i < 7),) for i in range(10)}
    found = success_rate(rows)
    assert (found.mean, found.n, found.tasks, found.how) == (0.7, 10, 10, "Wilson")
    assert (found.low, found.high) == wilson(7, 10)


def test_a_deterministic_system_gains_nothing_by_repetition() -> None:
    once = success_rate({f"t{i}": (float(i < 7),) for i in range(10)})
    thrice = success_rate({f"t{i}": (float(i < 7),) * 3 for i in range(10)})
    assert thrice.n == 30 and thrice.effective == pytest.approx(10)
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))
    assert thrice.how == "Wilson, clustered by task"


def test_independent_repetitions_are_worth_about_as_much_as_tasks() -> None:
    rng = random.Random(3)
    rows = {f"t{i}": tuple(float(rng.random() < 0.4) for _ in range(4)) for i in range(100)}
    found = success_rate(rows)
    assert found.n == 400 and 280 < found.effective <= 400


def test_the_clustered_error_by_hand() -> None:
    # means 0.5, 1, 0 of two each: residual sums 0, 1, -1 about 0.5; sqrt(2)/6
    rows = {"a": [1.0, 0.0], "b": [1.0, 1.0], "c": [0.0, 0.0]}
    assert clustered_error(rows) == pytest.approx(math.sqrt(2) / 6)
    assert clustered_error({"a": [1.0, 1.0], "b": [1.0]}) == 0.0


@pytest.mark.parametrize("rows", [{"a": (1.0, 0.0), "b": (0.0, 1.0)}, {"a": (1.0, 1.0), "b": (1.0, 1.0)}])
def test_an_interval_never_shrinks_to_a_point(rows: dict[str, tuple[float, ...]]) -> None:
    found = success_rate(rows)
    assert found.low is not None and found.high is not None and found.high - found.low > 0.3


def test_errors_are_left_out_and_nothing_scored_is_no_data() -> None:
    found = success_rate({"a": (1.0, None), "b": (None, None), "c": (0.0, 0.0)})
    assert (found.n, found.tasks) == (3, 2) and found.mean == pytest.approx(1 / 3)
    none = success_rate({"a": (None,)})
    assert (none.mean, none.low, none.high, none.n, none.how) == (None, None, None, 0, "no scored episode")
    assert known({"a": (None, 0.5), "b": ()}) == {"a": [0.5]}


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, None]), max_size=4), max_size=8))
@settings(max_examples=60, deadline=None)
def test_the_interval_holds_the_mean_whatever_the_shape(rows: list[list[float | None]]) -> None:
    found = success_rate({f"t{i}": row for i, row in enumerate(rows)})
    if found.mean is None:
        assert found.low is found.high is None and found.n == 0
    else:
        assert found.low is not None and found.high is not None
        assert 0 <= found.low <= found.mean + 1e-12 and found.mean - 1e-12 <= found.high <= 1
        assert found.low < found.high and math.isfinite(found.effective)
