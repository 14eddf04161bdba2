"""Load: many rollouts at once leave few files open, and a long run is read back in bounded memory.

Counted, not timed; `benchmarks/load.py` has the sizes that users meet and prints seconds.
"""

from __future__ import annotations

import gc
import resource
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.load import MODEL, open_files, write_run
from benchmarks.rollout_throughput import server
from roleagent_lite import jobs
from roleagent_lite.cli import runs
from roleagent_lite.config import load
from roleagent_lite.report import foresight
from roleagent_lite.report.write import write_report
from roleagent_lite.store import Run
from tests.cli.make import toy_tasks

FEW, MANY, LENGTH = 60, 360, 6  # episodes of the two runs, calls of an episode
# What may be held of each byte that the longer run has more on its disk: keys and offsets, one score a task.
SHARE = 0.25


def resume(run_dir: Path) -> None:
    result = jobs.evaluate(load(run_dir / "config.toml"), run_dir=run_dir, split="test")
    assert result.result.n == len(result.result.scores)


def reopen(run_dir: Path) -> None:
    with Run.create(run_dir, load(run_dir / "config.toml")) as run:
        assert len(run.calls) == LENGTH * len(run.trajectories)


def scan(run_dir: Path) -> None:
    with Run.open(run_dir) as run:
        assert sum(call.reply.finish == "stop" for call in run.calls) == len(run.calls)


READERS: dict[str, Callable[[Path], object]] = {
    "resume": resume,
    "open": reopen,
    "every call": scan,
    "runs": runs.describe,
    "report": write_report,
}


@pytest.fixture(scope="module")
def lengths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("long")
    few, many = (write_run(folder / str(n), n, LENGTH) for n in (FEW, MANY))
    for path in (few, many):
        resume(path)  # writes its result; and what is imported once is no part of what is measured
    return few, many


def size(run_dir: Path) -> int:
    return sum(path.stat().st_size for path in run_dir.glob("*.jsonl"))


@pytest.fixture(autouse=True)
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report measures foresight on a bounded sample; here both runs are longer than it."""
    monkeypatch.setattr(foresight, "MOST_STEPS", FEW)


def peak(read: Callable[[Path], object], run_dir: Path) -> int:
    """Bytes that Python held at most while it read the run."""
    read(run_dir)  # caches fill
    gc.collect()
    tracemalloc.start()
    try:
        read(run_dir)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_longer_run_takes_little_more_memory_to(lengths: tuple[Path, Path], name: str) -> None:
    few, many = lengths
    held = peak(READERS[name], many) - peak(READERS[name], few)
    more = size(many) - size(few)
    print(f"\n{name}: {held / more:.3f} bytes held for each byte more on the disk ({more:,} bytes)")
    assert held < SHARE * more


# --- many at once ---


@pytest.mark.slow
def test_more_rollouts_than_files_end_well_and_leave_none_open(tmp_path: Path) -> None:
    """160 at once where 160 connections would not fit under the limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = open_files()
    limit = before + 120
    found: list[int] = []
    tasks = toy_tasks(tmp_path / "toy.jsonl", 320)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        with server(0.05, 0.15) as url:
            result = jobs.evaluate(
                {"model": MODEL, "tasks": str(tasks), "limits": {"base_url": url}, "workers": 160},
                run_dir=tmp_path / "run",
                listener=lambda progress: found.append(open_files()),
            )
        after = open_files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print(f"\n{max(found)} of {limit} files open at most, {before} before, {after} after")
    assert result.result.n == 320, "an episode broke for want of a file"
    most = (limit - before) // 2
    assert before + most // 2 <= max(found) <= before + most + 40  # its connections, its tables, its loop
    assert after <= before + 4
