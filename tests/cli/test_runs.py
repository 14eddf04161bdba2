"""`runs`: what is there, in which state, and how to go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roleagent_lite.cli import runs
from roleagent_lite.errors import ConfigError
from roleagent_lite.store import Event
from tests.cli.make import cli
from tests.report import make


def listed(root: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    runs.command(runs=root, json=True)
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_no_runs_says_how_to_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(tmp_path / "runs", capsys) == []
    runs.command(runs=tmp_path / "runs")
    assert "no runs in" in capsys.readouterr().out


def test_res_03_a_killed_run_is_listed_as_interrupted_with_the_way_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make.whole_run(tmp_path / "done").close()
    with make.new_run(tmp_path / "killed") as run:
        make.play(
            run, make.episode(make.task(1), make.SEED), make.episode(make.task(2), make.SEED, make.BROKEN)
        )
    with make.new_run(tmp_path / "at-once") as run:
        run.dispatched.put(Event("c", "call", {}))
    make.new_run(tmp_path / "fresh").close()
    found = {str(one["name"]): one for one in listed(tmp_path, capsys)}
    assert {n: one["status"] for n, one in found.items()} == {
        "done": "finished",
        "killed": "interrupted",
        "at-once": "interrupted",
        "fresh": "new",
    }
    assert (found["killed"]["episodes"], found["killed"]["solved"], found["killed"]["errors"]) == (2, 1, 1)
    runs.command(runs=tmp_path)
    text = capsys.readouterr().out
    assert "--resume --run" in text
    assert next(line for line in text.splitlines() if line.startswith("killed")).endswith("100 %")


def test_a_run_that_a_live_process_plays_is_running_and_is_not_to_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make.new_run(tmp_path / "alive") as run:
        run.record("start", "start", {"counts": {"train": 4, "dev": 2, "test": 2}})
        run.dispatched.put(Event("c", "call", {}))
        done = cli("runs", "--runs", str(tmp_path), cwd=tmp_path)  # the lock is this process's
        assert done.returncode == 0 and " running " in done.stdout, done.stdout
        assert "interrupted" not in done.stdout and "--resume" not in done.stdout
        with pytest.raises(ConfigError, match=r"no interrupted evolve .*'alive' is being played by a live"):
            runs.to_resume(None, tmp_path, "evolve")
    assert listed(tmp_path, capsys)[0]["status"] == "interrupted"
    assert runs.to_resume(None, tmp_path, "evolve") == tmp_path / "alive"


def test_a_finished_run_whose_report_is_still_written_is_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make.whole_run(tmp_path / "done"), make.new_run(tmp_path / "begun"):
        found = {one["name"]: one["status"] for one in listed(tmp_path, capsys)}
    assert found == {"done": "finished", "begun": "running"}


def test_where_nothing_was_scored_the_errors_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make.new_run(tmp_path / "dead") as run:
        make.play(run, *(make.episode(make.task(n), make.SEED, make.BROKEN) for n in range(3)))
    with make.new_run(tmp_path / "part") as run:
        make.play(
            run, make.episode(make.task(1), make.SEED), make.episode(make.task(2), make.SEED, make.BROKEN)
        )
    runs.command(runs=tmp_path)
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[-3:] == ["episodes", "errors", "solved"]
    rows = {line.split()[0]: line for line in lines if line}
    assert rows["dead"].split()[-4:] == ["3", "3", "nothing", "scored"]
    assert rows["part"].split()[-4:] == ["2", "1", "100", "%"]


def test_a_run_that_cannot_be_read_is_not_hidden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make.whole_run(tmp_path / "r").close()
    with (tmp_path / "r" / "trajectories.jsonl").open("ab") as file:
        file.write(b"no json\n")
    (one,) = listed(tmp_path, capsys)
    assert one["status"] == "unreadable" and "damaged" in str(one["reason"])
    runs.command(runs=tmp_path)
    assert "damaged" in capsys.readouterr().out


def begun(root: Path, name: str, **counts: int) -> None:
    with make.new_run(root / name) as run:
        run.record("start", "start", {"counts": {"train": 0, "dev": 0, "test": 0} | counts})
        run.dispatched.put(Event("c", "call", {}))


def test_each_job_resumes_its_own_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun(tmp_path, "whole", train=4, dev=2, test=2)
    begun(tmp_path, "scored", dev=7)
    assert runs.to_resume(None, tmp_path, "evolve") == tmp_path / "whole"
    assert runs.to_resume(None, tmp_path, "eval") == tmp_path / "scored"
    with pytest.raises(ConfigError, match="roleagent-lite eval --resume --run scored"):
        runs.to_resume("scored", tmp_path, "evolve")
    with pytest.raises(ConfigError, match="roleagent-lite evolve --resume --run whole"):
        runs.to_resume("whole", tmp_path, "eval")
    assert {str(one["name"]): one["job"] for one in listed(tmp_path, capsys)} == {
        "whole": "evolve",
        "scored": "eval",
    }
    runs.command(runs=tmp_path)
    assert "roleagent-lite eval --resume --run scored" in capsys.readouterr().out


def test_a_run_that_never_began_may_be_resumed_by_either(tmp_path: Path) -> None:
    make.new_run(tmp_path / "fresh").close()
    assert runs.to_resume("fresh", tmp_path, "eval") == runs.to_resume("fresh", tmp_path, "evolve")
    with pytest.raises(ConfigError, match="no interrupted eval"):
        runs.to_resume(None, tmp_path, "eval")
