"""`show`: a run at a glance; a trajectory with its predictions beside what came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.cli import show
from roleagent_lite.errors import ConfigError
from tests.report import make


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make.whole_run(tmp_path / "r").close()
    return tmp_path


def shown(root: Path, capsys: pytest.CaptureFixture[str], which: str | None = None, **how: Any) -> str:
    show.command("r", which, runs=root, **how)
    return capsys.readouterr().out


def test_a_run_is_its_report(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(root, capsys)
    for words in ("## Candidates", "## Curriculum", "navigation", "seed prompt solved 3 of 12"):
        assert words in text
    assert json.loads(shown(root, capsys, json=True))["sealed"]["wins"] == 6


def test_a_trajectory_step_by_step(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(root, capsys, "1/seed0000/train0#1")
    assert "1/seed0000/train0#1: failed (step_limit)" in text and "goal: goal 0" in text
    assert " 2 does (not admissible): open box" in text
    assert "foretold: The box is open.  [alignment 1.00]" in text and "came: The box is open." in text
    assert "failure mode: navigation_loop" in text and "lesson: Open it first." in text
    assert "advantage" in text


def test_a_trajectory_as_data(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(shown(root, capsys, "1/seed0000/train0#1", json=True))
    assert data["outcome"] == "failed" and data["diagnosis"]["mode"] == "navigation_loop"
    pair = data["steps"][0]["predictions"][0]
    assert pair == {"ahead": 1, "foretold": "The box is open.", "came": "The box is open.", "alignment": 1.0}


def test_what_is_beyond_the_end_was_never_seen() -> None:
    step = make.step()
    one = make.episode(make.task(1), make.SEED, steps=[step, make.step(foretold=None)])
    data = show.steps_as_data(one, None)
    assert data[1]["predictions"][0] == {
        "ahead": 1, "foretold": None, "came": "The box is open.", "alignment": None,
    }  # fmt: skip
    assert data[0]["advantage"] is None
    text = show.trajectory_text(one, data, "g", False)
    assert "foretold: (nothing)  [not scored]" in text and "advantage" not in text


def test_the_report_can_be_written_anew(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(root, capsys, html=True)
    assert said.strip() == str(root / "r" / "report.html")
    assert (root / "r" / "report.html").is_file() and (root / "r" / "report.md").is_file()
    assert json.loads(shown(root, capsys, html=True, json=True)) == {"report": said.strip()}


def test_a_part_of_an_id_is_enough_where_it_is_one(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(root, capsys, "0/seed0000/dev1").startswith("0/seed0000/dev1#0")
    with pytest.raises(ConfigError, match=r"'dev1' names 2 trajectories of run r: .*/dev1#0, .*show r list"):
        shown(root, capsys, "dev1")
    with pytest.raises(ConfigError, match=r"no trajectory 'dve1'.*show r list"):
        shown(root, capsys, "dve1")


def test_the_list_names_every_trajectory(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(shown(root, capsys, "list", json=True))
    assert len(rows) == 8 + 8 + 24
    assert "9/child000/test3#0" in shown(root, capsys, "list")


def test_long_texts_are_cut_unless_asked_for() -> None:
    one = make.episode(make.task(1), make.SEED, steps=[make.step(foretold="word " * 100)])
    data = show.steps_as_data(one, None)
    assert "…" in show.trajectory_text(one, data, "g", False)
    assert "…" not in show.trajectory_text(one, data, "g", True)


def test_an_error_is_shown_with_its_trace() -> None:
    one = make.episode(make.task(1), make.SEED, make.BROKEN, error="Traceback\nValueError: lamp")
    assert "ValueError: lamp" in show.trajectory_text(one, show.steps_as_data(one, None), "g", False)


def test_a_missing_run_is_named(root: Path) -> None:
    with pytest.raises(ConfigError, match="known: r"):
        show.command("q", runs=root)
