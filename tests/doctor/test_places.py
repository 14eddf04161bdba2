"""Disks, directories, runs and stores: whole, absent, held, torn and broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from roleagent_lite.config import RunConfig
from roleagent_lite.doctor import places
from roleagent_lite.memory.health import TableHealth
from roleagent_lite.store import Event, Run, held
from tests.memory.make import Hashing, items
from tests.report import make


@pytest.mark.parametrize(
    ("free", "state"), [(50 << 30, "ok"), (1 << 30, "warning"), (50 << 20, "problem"), (0, "problem")]
)
def test_disk(tmp_path: Path, free: int, state: str) -> None:
    line = places.disk("disk", tmp_path / "not" / "yet", free)
    assert line.state == state and str(tmp_path) in line.found
    assert bool(line.advice) == (state != "ok")


def test_the_disk_of_a_folder_that_is_not_there_yet_is_its_parents(tmp_path: Path) -> None:
    assert places.existing(tmp_path / "a" / "b") == tmp_path
    assert places.disk("disk", tmp_path / "a" / "b").state in ("ok", "warning", "problem")


def test_writable(tmp_path: Path) -> None:
    assert places.writable("x", tmp_path).found == f"{tmp_path} can be written"
    assert places.writable("x", tmp_path / "new" / "deep").found.endswith("can be made")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [Path("/proc/self"), Path("/proc/runs")])
def test_a_folder_that_cannot_be_written_is_a_problem(path: Path) -> None:
    line = places.writable("x", path)
    assert line.state == "problem" and "/proc" in line.found and "permissions" in line.advice


def test_a_file_in_the_place_of_the_folder_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("", encoding="utf-8")
    assert places.writable("x", tmp_path / "runs").state == "problem"


def test_no_runs(tmp_path: Path) -> None:
    assert places.runs(tmp_path / "runs")[0].found.startswith("none in")
    assert places.all_stores(tmp_path / "runs", False)[0].state == "ok"


def test_whole_runs_are_one_line(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make.whole_run(tmp_path / name).close()
    (line,) = places.runs(tmp_path)
    assert line.state == "ok" and line.found.startswith("2 in ")
    (one,) = places.run_lines(tmp_path / "a", whole=True)
    assert one.state == "ok" and "finished" in one.found and "episodes" in one.found


def test_a_run_that_a_live_process_writes_is_named_and_not_disturbed(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", RunConfig()) as run:
        assert held(tmp_path / "r")
        lines = places.runs(tmp_path)
        assert lines[1].name == "run r" and "live process" in lines[1].found
        run.record("a", "note", {})
    assert not held(tmp_path / "r") and len(places.runs(tmp_path)) == 1
    assert not held(tmp_path / "nothing")
    Run.create(tmp_path / "r", RunConfig()).close()


def test_a_run_held_by_another_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from roleagent_lite.store import Run\n"
        "from roleagent_lite.config import RunConfig\n"
        "run = Run.create(Path(sys.argv[1]), RunConfig()); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "r")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == "held\n"
        assert held(tmp_path / "r")
        other.stdin.close()
        other.wait(60)
    assert not held(tmp_path / "r")


def test_a_torn_run_and_an_unreadable_one(tmp_path: Path) -> None:
    with Run.create(tmp_path / "torn", RunConfig()) as run:
        run.record("a", "note", {})
        run.dispatched.put(Event("c", "call", {}))
    with (tmp_path / "torn" / "events.jsonl").open("ab") as file:
        file.write(b'{"v":1,"ke')
    (tmp_path / "torn" / "calls.jsonl").write_bytes(b"")
    before = (tmp_path / "torn" / "events.jsonl").read_bytes()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.toml").write_text("model = ", encoding="utf-8")
    found = {line.name: line for line in places.runs(tmp_path)}
    assert found["run torn"].state == "warning" and "events.jsonl" in found["run torn"].found
    assert "calls.jsonl" not in found["run torn"].found
    assert found["run bad"].state == "problem" and "config.toml" in found["run bad"].found
    assert (tmp_path / "torn" / "events.jsonl").read_bytes() == before


def test_damage_inside_is_seen_where_the_whole_run_is_read(tmp_path: Path) -> None:
    make.whole_run(tmp_path / "r").close()
    with (tmp_path / "r" / "calls.jsonl").open("ab") as file:
        file.write(b"no json\n")
    assert places.run_lines(tmp_path / "r") == []
    (line,) = places.run_lines(tmp_path / "r", whole=True)
    assert line.state == "problem" and "calls.jsonl line" in line.found


def test_only_the_newest_runs_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MANY", 1)
    for name in ("a", "b"):
        Run.create(tmp_path / name, RunConfig()).close()
    assert "the newest 1 were looked at" in places.runs(tmp_path)[0].found


def store(run: Path, count: int = 3) -> Path:
    from roleagent_lite.memory import Memory

    Run.create(run, RunConfig()).close()
    Memory(run / "memory", Hashing()).upsert("catalogue", items(count))
    return run


def test_a_store_is_told_by_table(tmp_path: Path) -> None:
    (line,) = places.stores([store(tmp_path / "r")])
    assert line.state == "ok" and line.name == "store of r"
    assert "catalogue: 3 rows, vectors of 32 by hashing, 1 fragments" in line.found
    assert places.all_stores(tmp_path, True) == [line]
    (light,) = places.all_stores(tmp_path, False)
    assert light.state == "ok" and "1 tables" in light.found and "--stores" in light.advice


def test_a_broken_store_is_a_problem_with_a_way_out(tmp_path: Path) -> None:
    run = store(tmp_path / "r")
    for file in (run / "memory").rglob("*.lance"):
        if file.is_file():
            file.write_bytes(b"")
    (line,) = places.stores([run])
    assert line.state == "problem" and "cannot be read" in line.found and "delete this memory" in line.advice


@pytest.mark.parametrize(
    ("one", "state", "words"),
    [
        (TableHealth("t", rows=4, fragments=1), "ok", "no vectors"),
        (TableHealth("t", rows=4, dim=8, embedder="e", without=2), "ok", "2 rows are found by words only"),
        (TableHealth("t", rows=4, twice=1), "problem", "1 ids twice"),
        (TableHealth("t", rows=9999, fragments=5000), "warning", "5000 fragments"),
        (TableHealth("t", "OSError: gone"), "problem", "OSError: gone"),
    ],
)
def test_what_is_said_of_a_table(one: TableHealth, state: str, words: str) -> None:
    line = places._table_line("store", one)
    assert line.state == state and words in line.found
