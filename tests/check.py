"""Runs every check of the project in order: format, lint, types, tests. README's second command line."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEPS = (
    ("format", ["ruff", "format", "--check", "."]),
    ("lint", ["ruff", "check", "."]),
    ("types", ["mypy"]),
    ("dependencies", ["pip", "check"]),
    ("data of the world tools", ["roleagent_lite.cli.main", "tasks", "pull", "bfcl"]),
    ("tests", ["pytest", "-q"]),
    ("slow tests", ["pytest", "-q", "-m", "slow and not alfworld and not embedded"]),
    ("embedded model", ["pytest", "-q", "-m", "embedded and not slow"]),
)


def main() -> int:
    for name, command in STEPS:
        start = time.monotonic()
        print(f"== {name}: {' '.join(command)}", flush=True)
        code = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode
        print(
            f"== {name}: {'passed' if code == 0 else 'FAILED'} in {time.monotonic() - start:.0f} s",
            flush=True,
        )
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
