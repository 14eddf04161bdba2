"""What is going to be bought, in numbers and words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.lm.plan import PlannedCalls, estimate, tokens
from roleagent_lite.lm.price import FREE, Price

ACT = PlannedCalls("agent", "act", 1000, 800, 100)
JUDGE = PlannedCalls("judge", "judge", 10, 2000, 20)
CHEAP, DEAR = Price(0.1e-6, 0.4e-6), Price(3e-6, 15e-6)


def test_totals_at_each_role_s_price() -> None:
    plan = estimate([ACT, JUDGE], {"agent": CHEAP, "judge": DEAR})
    assert (plan.calls, plan.input, plan.output) == (1010, 820_000, 100_200)
    assert plan.dollars == pytest.approx(0.08 + 0.04 + 0.06 + 0.003)
    assert "1,000 calls, about 800 tokens in and 100 out each" in plan.words
    assert plan.words.endswith(
        "planned at most 1,010 calls, about 820,000 tokens in, 100,200 out: about $0.18"
    )


def test_one_unknown_price_makes_the_whole_unknown() -> None:
    plan = estimate([ACT, JUDGE], {"agent": CHEAP, "judge": None})
    assert plan.dollars is None
    assert "price unknown (give --price IN/OUT to see dollars)" in plan.words
    assert estimate([JUDGE, ACT], {"judge": DEAR}).dollars is None


def test_a_role_that_makes_no_calls_needs_no_price() -> None:
    idle = PlannedCalls("world", "predict", 0, 800, 100)
    plan = estimate([ACT, idle], {"agent": CHEAP})
    assert plan.dollars is not None
    assert "world" not in plan.words


def test_free_and_small_amounts() -> None:
    assert estimate([ACT], {"agent": FREE}).words.endswith(": free")
    assert estimate([PlannedCalls("agent", "act", 1, 8, 1)], {"agent": CHEAP}).words.endswith(": under $0.01")
    assert estimate([], {}).calls == 0


@given(st.text())
def test_tokens_are_a_quarter_of_the_characters_rounded_up(text: str) -> None:
    assert (tokens(text) - 1) * 4 < len(text) <= tokens(text) * 4 or text == ""
