"""`tasks`: the shipped sets, and a check of one's own file."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import typer

from roleagent_lite.cli import tasks
from roleagent_lite.envs import checker
from roleagent_lite.envs.checker import Limit
from roleagent_lite.errors import ConfigError, MissingExtra
from tests.cli.make import toy_tasks


def test_shipped_sets_have_all_three_splits(capsys: pytest.CaptureFixture[str]) -> None:
    tasks.command(json=True)
    sets = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert {"household-easy", "household-medium", "household-full"} <= set(sets)
    for one in sets.values():
        assert set(one["splits"]) == {"train", "dev", "test"} and min(one["splits"].values()) > 0
    tasks.command()
    assert "household-easy" in capsys.readouterr().out


def test_check_of_a_good_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = toy_tasks(tmp_path / "t.jsonl", 3)
    tasks.command("check", str(file), json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["splits"] == {"train": 3, "dev": 3, "test": 3} and found["types"] == {"a": 6, "b": 3}
    assert found["problems"] == found["notes"] == [] and len(found["hash"]) == 16


def test_check_plays_the_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text('{"env": "tests.toy:Shape", "goal": "x", "params": {"shape": "dict"}}\n')
    with pytest.raises(typer.Exit) as left:
        tasks.command("check", str(file))
    assert left.value.exit_code == 1
    assert "task t" in capsys.readouterr().out
    tasks.command("check", str(file), env=False)
    assert "no problems found" in capsys.readouterr().out


def test_check_names_a_step_limit_that_a_run_would_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = 'from tests.toy import Toy\n\n\nclass Wordy(Toy):\n    max_steps = "6"\n'
    (tmp_path / "wordy_world.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    row = {"env": "wordy_world:Wordy", "goal": "get out", "split": "train"}
    (tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    found = tasks.check(str(tmp_path / "t.jsonl"), play=True)["problems"]
    assert any("max_steps must be a positive whole number, found '6'" in p for p in found)


def test_a_check_that_takes_too_long_says_how_far_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(checker, "Limit", lambda: Limit(clock=lambda: float(next(seconds))))
    tasks.command("check", str(toy_tasks(tmp_path / "t.jsonl", 3)))
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "no problems found" and len(said) == 3
    assert said[2].startswith("note: the check stopped after 30 s: ") and "of 5 tasks" in said[2]


def test_tsk_03_bad_rows_are_named(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text('{"env":"a","goal":"b"}\n\n[]\n\n{"env":"a"}\n')
    with pytest.raises(ConfigError, match=r"line 3: .*\n  line 5: needs goal; has env"):
        tasks.command("check", str(file))


def test_other_words_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'check'"):
        tasks.command("chek", "x")
    with pytest.raises(ConfigError, match="needs a file"):
        tasks.command("check")


def test_pull_fetches_and_says_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("roleagent_lite.envs.tools.data.pull", lambda: Path("/cache/bfcl-eval-1"))
    tasks.command("pull", "bfcl")
    assert capsys.readouterr().out == "bfcl: /cache/bfcl-eval-1\n"
    tasks.command("pull", "bfcl", json=True)
    assert json.loads(capsys.readouterr().out) == {"name": "bfcl", "path": "/cache/bfcl-eval-1"}
    with pytest.raises(ConfigError, match=r"tasks pull fetches `bfcl`.*found nothing"):
        tasks.command("pull")
    with pytest.raises(ConfigError, match=r"found 'bfc'; did you mean 'bfcl'"):
        tasks.command("pull", "bfc")


def test_data_that_is_not_here_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path))
    with pytest.raises(MissingExtra, match="roleagent-lite tasks pull bfcl"):
        tasks.command("check", "tools")
    tasks.command("check", "tools", env=False)
