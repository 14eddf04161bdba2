"""Played: success and foresight of a group, and which rollouts count."""

from __future__ import annotations

import pytest

from tests.evolve.make import played, task


def test_success_is_the_mean_over_scored_rollouts() -> None:
    assert played(task(), ["solved", "failed", "bad_format", "cut_off"]).success == 0.25


def test_an_infrastructure_error_is_left_out_of_the_mean() -> None:
    group = played(task(), ["solved", "infrastructure_error", "infrastructure_error", "failed"])
    assert group.success == 0.5
    assert [t.rollout for t in group.scored] == [0, 3]


def test_nothing_scored_is_unknown_not_zero() -> None:
    group = played(task(), ["infrastructure_error"])
    assert group.success is None and group.foresight is None


def test_foresight_is_the_mean_summed_return() -> None:
    assert played(task(), ["solved", "failed"], [1.5, 0.5]).foresight == pytest.approx(1.0)
    assert played(task(), ["solved"]).foresight is None


def test_failures_are_those_that_teach() -> None:
    group = played(task(), ["solved", "failed", "cut_off", "bad_format", "infrastructure_error"])
    assert [t.outcome.kind for t in group.failures] == ["failed", "bad_format"]
