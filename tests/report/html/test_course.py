"""A run's course in the page: foresight, failure modes, curriculum, proposals, the prompt's difference."""

from __future__ import annotations

import re
from pathlib import Path

from roleagent_lite.report.html import course
from roleagent_lite.report.write import build
from roleagent_lite.types import Diagnosis
from tests.report import make
from tests.report.html.test_success import words


def test_foresight_stands_beside_trivial_predictors(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        report = build(run)
        text = course.world(report)
    assert report.fidelity is not None
    seen = words(text)
    assert "the same observation again" in seen and "first word of the action" in seen
    assert f"mean {report.fidelity.alignment:.2f} over {report.fidelity.comparisons} comparisons" in seen
    assert text.count('<figure class="plot">') == 2
    for warning in report.fidelity.warnings:
        assert warning.replace("'", "&#39;") in text


def test_no_prediction_is_said(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        assert course.world(build(run)) == "", "an evaluation foretells nothing"
        run.record("round/1", "round", {"round": 1})
        assert "No episode carries predictions" in course.world(build(run))
        assert "No failure was diagnosed." in course.failures(build(run))
        assert "No candidate was proposed." in course.candidates(build(run))


def test_failure_modes_over_time_and_who_got_over_them(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        for i in range(12):
            run.diagnoses.put(Diagnosis(f"2/x/t{i}#0", f"mode {i:02}", "", 0, "", ""))
        run.record("fixed/1", "fixed", {"mode": "navigation_loop", "prompt_set": make.CHILD.id, "round": 1})
        text = course.failures(build(run))
    assert "6 rarer modes" in text, "13 modes, 7 of their own"
    assert "navigation_loop 2 2 4 final, seen again in round 2" in words(text)
    assert len(re.findall("<tr>", text.split('<h3 class="tt">Failure modes by round')[1])) == 14
    assert 'href="#episodes&amp;q=mode%2000"' in text, "a mode leads to its episodes"
    with make.new_run(tmp_path / "none") as run:
        assert course.failures(build(run)) == ""


def test_the_curriculum_by_type_and_by_task(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        text = course.curriculum(build(run))
    seen = words(text)
    assert "all alike" in seen and "train0" in seen and "2 of 4" in seen
    assert "<li>" in text and "put" in seen and "clean" in seen
    with make.new_run(tmp_path / "one") as run:
        for task in (make.task(0, "train"), make.task(1, "train")):
            run.tasks.put(task)
        for k in (1, 2):
            run.record(
                f"round/{k}", "round", {"round": k, "p": {"train0": 0.4 + k / 10, "train1": 0.6 - k / 10}}
            )
        seen = words(course.curriculum(build(run)))
    assert "train0" in seen and "train1" in seen, "one type only: the tasks that moved most"
    with make.new_run(tmp_path / "none") as run:
        assert course.curriculum(build(run)) == ""


def test_proposals_with_their_fate(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        run.record("candidate/2/x", "candidate", {"round": 2, "reason": "no reply"})
        seen = words(course.candidates(build(run)))
    assert "1 seed final act.playbook entered 2 / 0 / 0 4 of 4 100 %" in seen
    assert "2 unknown none unknown refused ? / ? / ? not played no reply" in seen
    with make.new_run(tmp_path / "none") as run:
        assert course.candidates(build(run)) == ""


def test_what_changed_in_the_prompt_is_marked(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        text = course.prompt(build(run))
    assert '<span class="hunk">--- seed act.playbook\n</span>' in text
    assert '<span class="add">+- Open it first.\n</span>' in text and "What changed since the seed" in text
    with make.whole_run(tmp_path / "kept", adopted=False) as run:
        assert "The final prompt is the seed, unchanged." in course.prompt(build(run))
    with make.whole_run(tmp_path / "part", finished=False) as run:
        assert "has not chosen its final prompt yet" in course.prompt(build(run))
    with make.new_run(tmp_path / "none") as run:
        assert "does not say which prompt" in course.prompt(build(run))
