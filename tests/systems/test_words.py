"""Words: what a system shows of steps, tries, lessons and sub-tasks."""

from __future__ import annotations

from roleagent_lite.systems import words
from roleagent_lite.types import Observation, Outcome
from tests.agents.make import step, view


def test_history_shows_thoughts_before_actions_and_not_what_is_seen_now() -> None:
    steps = [step("go", "A hall.", thought="on"), step("wait", "A hall.", valid=False)]
    assert words.history(steps) == "> think: on\n> go\nA hall.\n> wait  (not admissible)"
    assert words.history([]) == ""


def test_a_log_stands_open_behind_the_thought() -> None:
    shown = view(history=(step("go", "A hall.", thought="on"),), observation=Observation("A hall.\n", ("x",)))
    assert words.log(shown) == "before\n> think: on\n> go\nA hall."
    assert words.log(shown, ["Knock."], "knock now") == (
        "Lesson: Knock.\nbefore\n> think: on\n> go\nA hall.\n> think: knock now\nOK."
    )
    assert words.log(view()) == "A hall with a key and a door."


def test_a_transcript_is_numbered_and_a_long_one_keeps_its_ends() -> None:
    steps = [step(f"go {n}", "so", thought="t" if n == 2 else "", valid=n != 3) for n in range(1, 9)]
    whole = words.transcript(steps[:3]).splitlines()
    assert whole == [
        "At first: before",
        "1. go 1 -> so",
        "2. go 2 (thought: t) -> so",
        "3. go 3 -> so [not accepted]",
    ]
    short = words.transcript(steps, most=3).splitlines()
    assert short == [
        "At first: before", "1. go 1 -> so", "[… 5 steps left out …]", "7. go 7 -> so", "8. go 8 -> so",
    ]  # fmt: skip
    assert words.transcript([step("go", "x" * 900)], width=20).count("x") == 19
    assert words.transcript([]) == "(no step was played)"


def test_an_ending_says_how_and_when() -> None:
    found = words.ending(Outcome("failed", "step_limit"), 0.25, 6, 6)
    assert found == "failed (step limit), score 0.25, after 6 of at most 6 steps"
    assert words.ending(Outcome("solved"), 1.0, 2, 6).startswith("solved, score 1.00")


def test_lessons_and_sub_tasks() -> None:
    assert words.bullets(["a", "b"]) == "- a\n- b" and words.bullets([]) == ""
    assert words.subtask("", (), ()) == ""
    assert words.subtask("find it", ("open the door",), ("task completed", "task failed")) == (
        "Do only this part of it now: find it\nDone already: open the door.\n"
        "When this part is done, answer with the action 'task completed'.\n"
        "When you see that you cannot do it, answer with the action 'task failed'."
    )
