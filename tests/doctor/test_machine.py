"""Each check of the machine with the thing there, absent and broken."""

from __future__ import annotations

import importlib.util
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from roleagent_lite.doctor import machine

CPU = ("2.11.0+cpu", None)


def script(tmp_path: Path, name: str, body: str) -> Callable[[str], str | None]:
    """What `shutil.which` would say of a program that does `body`, and of nothing else."""
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    return lambda asked: str(program) if asked == name else None


def nothing(_: str) -> None:
    return None


def test_python() -> None:
    assert machine.python().state == "ok" and sys.executable in machine.python().found
    old = machine.python((3, 10, 4))
    assert old.state == "problem" and "3.10.4" in old.found and "3.11" in old.advice
    assert machine.python((4, 0, 0)).state == "ok"


def test_encoding() -> None:
    assert machine.encoding(("utf-8", "UTF-8", "utf8")).state == "ok"
    assert machine.encoding(("utf-8", "UTF-8", "none")).state == "ok"
    odd = machine.encoding(("utf-8", "ANSI_X3.4-1968", "ascii"))
    assert odd.state == "warning" and "ANSI_X3.4-1968" in odd.found and "PYTHONUTF8=1" in odd.advice
    assert machine.encoding().found.startswith("file names ")


def test_clock() -> None:
    assert machine.clock().state == "ok"
    dead = machine.clock(now=0.0)
    assert dead.state == "warning" and "1970-01-01" in dead.found and "set the clock" in dead.advice
    assert machine.clock(now=time.time(), installed=time.time() + 60).state == "ok"


@pytest.mark.parametrize(
    ("files", "count", "state", "words"),
    [
        ({}, 8, "ok", "8"),
        ({"cpu.max": "max 100000"}, 8, "ok", "8"),
        ({"cpu.max": "200000 100000"}, 8, "ok", "8, of which the control group grants 2"),
        ({"cpu.max": "50000 100000"}, 8, "warning", "grants 0.5"),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 4, "ok", "4"),
        ({"cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "100000"}, 4, "ok", "grants 1.5"),
        ({"cpu.max": "no number"}, 4, "ok", "4"),
    ],
)
def test_cores(tmp_path: Path, files: dict[str, str], count: int, state: str, words: str) -> None:
    grouped(tmp_path, files)
    line = machine.cores(tmp_path, count)
    assert line.state == state and words in line.found


def test_cores_of_this_machine() -> None:
    assert int(machine.cores().found.split(",")[0]) >= 1


def grouped(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="ascii")


@pytest.mark.parametrize(
    ("meminfo", "files", "state", "words"),
    [
        ("MemTotal: 9 kB\nMemAvailable:   4000000 kB\n", {}, "ok", "4.1 GB free"),
        ("MemAvailable: 400000 kB\n", {}, "warning", "0.4 GB free"),
        (None, {}, "ok", "not known"),
        ("MemAvailable: 4000000 kB\n", {"memory.max": "max", "memory.current": "5"}, "ok", "4.1 GB free"),
        (
            "MemAvailable: 4000000 kB\n",
            {"memory.max": "600000000", "memory.current": "100000000"},
            "warning",
            "0.5 GB free (limit of the control group)",
        ),
        (
            None,
            {"memory/memory.limit_in_bytes": "3000000000", "memory/memory.usage_in_bytes": "1000000000"},
            "ok",
            "2.0 GB free (limit",
        ),
        (None, {"memory.max": "5", "memory.current": "9"}, "warning", "0.0 GB free"),
    ],
)
def test_memory(tmp_path: Path, meminfo: str | None, files: dict[str, str], state: str, words: str) -> None:
    grouped(tmp_path, files)
    if meminfo is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/meminfo").write_text(meminfo, encoding="ascii")
    line = machine.memory(tmp_path)
    assert line.state == state and words in line.found
    assert bool(line.advice) == (state == "warning")


def test_open_files() -> None:
    assert machine.open_files(4096).state == "ok"
    few = machine.open_files(256)
    assert few.state == "warning" and "ulimit -n" in few.advice and "under 64" in few.advice
    assert machine.open_files(resource.RLIM_INFINITY).found == "no limit"
    assert machine.open_files().found


def test_gpu_absent_broken_and_there(tmp_path: Path) -> None:
    (none,) = machine.gpu(nothing, lambda: None)
    assert none.state == "ok" and "no nvidia-smi" in none.found and "no torch" in none.found
    says = script(tmp_path, "nvidia-smi", "echo 'NVIDIA H200, 143771, 140000, 570.1'")
    (one,) = machine.gpu(says, lambda: ("2.11.0", "12.8"))
    assert one.state == "ok"
    assert one.found == "NVIDIA H200, 140000 of 143771 MiB free, driver 570.1; torch 2.11.0, CUDA 12.8"
    seen, torch = machine.gpu(says, lambda: CPU)
    assert seen.state == "ok" and torch.state == "warning" and "without CUDA" in torch.found


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "NVML"),
        ("exit 0", "says nothing"),
        ("echo nonsense", "nonsense"),
        ("kill -9 $$", "says nothing"),
    ],
)
def test_a_broken_driver_is_named(tmp_path: Path, body: str, words: str) -> None:
    (line,) = machine.gpu(script(tmp_path, "nvidia-smi", body), lambda: None)
    assert line.state == "warning" and words in line.found and "driver" in line.advice


def test_a_program_that_hangs_or_cannot_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_SECONDS", 0.2)
    (line,) = machine.gpu(script(tmp_path, "nvidia-smi", "exec sleep 60"), lambda: None)
    assert line.state == "warning" and "TimeoutExpired" in line.found
    assert machine.java(lambda _: str(tmp_path)).state == "warning"  # a folder


def test_java(tmp_path: Path) -> None:
    assert machine.java(nothing).state == "ok" and "nothing here needs it" in machine.java(nothing).found
    good = machine.java(script(tmp_path, "java", "echo 'openjdk version \"21.0.2\"' >&2"))
    assert good.state == "ok" and good.found == 'openjdk version "21.0.2"'
    bad = machine.java(script(tmp_path, "java", "echo 'no JVM' >&2; exit 1"))
    assert bad.state == "warning" and "no JVM" in bad.found and "JAVA_HOME" in bad.advice


def test_torch_is_read_about_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(text: str | None) -> tuple[str, str | None] | None:
        if text is None:
            (tmp_path / "version.py").unlink()
        else:
            (tmp_path / "version.py").write_text(text, encoding="utf-8")
        return machine.torch_build()

    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert found("__version__ = '2.11.0+cu128'\ncuda: Optional[str] = '12.8'\n") == ("2.11.0+cu128", "12.8")
    assert found("__version__ = '2.11.0+cpu'\ncuda: Optional[str] = None\n") == CPU
    assert found("nothing") == ("unknown", None)
    assert found(None) == ("unknown", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert machine.torch_build() is None
    assert "torch" not in sys.modules or machine.torch_build() is None
