"""Markdown stays Markdown whatever the words."""

from __future__ import annotations

import pytest

from roleagent_lite.report import markdown as md
from roleagent_lite.report.gather import share


def test_markup_of_models_is_harmless() -> None:
    assert md.plain("a | b\n<img src=x> *c* `d`") == "a \\| b &lt;img src=x&gt; \\*c\\* \\`d\\`"
    assert md.plain("x" * 400, 10) == "x" * 9 + "…"


def test_code_and_fences_survive_backticks() -> None:
    assert md.code("a `b` | c") == "``a `b` │ c``"
    assert md.code("`x`") == "`` `x` ``"
    assert md.code("") == ""
    assert md.fence("```\nno way out\n```").startswith("````\n")
    assert md.fence("plain", "diff") == "```diff\nplain\n```"


def test_control_characters_are_shown_not_sent() -> None:
    assert md.plain("\x1b[2Jgone") == r"\\x1b\[2Jgone"
    assert md.code("\x1b[2J") == "`\\x1b[2J`"
    assert md.fence("a\x1b[2J\n\tb") == "```\na\\x1b[2J\n\tb\n```"


def test_table_is_empty_without_rows() -> None:
    assert md.table(["a"], []) == ""
    assert md.table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_no_number_without_n_and_interval() -> None:
    assert md.success(share(5, 12)) == "5 of 12: 42 % (19-68)"
    assert md.success(share(0, 0)) == "no scored episode"
    assert md.percent(None) == md.number(None) == md.duration(None) == "unknown"


@pytest.mark.parametrize(
    ("known", "unknown", "calls", "words"),
    [
        (1200, 0, 3, "1,200"),
        (1200, 1, 3, "1,200 (unknown for 1 calls)"),
        (0, 3, 3, "unknown"),
        (0, 0, 0, "0"),
    ],
)
def test_token_sums_say_what_is_unknown(known: int, unknown: int, calls: int, words: str) -> None:
    assert md.count(known, unknown, calls) == words


@pytest.mark.parametrize(
    ("known", "unknown", "calls", "words"),
    [
        (0.0, 0, 3, "$0.00"),
        (0.0004, 0, 3, "$0.0004"),
        (1.5, 1, 3, "$1.50 (unknown for 1 calls)"),
        (0, 2, 2, "unknown"),
    ],
)
def test_dollars_never_hide_a_small_or_unknown_price(
    known: float, unknown: int, calls: int, words: str
) -> None:
    assert md.dollars(known, unknown, calls) == words


@pytest.mark.parametrize(("value", "words"), [(45.2, "45 s"), (190, "3 min 10 s"), (7500, "2 h 05 min")])
def test_durations(value: float, words: str) -> None:
    assert md.duration(value) == words
