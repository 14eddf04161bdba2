"""Thinking is split off under every tag; what belongs to the answer stays there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.lm.thinking import split

ANSWER = '{"action":"take key"}'


@pytest.mark.parametrize(
    "text",
    [
        f"maybe drop key first</think>\n{ANSWER}",
        f"<think>maybe drop key first</think>\n{ANSWER}",
        f"<think>\nmaybe drop key first\n</think>{ANSWER}",
        f"<thinking>maybe drop key first</thinking>{ANSWER}",
        f"<THOUGHT>maybe drop key first</THOUGHT>{ANSWER}",
        f"<reasoning>maybe drop key first</reasoning>\n\n{ANSWER}",
        f"[THINK]maybe drop key first[/THINK]{ANSWER}",
        f"◁think▷maybe drop key first◁/think▷{ANSWER}",
        f"<|channel|>analysis<|message|>maybe drop key first<|end|><|start|>assistant"
        f"<|channel|>final<|message|>{ANSWER}<|return|>",
    ],
)
def test_rep_03_thinking_leaves_only_the_answer(text: str) -> None:
    assert split(text) == (ANSWER, "maybe drop key first")


def test_several_blocks_are_joined() -> None:
    assert split("<think>a</think>X <think>b</think>Y") == ("X Y", "a\nb")


def test_text_before_a_stray_closing_tag_is_thinking_too() -> None:
    assert split("<think>a</think>b</think>c") == ("c", "a\nb")


def test_unclosed_thinking_has_no_answer() -> None:
    assert split("<think>and then I") == ("", "and then I")
    assert split("So: <think>and then I") == ("So:", "and then I")


def test_an_opening_tag_inside_thinking_is_thinking() -> None:
    assert split("<think>a <think> b</think>c") == ("c", "a <think> b")


def test_a_tag_inside_a_json_answer_stays() -> None:
    text = '{"action": "say </think> aloud"}'
    assert split(text) == (text, None)


def test_json_that_is_not_whole_is_no_excuse_to_keep_thinking() -> None:
    assert split('{not json</think>{"a": 1}') == ('{"a": 1}', "{not json")


@pytest.mark.parametrize(
    "text", ["", "take key", "  go north \n", "a < b", "[x]", "<key>", "<thinker>x</thinker>"]
)
def test_plain_text_is_left_exactly_as_it_is(text: str) -> None:
    assert split(text) == (text, None)


@given(st.text(alphabet="ab <>/[]\n{}", max_size=30), st.text(alphabet="ab c\n", max_size=30))
def test_the_answer_after_the_last_closing_tag_survives(before: str, answer: str) -> None:
    got, _ = split(f"{before}</think>{answer}")
    assert got.strip() == answer.strip()
