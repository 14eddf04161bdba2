"""Correlation: by hand, against SciPy, and none where nothing varies."""

from __future__ import annotations

import math
import warnings

import pytest

from roleagent_lite.stats.correlation import point_biserial


def test_point_biserial_by_hand_and_against_scipy() -> None:
    from scipy.stats import pearsonr

    values, flags = [1.0, 2.0, 3.0, 4.0], [False, False, True, True]
    found = point_biserial(values, flags)
    assert found is not None
    assert found.r == pytest.approx(2 / math.sqrt(5))
    reference = pearsonr(values, [0, 0, 1, 1])
    assert found.p == pytest.approx(reference.pvalue)
    assert found.n == 4
    opposite = point_biserial(values, [not f for f in flags])
    assert opposite is not None
    assert opposite.r == pytest.approx(-found.r)


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ([], []),
        ([1.0, 2.0], [True, False]),
        ([1.0, 2.0, 3.0], [True, True, True]),
        ([0.3, 0.3, 0.1 + 0.2], [True, False, True]),
    ],
)
def test_no_correlation_where_nothing_varies(values: list[float], flags: list[bool]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert point_biserial(values, flags) is None


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 values but 1 flags"):
        point_biserial([1.0, 2.0], [True])
