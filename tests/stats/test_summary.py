"""The summary of a Result: which mean is which, errors both ways, costs that stay unknown."""

from __future__ import annotations

import pytest

from roleagent_lite.stats.summary import by_type, mean, repetition_means, spread, summarise
from roleagent_lite.types import Result, Usage

SCORES = {"a": (1.0, 1.0), "b": (1.0, 0.0), "c": (None, 0.0), "d": (0.0, None)}
TYPES = {"a": "heat", "b": "heat", "c": "cool", "d": "cool"}


def result(**over: object) -> Result:
    given = {
        "suite": "s", "system": "react", "scores": SCORES, "mean": 0.5, "low": 0.1, "high": 0.9, "n": 6,
        "usage": Usage(600, 60, 0, 0, 0.3), "values": {"a": (1.0, 1.0), "b": (1.0, 0.5), "c": (None, 0.25)},
        "calls": 24, "seconds": 9.0, "temperature": 0.9, "budget": "unlimited", "model": "m",
    }  # fmt: skip
    return Result(**{**given, **over})  # type: ignore[arg-type]


def test_micro_macro_and_errors_both_ways() -> None:
    found = summarise(result(), TYPES)
    assert found.rate.mean == pytest.approx(3 / 6) and found.rate.n == 6 and found.errors == 2
    assert found.as_zero == pytest.approx(3 / 8) and found.solved == 3 and found.episodes == 8
    assert {k: r.mean for k, r in found.by_type.items()} == {"cool": 0.0, "heat": 0.75}
    assert found.macro == pytest.approx(0.375)
    assert found.score == pytest.approx((1 + 1 + 1 + 0.5 + 0.25) / 5)


def test_costs_are_per_task_and_per_solved() -> None:
    found = summarise(result(), TYPES)
    assert (found.calls, found.calls_a_task) == (24, 3.0)
    assert found.tokens_a_solved == 220.0 and found.dollars_a_solved == pytest.approx(0.1)
    unknown = summarise(result(usage=Usage(600, None, 0, 0, None), calls=None), TYPES)
    assert unknown.tokens_a_solved is unknown.dollars_a_solved is unknown.calls_a_task is None
    nothing = summarise(result(scores={"a": (0.0,), "b": (0.0,)}), TYPES)
    assert nothing.solved == 0 and nothing.tokens_a_solved is nothing.dollars_a_solved is None


def test_run_to_run_spread() -> None:
    assert repetition_means(SCORES) == pytest.approx((2 / 3, 1 / 3))
    assert spread(SCORES) == pytest.approx(0.2357, abs=1e-4)
    assert spread({"a": (1.0,)}) is None and spread({}) is None
    assert repetition_means({"a": (None, 1.0)}) == (None, 1.0) and spread({"a": (None, 1.0)}) is None


def test_no_data_is_none_not_zero() -> None:
    found = summarise(result(scores={"a": (None,)}, values={}, mean=None, n=0), TYPES)
    assert found.rate.mean is found.macro is found.score is found.spread is None
    assert found.as_zero == 0.0 and found.errors == 1
    empty = summarise(result(scores={}, values={}), TYPES)
    assert empty.as_zero is None and empty.calls_a_task is None and empty.by_type == {}
    assert mean({}) is None


def test_types_nobody_named_are_unknown() -> None:
    assert list(by_type({"x": (1.0,)}, {})) == ["unknown"]


def test_pass_at_k_as_far_as_there_are_repetitions() -> None:
    assert [p.k for p in summarise(result(), TYPES).passes] == [2]
    assert summarise(result(scores={"a": (1.0,)}), TYPES).passes == ()
    assert "temperature 0" in summarise(result(temperature=0.0), TYPES).passes[0].words
