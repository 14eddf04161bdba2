"""Running the command line from tests: in a process of its own, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROW = '{"id":"%s","env":"tests.toy:Toy","goal":"%s","split":"%s","params":{"type":"%s"}}\n'


def environment(**more: str) -> dict[str, str]:
    """The machine's environment without its keys and proxies, and with this checkout importable."""
    kept = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY") and "proxy" not in k.lower()}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "PYTHONWARNINGS": "default", **more}


def cli(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """`roleagent-lite ARGUMENTS` in `cwd`; output as text."""
    return subprocess.run(
        [sys.executable, "-m", "roleagent_lite.cli.main", *arguments],
        cwd=cwd, env=environment(**(env or {})), capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


def toy_tasks(path: Path, each: int = 2) -> Path:
    """A task file of the toy world with `each` tasks a split."""
    lines = [
        ROW % (f"{split}{i}", f"Get out of the hall, number {i} of {split}.", split, ("a", "b")[i % 2])
        for split in ("train", "dev", "test")
        for i in range(each)
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def clear(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """One clear message: the exit code, every word in it, no traceback, nothing on standard output."""
    said = done.stderr
    assert done.returncode == code, f"exit {done.returncode}: {said[-2000:]}"
    assert "Traceback" not in said and "Traceback" not in done.stdout, said
    for word in words:
        assert word in said, f"{word!r} is missing in: {said}"
    assert len([line for line in said.splitlines() if line.startswith("roleagent-lite: ")]) == 1, said
    assert done.stdout == ""
