"""Field cases RES: kills, cuts, full and read-only disks, moved runs, two processes; through the product."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.store import TABLES, Run
from tests.cases.kit import Said, goal, tasks_file, won
from tests.cli.make import environment
from tests.fake_server import Answer, FakeServer, Say, Seen
from tests.kill_runner import begin, command, finish
from tests.kitchen_server import config_file, serve
from tests.test_server_evolve import until

# The program under a limit on the size of each file it writes, lifted never: a disk that is full.
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from roleagent_lite.cli.main import main
main(sys.argv[2:])
"""


def words(fake: FakeServer, *more: str) -> list[str]:
    return ["eval", "--tasks", "t.jsonl", "--model", "fake", "--base-url", fake.url, "--run", "run", *more]


def limited(size: int, folder: Path, arguments: list[str]) -> Said:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(size), *arguments],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr, folder)


def whole_lines(run: Path) -> None:
    for table in run.glob("*.jsonl"):
        for line in table.read_bytes().split(b"\n")[:-1]:
            json.loads(line)
        assert table.read_bytes()[-1:] in (b"", b"\n"), table


# --- RES-01 ---


@pytest.mark.parametrize("name", ["trajectories", "calls", "dispatched", "events", "tasks", "results"])
def test_res_01_the_last_30_bytes_of_any_table_are_cut(name: str, tmp_path: Path) -> None:
    tasks_file(tmp_path / "t.jsonl", 3)
    with FakeServer(won) as fake:
        assert command(*words(fake), cwd=tmp_path)[0] == 0
        run, asked = tmp_path / "runs" / "run", fake.count
        before = {p.name: p.read_bytes() for p in run.glob("*.jsonl")}
        file = run / f"{name}.jsonl"
        data = file.read_bytes()
        file.write_bytes(data[:-30])
        code, out, err = command(*words(fake), cwd=tmp_path)
        assert code == 0 and "3 of 3" in out, err
        resent = fake.count - asked
    assert resent == 0, "what its episodes say is stored; nothing needs the lost record"
    assert "half written" in err
    whole_lines(run)
    for table, rows in before.items():
        if table in ("calls.jsonl", "dispatched.jsonl"):
            continue
        keys = [json.loads(line)["key"] for line in (run / table).read_bytes().splitlines()]
        assert len(keys) == len(set(keys)), table
        then = {json.loads(line)["key"] for line in rows.splitlines()}
        assert {k for k in then if not k.startswith("session/")} <= set(keys), table


# --- RES-03 ---


def test_res_03_a_run_that_was_moved_or_copied_goes_on_without_a_call(tmp_path: Path) -> None:
    tasks_file(tmp_path / "t.jsonl", 4)
    with FakeServer(won) as fake:
        stopped = command(*words(fake, "--max-calls", "5", "--workers", "1"), cwd=tmp_path)
        assert stopped[0] == 3, stopped[2]
        asked = fake.count
        (tmp_path / "elsewhere").mkdir()
        shutil.copytree(tmp_path / "runs" / "run", tmp_path / "elsewhere" / "copy")
        shutil.rmtree(tmp_path / "runs")
        more = ["--max-calls", "50", "--workers", "1", "--runs", "elsewhere"]
        code, out, err = command("eval", "--resume", "--run", "copy", *more, cwd=tmp_path)
        assert code == 0 and "4 of 4" in out, err
        assert fake.count == 8 and asked == 5, "what was done is not paid for again"
    assert not (tmp_path / "runs").exists()


def test_res_03_two_processes_on_one_run(tmp_path: Path) -> None:
    tasks_file(tmp_path / "t.jsonl", 2)
    waiting: list[int] = []

    def slow(seen: Seen) -> Answer:
        waiting.append(1)
        answer = won(seen)
        assert isinstance(answer, Say)
        return Say(answer.text, delay=300.0 if len(waiting) == 1 else 0.0)

    with FakeServer(slow) as fake:
        first = begin(*words(fake, "--workers", "1"), cwd=tmp_path)
        until(lambda: len(waiting) == 1, first)
        code, out, err = command(*words(fake), cwd=tmp_path)
        Said(code, out, err, tmp_path).message(2, "runs/run", "another process", "--run")
        assert fake.count == 1
        listed = json.loads(command("runs", "--json", cwd=tmp_path)[1])
        assert listed[0]["name"] == "run"  # reading is possible all the time
        assert first.pid is not None
        os.kill(first.pid, 9)
        assert finish(first) == -9
        code, out, err = command(*words(fake), cwd=tmp_path)
        assert code == 0 and "2 of 2" in out, err


# --- RES-05 ---


@pytest.mark.parametrize("room", [0, 10, 400, 1500, 6000, 20_000])
def test_res_05_a_disk_that_is_full_at_any_moment(room: int, tmp_path: Path) -> None:
    """Whatever file meets the limit first: one clear message, nothing empty or half, and the run goes on."""
    tasks_file(tmp_path / "t.jsonl", 6)
    with FakeServer(won) as fake:
        said = limited(room, tmp_path, words(fake, "--workers", "2"))
        assert said.code == 1, said.err
        line = said.message(1, "cannot write")
        assert re.search(r"cannot write .*runs", line), line
        run = tmp_path / "runs" / "run"
        if run.is_dir():
            odd = [p.name for p in run.iterdir() if p.name != "lock" and p.is_file() and not p.stat().st_size]
            assert [name for name in odd if not name.endswith((".jsonl", "log.txt"))] == []
            if (run / "config.toml").exists():
                with Run.open(run) as opened:
                    kept = len(opened.calls)
            else:
                kept = 0
        asked = fake.count
        code, out, err = command(*words(fake, "--workers", "2"), cwd=tmp_path)
        assert code == 0 and "6 of 6" in out, err
        assert fake.count - asked == 12 - (kept if run.is_dir() else 0), (
            "only what was not kept is sent again"
        )
    whole_lines(run)


def test_res_05_a_full_disk_at_the_report_keeps_the_old_one(tmp_path: Path) -> None:
    tasks_file(tmp_path / "t.jsonl", 1)
    with FakeServer(won) as fake:
        assert command(*words(fake), cwd=tmp_path)[0] == 0
        report = tmp_path / "runs" / "run" / "report.md"
        before = report.read_bytes()
        biggest = max(p.stat().st_size for p in report.parent.glob("*.jsonl"))
        assert len(before) > 200
        said = limited(100, tmp_path, words(fake))
        assert said.code == 1 and "cannot write" in said.err and "Traceback" not in said.err
        assert fake.count == 2 and biggest > 0
    assert report.read_bytes() == before
    assert not list(report.parent.glob("*.part"))


def test_res_05_the_first_file_that_did_not_fit_is_named_and_not_the_report(tmp_path: Path) -> None:
    """The report does not fit either; its own fault stands beside the first one and not in its place."""
    tasks_file(tmp_path / "t.jsonl", 12)
    with FakeServer(won) as fake:
        said = limited(40_000, tmp_path, words(fake))
        line = said.message(1, "calls.jsonl", "free some space and resume")
        assert "report" not in line and "report.html" in said.err
        code, out, err = command(*words(fake), cwd=tmp_path)
    assert code == 0 and "12 of 12" in out, err


def test_res_05_a_table_that_is_a_folder_is_refused_before_the_model_is_asked(tmp_path: Path) -> None:
    tasks_file(tmp_path / "t.jsonl", 2)
    with FakeServer(won) as fake:
        assert command(*words(fake), cwd=tmp_path)[0] == 0
        run, asked = tmp_path / "runs" / "run", fake.count
        for table in ("calls", "trajectories"):
            (run / f"{table}.jsonl").rename(run / f"{table}.kept")
            (run / f"{table}.jsonl").mkdir()
            Said(*command(*words(fake), cwd=tmp_path), tmp_path).message(2, f"{table}.jsonl is a folder")
            (run / f"{table}.jsonl").rmdir()
            (run / f"{table}.kept").rename(run / f"{table}.jsonl")
        assert fake.count == asked
        assert command(*words(fake), cwd=tmp_path)[0] == 0


def test_res_05_a_full_log_is_no_traceback_on_the_screen(tmp_path: Path) -> None:
    code = (
        "import logging, resource, sys, warnings; from pathlib import Path\n"
        "from roleagent_lite.cli import border\n"
        "border.use_run(Path('run'))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))\n"
        "for n in range(3): logging.getLogger('x').warning('a long message number %s', n)\n"
        "logging.shutdown()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_res_05_a_full_disk_under_the_memory_store(tmp_path: Path) -> None:
    """The index is not the record: a clear message that names it, and the run goes on when there is room."""
    config_file(tmp_path, {"aiw": {"retrieve": "vector", "embedder": "none"}})
    with FakeServer(serve) as fake:
        arguments = ["evolve", "--config", "kitchen.toml", "--model", "fake", "--base-url", fake.url]
        arguments += ["--run", "run"]
        whole = command(*arguments, "--run", "whole", cwd=tmp_path)
        assert whole[0] == 0, whole[2]
        store = tmp_path / "runs" / "whole" / "memory"
        largest = max(p.stat().st_size for p in store.rglob("*") if p.is_file())
        tables = max(p.stat().st_size for p in store.parent.glob("*.jsonl"))
        code = LIMITED.replace(
            "from roleagent_lite.cli", "from roleagent_lite.memory.store import Memory\n"
            "import roleagent_lite.memory.store as room\n"
            "make = Memory._create\n"
            "def full(self, *a):\n"
            "    resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))\n"
            "    try: return make(self, *a)\n"
            "    finally: resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
            "Memory._create = full\n"
            "from roleagent_lite.cli", 1,
        )  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code, "100000000", *arguments],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        said = Said(done.returncode, done.stdout, done.stderr, tmp_path)
        said.message(1, "memory", "free some space")
        assert largest > 64 and tables > 64
        asked = fake.count
        again = command(*arguments, cwd=tmp_path)
        assert again[0] == 0, again[2]
        assert fake.count > asked
    assert (tmp_path / "runs" / "run" / "report.md").is_file()


READ_ONLY = "mount -o bind,ro '{0}' '{0}' && exec {1}"


def read_only(folder: Path, arguments: list[str], cwd: Path) -> Said:
    """The program while `folder` is mounted read-only, for it alone. Skips where the system forbids it."""
    inner = " ".join([sys.executable, "-m", "roleagent_lite.cli.main", *arguments])
    command_line = ["unshare", "-Urm", "sh", "-c", READ_ONLY.format(folder, inner)]
    try:
        trial = subprocess.run(
            ["unshare", "-Urm", "sh", "-c", READ_ONLY.format(folder, "true")],
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if trial.returncode:
        pytest.skip("no mounts of one's own here")
    done = subprocess.run(
        command_line, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    return Said(done.returncode, done.stdout, done.stderr, cwd)


def test_res_05_a_read_only_run_can_be_read_and_not_gone_on_with(tmp_path: Path) -> None:
    tasks_file(tmp_path / "t.jsonl", 1)
    with FakeServer(won) as fake:
        assert command(*words(fake), cwd=tmp_path)[0] == 0
        runs = tmp_path / "runs"
        before = {str(p): p.stat().st_mtime_ns for p in runs.rglob("*")}
        for arguments in (["runs", "--json"], ["show", "run"], ["doctor", "--run", "run"]):
            said = read_only(runs, arguments, tmp_path)
            assert said.code == (1 if arguments[0] == "doctor" else 0) and "Traceback" not in said.err, (
                said.err
            )
        refused = read_only(runs, words(fake), tmp_path)
        refused.message(1, "cannot write run directory", "runs/run")
        assert fake.count == 2
    assert {str(p): p.stat().st_mtime_ns for p in runs.rglob("*")} == before


def test_the_tables_that_are_cut_here_are_those_there_are() -> None:
    assert {"trajectories", "calls", "dispatched", "events", "tasks", "results"} < set(TABLES)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_goals_are_told_apart() -> None:
    """The helper that other cases rely on."""
    seen: Any = Seen(0, "POST", "/", {}, {"messages": [{"content": "Get out of hall number 12."}]}, 0.0)
    assert goal(seen) == "12"
