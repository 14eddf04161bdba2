"""How long `roleagent-lite --help` takes beside `python -c pass`, alternating, best and median of N.

    python benchmarks/help_speed.py [N]

Goal: under 0.3 seconds. Prints both and the difference, which is what our imports cost. Run it on an idle
machine: the figures are wall-clock.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

GOAL = 0.3


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "80"})
    return time.perf_counter() - start


def main(runs: int = 15) -> int:
    bare, ours = [], []
    commands = ([sys.executable, "-c", "pass"], [sys.executable, "-m", "roleagent_lite.cli.main", "--help"])
    for command in commands:
        seconds(command)  # warm the file cache and the byte code
    for _ in range(runs):
        bare.append(seconds(commands[0]))
        ours.append(seconds(commands[1]))
    print(f"python -c pass        best {min(bare):.3f} s, median {statistics.median(bare):.3f} s")
    print(f"roleagent-lite --help best {min(ours):.3f} s, median {statistics.median(ours):.3f} s")
    print(f"our own part          median {statistics.median(ours) - statistics.median(bare):.3f} s")
    good = statistics.median(ours) < GOAL
    print(f"goal: median under {GOAL} s: {'met' if good else 'NOT met'} ({runs} runs each)")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*(int(a) for a in sys.argv[1:2])))
