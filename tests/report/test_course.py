"""Sections on the course of a run: modes, curriculum, candidates, prompt."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from roleagent_lite.report import course
from roleagent_lite.report.gather import gather
from roleagent_lite.types import Diagnosis, PromptSet
from tests.report import make


def test_modes_by_round_most_frequent_first_and_rare_ones_summed(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        run.record("fixed/2/n", "fixed", {"mode": "navigation_loop", "prompt_set": make.CHILD.id, "round": 2})
        run.diagnoses.put(Diagnosis("2/seed0000/x#0", "wrong | object", "", 0, "", ""))
        text = course.modes_table(gather(run))
        assert "| failure mode | round 1 | round 2 | all | got over by |" in text
        assert (
            "| navigation\\_loop | 2 | 2 | 4 | final |" in text
            and "| wrong \\| object | 0 | 1 | 1 |  |" in text
        )
        for i in range(20):
            run.diagnoses.put(Diagnosis(f"1/seed0000/y{i}#0", f"rare{i:02d}", "", 0, "", ""))
        assert "| 10 rarer modes |  |  | 10 |  |" in course.modes_table(gather(run))
        run.diagnoses.put(Diagnosis("5/seed0000/x#0", "navigation_loop", "", 0, "", ""))
        assert "| 5 | final, seen again in round 5 |" in course.modes_table(gather(run))


def test_no_modes_no_table(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        facts = gather(run)
    assert course.modes_table(facts) == course.candidates_table(facts) == course.curriculum_table(facts) == ""
    assert course.curriculum_plot(facts) is None and course.success_plot(facts) is None


def test_curriculum_sums_probabilities_by_type(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        make.play(run, make.episode(make.task(0, "train"), make.CHILD, round=1))  # beside its parent
        facts = gather(run)
    shares = course.type_shares(facts)
    assert shares["clean"] == [(1, 0.5), (2, 0.5)]
    assert shares["put"] == [(1, 0.5), (2, pytest.approx(0.55))]
    text = course.curriculum_table(facts)
    assert "| 2 | 2 | 25.0 % | 30.0 % | `train0` (put) | 50 % of 4 | not played |" in text
    assert "| 1 | 2 | 25.0 % | 25.0 % | all alike | 50 % of 4 | 100 % of 1 |" in text
    svg = course.curriculum_plot(facts)
    assert svg is not None and ET.fromstring(svg) is not None


def test_success_plot_has_a_point_for_each_scored_prompt_set(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        svg = course.success_plot(gather(run))
    assert svg is not None
    circles = list(ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}circle"))
    assert len(circles) == 4  # two prompt sets on dev, two rounds of training


def test_one_point_is_no_plot(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        make.play(run, make.episode(make.task(1, "dev"), make.SEED))
        assert course.success_plot(gather(run)) is None


def test_candidates_say_why(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        run.record(
            "candidate/2/none",
            "candidate",
            {"round": 2, "parent": make.CHILD.id, "child": None, "component": "act.playbook",
             "accepted": False, "reason": "reply cut at its limit"},
        )  # fmt: skip
        text = course.candidates_table(gather(run))
    assert "| 1 | seed | final | `act.playbook` | entered | 2-0-0 | 100 % of 4 | 2 won, 0 lost |" in text
    assert (
        "| 2 | final | none | `act.playbook` | refused | ?-?-? | not played | reply cut at its limit |"
        in text
    )


def test_prompt_section_shows_the_difference_and_the_whole(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        text = course.prompt_section(gather(run), {p.id: p for p in run.prompt_sets})
    assert "+- Open it first." in text and "--- seed act.playbook" in text
    assert "`act.instructions`:\n\n```\nAct.\n```" in text


def test_prompt_section_where_nothing_changed_or_nothing_is_known(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r", adopted=False) as run:
        sets = {p.id: p for p in run.prompt_sets}
        assert "is the seed, unchanged" in course.prompt_section(gather(run), sets)
        assert "(empty)" in course.prompt_section(gather(run), sets)
        assert "does not say which prompt" in course.prompt_section(gather(run), {})


def test_prompt_section_before_the_end_and_of_an_evaluation(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r", finished=False) as run:
        sets = {p.id: p for p in run.prompt_sets}
        assert "has not chosen its final prompt yet" in course.prompt_section(gather(run), sets)
        run.record("finished", "finished", {})
        assert "The prompt that was played:" in course.prompt_section(gather(run), sets)


def test_difference_names_only_texts_that_changed() -> None:
    one = PromptSet("a", {"x": "1\n2", "y": "same"})
    two = PromptSet("b", {"x": "1\n3", "y": "same", "z": "new"})
    text = course.prompt_difference(one, two)
    assert "-2" in text and "+3" in text and "+new" in text and "same" not in text


def test_rounds_as_data_are_plain(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        make.play(run, make.episode(make.task(0, "train"), make.CHILD, round=1))
        data = course.rounds_as_data(gather(run))
    assert [(d["round"], d["parent"]["k"], d["parent"]["n"]) for d in data] == [(1, 2, 4), (2, 2, 4)]
    assert data[0]["child"]["k"] == 1 and data[1]["child"] is None
    assert data[0]["drawn"] == ["train0", "train1"] and data[0]["p"]["train0"] == 0.25
