"""Runs every check of the project: format, lint, types, tests. README's second command line.

The long steps run in two lanes at once, for most of them wait for processes of their own; what a step of
the second lane says is shown whole when it ends.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Check(NamedTuple):
    name: str
    command: Sequence[str]  # what follows `python -m`


FIRST = (
    Check("format", ["ruff", "format", "--check", "."]),
    Check("lint", ["ruff", "check", "."]),
    Check("dependencies", ["pip", "check"]),
    Check("data of the world tools", ["roleagent_lite.cli.main", "tasks", "pull", "bfcl"]),
)
TESTS = (Check("tests", ["pytest", "-q"]),)
BESIDE = (
    Check("types", ["mypy"]),
    Check("TRL", ["pytest", "-q", "-m", "trl"]),
    Check("slow tests", ["pytest", "-q", "-m", "slow and not alfworld and not embedded"]),
    Check("embedded model", ["pytest", "-q", "-m", "embedded and not slow"]),
)


def run(check: Check, *, held: bool = False) -> int:
    """The exit code of a check. held: its output is shown when it has ended, else as it comes."""
    start = time.monotonic()
    words = f"== {check.name}: {' '.join(check.command)}"
    if not held:
        print(words, flush=True)
    out = subprocess.PIPE if held else None
    ran = subprocess.run(
        [sys.executable, "-m", *check.command], cwd=ROOT, check=False, stdout=out, stderr=subprocess.STDOUT
    )
    said = f"{words}\n{ran.stdout.decode('utf-8', 'replace')}" if held else ""
    ended = "passed" if ran.returncode == 0 else "FAILED"
    print(f"{said}== {check.name}: {ended} in {time.monotonic() - start:.0f} s", flush=True)
    return ran.returncode


def lane(checks: Sequence[Check], *, held: bool = False) -> int:
    """Each in turn, up to the first that fails; its exit code, else 0."""
    return next((code for check in checks if (code := run(check, held=held))), 0)


def main() -> int:
    if code := lane(FIRST):
        return code
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(lane, BESIDE, held=True)
        code = lane(TESTS)
        return code or beside.result()


if __name__ == "__main__":
    sys.exit(main())
