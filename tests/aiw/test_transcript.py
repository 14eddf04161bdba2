"""What the diagnosing world gets to read: everything if it fits, else head and end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roleagent_lite.aiw.transcript import clip, ending, transcript
from roleagent_lite.types import Outcome, Step
from tests.aiw.make import episode


def words(text: str) -> int:
    return len(text.split())


def test_a_short_episode_is_shown_whole() -> None:
    text = transcript(episode("a", actions=("look", "go to fridge 1")))
    assert text.splitlines() == [
        "At first: you see 0",
        "1. look -> after look",
        "2. go to fridge 1 -> after go to fridge 1",
    ]


def test_thoughts_and_refused_actions_are_shown() -> None:
    step = Step("here", "fly", "Nothing happens.", thought="birds can", valid=False)
    text = transcript(replace(episode("a"), steps=(step,)))
    assert "1. fly (thought: birds can) -> Nothing happens. [not accepted]" in text


def test_an_action_that_never_came_is_named() -> None:
    assert "1. (no action) -> lost" in transcript(replace(episode("a"), steps=(Step("here", "", "lost"),)))


def test_rollouts_of_one_task_share_the_head() -> None:
    a, b = transcript(episode("a", 0, ("look", "x"))), transcript(episode("a", 1, ("look", "y")))
    assert a.splitlines()[:2] == b.splitlines()[:2]
    assert a != b


def test_long_observations_are_cut_before_steps_are_left_out() -> None:
    steps = tuple(Step("o " * 200, f"act {i}", "w " * 200) for i in range(10))
    text = transcript(replace(episode("a"), steps=steps), 600)
    assert words(text) <= 600
    assert all(f"{i + 1}. act {i} " in text for i in range(10))
    assert "left out" not in text
    assert "…" in text


@pytest.mark.parametrize("limit", [60, 120, 300])
def test_steps_are_left_out_from_the_middle(limit: int) -> None:
    steps = tuple(Step("o", f"act {i}", "w " * 50) for i in range(60))
    text = transcript(replace(episode("a"), steps=steps), limit)
    lines = text.splitlines()
    assert words(text) <= limit
    assert lines[1].startswith("1. act 0 ")
    assert lines[-1].startswith("60. act 59 ")
    shown = [int(line.split(".")[0]) for line in lines[1:] if line[0].isdigit()]
    assert f"[… {60 - len(shown)} steps left out …]" in lines
    assert shown[1:] == list(range(60 - len(shown) + 2, 61))


def test_the_last_step_is_shown_whatever_it_takes() -> None:
    text = transcript(episode("a", actions=[f"act {i}" for i in range(30)]), 1)
    assert text.splitlines()[-1].startswith("30. act 29")


def test_no_steps() -> None:
    assert transcript(replace(episode("a"), steps=())) == "(no step was played)"


def test_ending() -> None:
    assert ending(episode("a")) == "failed (step_limit), score 0.00, after 2 of at most 8 steps"
    bare = replace(episode("a"), outcome=Outcome("bad_format"), max_steps=0, score=0.25)
    assert ending(bare) == "bad_format, score 0.25, after 2 steps"


def test_clip() -> None:
    assert clip(" a\n b  c ", 3) == "a b c"
    assert clip("a b c", 2) == "a b …"
