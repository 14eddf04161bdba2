"""curve: lines that hold, whatever a kill has left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite.distill import curve
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.types import Outcome
from tests.distill import make


def test_what_a_line_says_of_episodes(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r")
    played = [*make.group(run, "a", [True, False]), *make.group(run, "b", [True, True])]
    broken = make.episode(run, "c", 0, False, outcome=Outcome("infrastructure_error", "provider"))
    told = curve.told([*played, broken])
    assert (told["n"], told["solved"], told["score"]) == (4, 0.75, 0.75)
    assert told["low"] < 0.75 < told["high"]
    assert curve.told([broken])["solved"] is None
    assert curve.peak_mib() > 10


def test_lines_of_updates_that_are_done_again_go(tmp_path: Path) -> None:
    assert curve.read(tmp_path) == []
    for update in range(3):
        curve.add(tmp_path, {"update": update})
    with (tmp_path / curve.FILE).open("a", encoding="utf-8") as file:
        file.write('{"update": 3, "so')
    assert [r["update"] for r in curve.read(tmp_path)] == [0, 1, 2]
    assert [r["update"] for r in curve.keep(tmp_path, 2)] == [0, 1]
    curve.add(tmp_path, {"update": 2})
    assert [r["update"] for r in curve.read(tmp_path)] == [0, 1, 2]


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    with pytest.raises(RoleAgentError, match=r"cannot write .*curve.jsonl: .*; the last checkpoint is kept"):
        curve.add(tmp_path / "gone", {})
