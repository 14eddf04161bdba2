"""Tables, numbers and finding a run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from roleagent_lite import redact
from roleagent_lite.cli import output
from roleagent_lite.errors import ConfigError


def test_json_is_one_document_and_scrubbed(capsys: pytest.CaptureFixture[str]) -> None:
    redact.register("sesame-open-987654")
    try:
        output.emit({"a": "sesame-open-987654", "p": Path("x")}, "", True)
    finally:
        redact._secrets.discard("sesame-open-987654")
    assert json.loads(capsys.readouterr().out) == {"a": "[key]", "p": "x"}


def test_lone_surrogates_are_printable(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(None, "a \ud83d b 🔑", False)
    assert capsys.readouterr().out == "a ? b 🔑\n"


def test_a_text_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit({"a": "\x1b[2J"}, "came: \x1b[2J\x1b]52;c;eA==\x07", False)
    assert capsys.readouterr().out == "came: \\x1b[2J\\x1b]52;c;eA==\\x07\n"
    output.emit({"a": "\x1b[2J"}, "", True)
    out = capsys.readouterr().out
    assert "\x1b" not in out and json.loads(out) == {"a": "\x1b[2J"}


def test_the_way_on_can_be_pasted() -> None:
    assert output.resuming("eval", Path("runs/a")) == "roleagent-lite eval --resume --run a"
    assert output.resuming("evolve", Path("/x y/b c")) == (
        "roleagent-lite evolve --resume --run 'b c' --runs '/x y'"
    )


def test_four_cells_go_on_with_the_line_that_began_them() -> None:
    assert output.resuming("cells", Path("runs/a")).startswith(
        "give the `roleagent-lite distill RUN --cells`"
    )
    assert "`roleagent-lite distill --online` line" in output.resuming("online", Path("runs/a"))


def test_table_is_aligned_and_a_cell_is_one_line() -> None:
    assert output.table(["a", "b"], [["long one", "x\ny"], ["s", ""]]) == "a         b\nlong one  x y\ns"


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "unknown"), (0.0, "$0.00"), (0.0004, "$0.0004"), (12.5, "$12.50")],
)
def test_dollars(value: float | None, words: str) -> None:
    assert output.dollars(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(None, "unknown"), (59.4, "59 s"), (61, "1 min 01 s"), (3660, "1 h 01 min")]
)
def test_seconds(value: float | None, words: str) -> None:
    assert output.seconds(value) == words


def test_shares() -> None:
    assert output.percent(None) == output.interval(None, 0, 1) == "unknown"
    assert output.interval(0.5, 0.25, 0.751) == "50 % (25-75 %)"


def new(root: Path, name: str, at: int) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "config.toml").write_text("")
    os.utime(root / name / "config.toml", (at, at))


def test_runs_are_listed_newest_last_and_found_by_name_or_path(tmp_path: Path) -> None:
    assert output.run_names(tmp_path / "none") == []
    new(tmp_path, "young", 200)
    new(tmp_path, "old", 100)
    (tmp_path / "no-run").mkdir()
    assert output.run_names(tmp_path) == ["old", "young"]
    assert output.find_run("old", tmp_path) == tmp_path / "old"
    assert output.find_run(str(tmp_path / "old"), Path("elsewhere")) == tmp_path / "old"


def test_a_missing_run_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are no runs yet"):
        output.find_run("x", tmp_path)
    new(tmp_path, "evolve-1", 1)
    with pytest.raises(ConfigError, match="did you mean 'evolve-1'"):
        output.find_run("evovle-1", tmp_path)


def test_next_name_is_free(tmp_path: Path) -> None:
    assert output.next_name("evolve", tmp_path) == "evolve-1"
    (tmp_path / "evolve-1").mkdir()
    assert output.next_name("evolve", tmp_path) == "evolve-2"
    assert output.flat({"a": 1, "b": 2}) == "a=1, b=2"


def test_json_stays_json_whatever_the_key_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    redact.register("100000")
    output.emit({"n": 100000, "text": "100000 \x9b31m\u202e", "100000": None}, "", True)
    shown = capsys.readouterr().out
    assert json.loads(shown) == {"n": 100000, "text": "[key] \x9b31m\u202e", "[key]": None}
    assert "\x9b" not in shown and "\u202e" not in shown
