"""Task types, endings, moves and arms in the page, with what broke and the run's notes as text."""

from __future__ import annotations

from pathlib import Path

from roleagent_lite.report.html import endings, success
from roleagent_lite.report.write import build
from tests.report import make
from tests.report.html.test_success import words


def test_types_splits_endings_and_moves(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        make.play(
            run,
            make.episode(make.task(99), make.SEED, make.BROKEN, round=9, error="E: <b>"),
            tasks=[make.task(99)],
        )
        run.record("note/1", "note", {"text": "a <note>"})
        text = success.results(build(run))
    seen = words(text)
    assert "By task type: sealed test tasks" in seen and "By task type: dev tasks" in seen
    assert "failed step_limit" in seen and "infrastructure error provider" in seen
    assert "E: &lt;b&gt;" in text and "a &lt;note&gt;" in text
    assert "sealed test tasks" in seen and "not admissible" in seen
    assert "Training rows are over the tasks" in seen


def test_arms_are_compared_where_there_are_two(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        assert endings.arms_table(build(run)) == ""
        make.play(run, make.episode(make.task(1, "train"), make.SEED, arm="trace", round=7))
        assert "trace" in endings.arms_table(build(run))
