"""Feedback: failing tasks only; wrong predictions worst first; the ablations show nothing; bounded length."""

from __future__ import annotations

import pytest

from roleagent_lite.errors import ConfigError
from roleagent_lite.evolve.feedback import (
    SHOWN,
    clip,
    diagnosis_lines,
    feedback,
    mispredictions,
    nothing,
    records,
    render,
)
from roleagent_lite.evolve.played import Played
from roleagent_lite.types import Diagnosis
from tests.evolve.make import credit, episode, played, step, task


def foretold(alignments: list[float | None], solved: bool = False) -> Played:
    """One rollout whose step n foretold 'guess n' and brought 'truth n', aligned as given."""
    steps = [
        step(f"move {n}", f"truth {n}", None if a is None else f"guess {n}") for n, a in enumerate(alignments)
    ]
    of = task()
    trajectory = episode(of, "solved" if solved else "failed", steps=steps, reason="step_limit")
    return Played(of, (trajectory,), {trajectory.id: credit(trajectory, alignments)})


def test_the_worst_predictions_come_first_and_good_ones_are_left_out() -> None:
    lines = mispredictions(foretold([0.6, 0.95, 0.1, None]))
    assert [line.split("'")[1] for line in lines] == ["move 2", "move 0"]
    assert "foretold 'guess 2'" in lines[0] and "'truth 2'" in lines[0] and "0.10" in lines[0]


def test_at_most_a_few_lines_one_an_action() -> None:
    assert len(mispredictions(foretold([0.1] * 9))) == SHOWN
    twice = [step("look", "truth", "guess"), step("look", "truth", "guess")]
    of = task()
    trajectory = episode(of, "failed", steps=twice)
    assert (
        len(mispredictions(Played(of, (trajectory,), {trajectory.id: credit(trajectory, [0.2, 0.1])}))) == 1
    )


def test_without_credits_or_predictions_nothing_is_claimed() -> None:
    assert mispredictions(played(task(), ["failed"])) == []
    assert mispredictions(foretold([None, None])) == []


def test_the_ablation_shows_no_prediction() -> None:
    group = foretold([0.1])
    assert nothing(group) == []
    text = render(records([group], feedback("none"), {}), 4000)
    assert "guess" not in text and "truth" not in text
    assert "guess 0" in render(records([group], feedback("mispredictions"), {}), 4000)


def test_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"wia\.feedback.*mispredictions"):
        feedback("misprediction")


def test_records_hold_failing_tasks_only_in_the_order_played() -> None:
    batch = [
        played(task("a"), ["solved", "solved"]),
        played(task("b"), ["failed", "solved"]),
        played(task("c"), ["infrastructure_error", "cut_off"]),
        played(task("d"), ["bad_format"]),
    ]
    rows = records(batch, nothing, {})
    assert [row["task"] for row in rows] == ["b", "d"]
    assert rows[0]["result"].startswith("1 of 2 attempts solved")


def test_diagnoses_are_counted_by_mode() -> None:
    failures = played(task(), ["failed"] * 3).failures
    by_id = {
        failures[0].id: Diagnosis(failures[0].id, "loop", "went round", 1, "stop going round", "q"),
        failures[1].id: Diagnosis(failures[1].id, "wrong_place", "looked there", 1, "look here", "q"),
        failures[2].id: Diagnosis(
            failures[2].id, "wrong_place", "looked there too", 1, "look elsewhere", "q"
        ),
    }
    lines = diagnosis_lines(failures, by_id)
    assert lines[0].startswith("wrong_place (2 times)") and "look here" in lines[0]
    assert lines[1].startswith("loop (1 times)")
    assert diagnosis_lines(failures, {}) == []


def test_render_leaves_out_whole_records_and_says_how_many() -> None:
    batch = [played(task(f"t{i}", "a goal " * 10), ["failed"]) for i in range(30)]
    text = render(records(batch, nothing, {}), 900)
    assert len(text) <= 900
    shown = text.count("Task:")
    assert f"({30 - shown} more failing tasks)" in text
    assert render([], 100) == ""


def test_clip_cuts_with_a_mark_and_folds_lines() -> None:
    assert clip("a\n b") == "a b"
    assert clip("x" * 20, 10) == "x" * 9 + "…"
