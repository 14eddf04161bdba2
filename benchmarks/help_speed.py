"""How long `roleagent-lite --help` takes beside `python -c pass`, alternating, best and median of N.

    python benchmarks/help_speed.py [N]

Goal: under 0.3 seconds on an idle machine. Prints both, the difference (what our imports cost) and the CPU
seconds, which a busy machine changes less.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

GOAL = 0.3


def seconds(command: list[str]) -> tuple[float, float]:
    """(wall-clock, CPU) of one run."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "80"})
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu


def line(name: str, runs: list[tuple[float, float]]) -> str:
    wall, cpu = zip(*runs, strict=True)
    return (
        f"{name:22} best {min(wall):.3f} s, median {statistics.median(wall):.3f} s; "
        f"CPU median {statistics.median(cpu):.3f} s"
    )


def main(runs: int = 15) -> int:
    bare: list[tuple[float, float]] = []
    ours: list[tuple[float, float]] = []
    commands = ([sys.executable, "-c", "pass"], [sys.executable, "-m", "roleagent_lite.cli.main", "--help"])
    for command in commands:
        seconds(command)  # warm the file cache and the byte code
    for _ in range(runs):
        bare.append(seconds(commands[0]))
        ours.append(seconds(commands[1]))
    print(line("python -c pass", bare))
    print(line("roleagent-lite --help", ours))
    mine = statistics.median(wall for wall, _ in ours)
    print(f"{'our own part':22} median {mine - statistics.median(wall for wall, _ in bare):.3f} s")
    print(f"goal: median under {GOAL} s: {'met' if mine < GOAL else 'NOT met'} ({runs} runs each)")
    return 0 if mine < GOAL else 1


if __name__ == "__main__":
    sys.exit(main(*(int(a) for a in sys.argv[1:2])))
