"""Acceptance: more tasks won than lost over the same tasks; ties by return; unknowns count for nobody."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.errors import ConfigError
from roleagent_lite.evolve.accept import ACCEPT, criterion, paired, score
from roleagent_lite.evolve.played import Played
from roleagent_lite.types import Kind
from tests.evolve.make import played, task


def batch(*groups: str, returns: list[list[float]] | None = None) -> list[Played]:
    """One task a word: s solved, f failed, e infrastructure error."""
    kinds: dict[str, Kind] = {"s": "solved", "f": "failed", "e": "infrastructure_error"}
    return [
        played(task(f"t{i}"), [kinds[c] for c in word], returns[i] if returns else None)
        for i, word in enumerate(groups)
    ]


def test_more_wins_than_losses_enters() -> None:
    verdict = paired(batch("ffff", "ssss", "sfff"), batch("ssff", "sssf", "ssff"))
    assert (verdict.accepted, verdict.wins, verdict.losses, verdict.ties) == (True, 2, 1, 0)
    assert "2 won, 1 lost" in verdict.reason


def test_more_losses_than_wins_stays_out_even_with_the_higher_sum() -> None:
    parent, child = batch("ffff", "sfff", "sfff"), batch("ssss", "ffff", "ffff")
    assert not paired(parent, child).accepted
    assert score(parent, child).accepted


def test_a_tie_goes_to_the_higher_return() -> None:
    parent = batch("sf", "sf", returns=[[1.0, 0.0], [1.0, 0.0]])
    better = batch("sf", "sf", returns=[[1.4, 0.0], [1.0, 0.0]])
    assert paired(parent, better).accepted
    assert not paired(better, parent).accepted
    assert not paired(parent, parent).accepted


def test_returns_are_compared_over_tasks_that_have_them_on_both_sides() -> None:
    known, none = batch("sf", returns=[[1.0, 0.0]])[0], batch("sf")[0]
    better = batch("sf", returns=[[1.2, 0.0]])[0]
    verdict = paired([known, none], [better, better])
    assert verdict.accepted and "0.500 then 0.600" in verdict.reason


def test_scores_are_summed_over_tasks() -> None:
    assert "1.50 then 2.00" in score(batch("ss", "sf"), batch("ss", "ss")).reason


def test_a_tie_without_credits_stays_out() -> None:
    verdict = paired(batch("sf"), batch("sf"))
    assert not verdict.accepted and "no return" in verdict.reason


def test_a_task_that_could_not_be_scored_counts_for_nobody() -> None:
    verdict = paired(batch("f", "e"), batch("s", "s"))
    assert (verdict.wins, verdict.losses, verdict.ties) == (1, 0, 0)
    assert not score(batch("f", "e"), batch("f", "s")).accepted


def test_equal_means_over_unequal_numbers_of_rollouts_are_a_tie() -> None:
    verdict = paired(batch("ssf"), batch("ssfssf"))
    assert verdict.ties == 1 and verdict.wins == 0


def test_other_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        paired([played(task("a"), ["solved"])], [played(task("b"), ["solved"])])


def test_unknown_name_is_refused_with_the_nearest() -> None:
    assert criterion("paired") is ACCEPT["paired"]
    with pytest.raises(ConfigError, match="did you mean 'paired'"):
        criterion("pared")


@given(st.lists(st.tuples(st.text("sf", min_size=4, max_size=4), st.text("sf", min_size=4, max_size=4))))
def test_swapping_parent_and_child_mirrors_the_counts(groups: list[tuple[str, str]]) -> None:
    parent, child = batch(*(p for p, _ in groups)), batch(*(c for _, c in groups))
    there, back = paired(parent, child), paired(child, parent)
    assert (there.wins, there.losses, there.ties) == (back.losses, back.wins, back.ties)
    assert not (there.accepted and back.accepted)
