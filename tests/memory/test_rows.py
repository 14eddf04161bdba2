"""Cleaning, quoting, ranks and unit vectors."""

from __future__ import annotations

import math
from typing import Any

import pytest

from roleagent_lite import redact
from roleagent_lite.memory.rows import Item, clean, listed, quote, ranked, scrubbed, to_items, to_unit


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        ("a", "'a'"),
        ("O'Brien", "'O''Brien'"),
        ("x' OR 1=1 --", "'x'' OR 1=1 --'"),
        ('"', "'\"'"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (0.5, "0.5"),
    ],
)
def test_quote(value: str | float | bool, sql: str) -> None:
    assert quote(value) == sql


def test_listed() -> None:
    assert listed(["a", "b'c"]) == "('a', 'b''c')"


def test_clean_removes_keys_and_broken_characters() -> None:
    redact.register("correct-horse-battery")
    assert clean("key correct-horse-battery end") == "key [key] end"
    assert clean("half \ud83d a pair") == "half \ufffd a pair"
    assert clean("whole 🔑 naïve дом \x00") == "whole 🔑 naïve дом \x00"


def test_scrubbed_reaches_every_part() -> None:
    redact.register("correct-horse-battery")
    key = "correct-horse-battery"
    row = scrubbed(Item(f"id {key}", f"text {key}", {"a": key, "n": 3}, {"deep": [{"x": f"<{key}>"}]}))
    assert row == Item("id [key]", "text [key]", {"a": "[key]", "n": 3}, {"deep": [{"x": "<[key]>"}]})


def test_equal_scores_share_a_rank() -> None:
    assert ranked([("b", 1.0), ("a", 1.0), ("c", 3.0), ("d", 0.5)]) == {"c": 1, "a": 2, "b": 2, "d": 4}
    assert ranked([]) == {}


def test_unit() -> None:
    vector, reason = to_unit([3.0, 4.0], 2)
    assert reason == ""
    assert list(vector) == pytest.approx([0.6, 0.8])
    huge, _ = to_unit([1e30, 1e30], 2)
    assert list(huge) == pytest.approx([math.sqrt(0.5)] * 2)


@pytest.mark.parametrize(
    ("vector", "why"),
    [
        ([], "empty"),
        ([1.0], "1 numbers instead of 2"),
        ([1.0, 2.0, 3.0], "3 numbers instead of 2"),
        ([math.nan, 1.0], "NaN"),
        ([math.inf, 1.0], "infinity"),
        ([0.0, 0.0], "all numbers are 0"),
    ],
)
def test_unusable_vectors_say_why(vector: list[float], why: str) -> None:
    value, reason = to_unit(vector, 2)
    assert value is None
    assert why in reason


def test_to_items_leaves_out_the_stores_own_columns() -> None:
    rows: list[dict[str, Any]] = [
        {"id": "b", "text": "t", "data": '{"x": 1}', "vector": [1], "_score": 3.0, "env": "e", "n": None},
        {"id": "a", "text": "u", "data": "{}"},
    ]
    assert to_items(rows) == [Item("a", "u"), Item("b", "t", {"env": "e"}, {"x": 1})]
