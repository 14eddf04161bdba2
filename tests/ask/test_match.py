"""Near misses: the stated rule, and what it must leave alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.ask.match import free_form, near_miss, unwrap

ALLOWED = ("look around", "take key", "open door", "say hello.", "go to Drawer 1")


@pytest.mark.parametrize(
    "said",
    [
        "take key",
        '"take key"',
        "Take key.",
        "`take key`",
        "Action: take key",
        "> take key",
        "take key\nObservation: you hold it",
        "  take   key  ",
        "TAKE KEY...",
        "**take key**",
        "**Action:** take key",
        "Action 1: `take key`.",
        "Thought: the key opens it.\nAction: take key\nObservation: ok\nAction: open door",
        "<action>take key</action>",
        "<think>no</think><action> take key",
        "“take key”",
        "[take key]",
        "```\ntake key\n```",
        "\n\n'take key'",
    ],
)
def test_env_03_a_good_move_in_other_clothes_is_found(said: str) -> None:
    assert near_miss(said, ALLOWED) == "take key"


def test_env_03_an_admissible_text_passes_unchanged() -> None:
    assert near_miss("say hello.", ALLOWED) == "say hello."
    assert near_miss("say hello.", ("say hello", "say hello.")) == "say hello."
    assert near_miss('"say hello."', ("say hello", "say hello.")) == "say hello."
    assert near_miss('"quoted"', ('"quoted"', "quoted")) == '"quoted"'


def test_two_that_fit_equally_well_are_not_guessed() -> None:
    assert near_miss("SAY HELLO", ("say hello", "say hello.")) is None


@pytest.mark.parametrize(
    "said", ["", "   ", "...", "take", "take key now", "take keys", "fly", "Action:", "```"]
)
def test_what_means_no_admissible_action_maps_to_none(said: str) -> None:
    assert near_miss(said, ALLOWED) is None


@given(st.sampled_from(ALLOWED), st.sampled_from(['"{}"', "> {}", "Action: {}", "`{}`", "{}\n", "  {} "]))
def test_every_admissible_action_survives_every_wrapping(action: str, form: str) -> None:
    assert near_miss(form.format(action), ALLOWED) == action


@given(st.text(max_size=40), st.lists(st.text(min_size=1, max_size=12), max_size=6))
def test_the_answer_is_one_of_the_allowed_or_none(said: str, allowed: list[str]) -> None:
    found = near_miss(said, allowed)
    assert found is None or found in allowed


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=6), st.data())
def test_an_exact_match_is_itself(allowed: list[str], data: st.DataObject) -> None:
    said = data.draw(st.sampled_from(allowed))
    assert near_miss(said, allowed) == said


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("search[red shoes, size 7.]", "search[red shoes, size 7.]"),
        ("Action: Search[Red]", "Search[Red]"),
        ('"Paris."', "Paris."),
        ("'a' and 'b'", "'a' and 'b'"),
        ("ls -la\ngrep x", "ls -la\ngrep x"),
        ('"find({"name": "Ada"})"', 'find({"name": "Ada"})'),
        ("'find(name='Ada')'", "find(name='Ada')"),
        ('"f(x)" + g("y)"', '"f(x)" + g("y)"'),
        ('"$(which "ls")" -l "x"', '"$(which "ls")" -l "x"'),
        ('"x".join(["y"]) + "z"', '"x".join(["y"]) + "z"'),
        ("[f(1), g([2])]", "[f(1), g([2])]"),
        ("open door\nObservation: it opens", "open door"),
        ("  spaced  ", "spaced"),
        ("", ""),
    ],
)
def test_free_actions_lose_marks_around_them_only(said: str, action: str) -> None:
    assert free_form(said) == action


def test_unwrapping_nothing_gives_nothing() -> None:
    assert unwrap("\n \n") == ""
