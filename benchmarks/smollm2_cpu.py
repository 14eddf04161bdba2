"""What does `distill --online` make of the embedded model on two cores?

    python benchmarks/smollm2_cpu.py [--seeds 1,2,3] [--recipe smollm2-cpu] [--tasks household-easy]
                                     [--out DIR] [--together]

Trains the recipe once a seed by the command of the README, each to its end with its sealed tasks, then prints
the rows of all seeds, their paired differences, time and memory, and writes `seeds.json`, `seeds.md` and
`dev.svg` to DIR (default runs/smollm2-cpu). --together: all seeds at the same time, one thread each, which
makes better use of two cores than one after the other. Called again, it goes on where it stood.

Takes about 42 CPU minutes a seed. The embedded model and the extra `distill` are needed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from roleagent_lite.distill.seeds import course, markdown, pooled
from roleagent_lite.report import svg


def started(seed: int, plan: argparse.Namespace) -> subprocess.Popen[bytes]:
    """One training in a process of its own; its words go to DIR/SEED.log."""
    command = [
        sys.executable, "-m", "roleagent_lite.cli.main", "distill", "--online", "--sealed",
        "--seed", str(seed), "--recipe", plan.recipe, "--tasks", plan.tasks,
        "--out", str(plan.out / str(seed)),
    ]  # fmt: skip
    threads = {"OMP_NUM_THREADS": "1"} if plan.together else {}
    log = (plan.out / f"{seed}.log").open("ab")
    return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | threads)


def trained(seeds: list[int], plan: argparse.Namespace) -> dict[int, dict[str, float]]:
    """Wall and CPU minutes of each seed, added up over calls of this script; ends where a training failed."""
    spent: dict[int, dict[str, float]] = {}
    waiting = list(seeds)
    while waiting:
        now, waiting = (waiting, []) if plan.together else (waiting[:1], waiting[1:])
        begun = time.monotonic()
        running = {started(seed, plan).pid: seed for seed in now}
        while running:
            pid, status, used = os.wait4(-1, 0)
            seed = running.pop(pid)
            wall, cpu = time.monotonic() - begun, used.ru_utime + used.ru_stime
            file = plan.out / f"{seed}.time.json"
            before = json.loads(file.read_text()) if file.is_file() else {"wall": 0.0, "cpu": 0.0}
            spent[seed] = {"wall": before["wall"] + wall / 60, "cpu": before["cpu"] + cpu / 60}
            file.write_text(json.dumps(spent[seed]))
            if status:
                raise SystemExit(f"seed {seed} ended with status {status}: see {plan.out / f'{seed}.log'}")
    return spent


def drawn(found: dict[str, Any]) -> str:
    """Solved dev tasks by update, a line a seed."""
    series = [
        svg.Series(name, tuple(svg.Point(x, y) for x, y in points)) for name, points in course(found).items()
    ]
    label = "updates of GRPO (0: after imitation, -1: the base)"
    return svg.lines("Dev tasks solved, greedy", label, "share", series)


def main() -> None:
    take = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    take.add_argument("--seeds", default="1,2,3")
    take.add_argument("--recipe", default="smollm2-cpu")
    take.add_argument("--tasks", default="household-easy")
    take.add_argument("--out", type=Path, default=Path("runs/smollm2-cpu"))
    take.add_argument("--together", action="store_true")
    plan = take.parse_args()
    plan.out.mkdir(parents=True, exist_ok=True)
    seeds = [int(s) for s in plan.seeds.split(",")]
    done = [s for s in seeds if (plan.out / str(s) / "sealed.json").is_file()]
    trained([s for s in seeds if s not in done], plan)
    found = pooled([plan.out / str(s) for s in seeds])
    for one in found["seeds"]:
        file = plan.out / f"{one['seed']}.time.json"
        one["spent"] = json.loads(file.read_text()) if file.is_file() else None
    (plan.out / "seeds.json").write_text(json.dumps(found, indent=2) + "\n")
    (plan.out / "seeds.md").write_text(markdown(found))
    (plan.out / "dev.svg").write_text(drawn(found))
    print(markdown(found))
    for one in found["seeds"]:
        spent = one["spent"] or {"wall": float("nan"), "cpu": float("nan")}
        looks = ", ".join(f"{look['solved']:.2f}" for look in one["dev"])
        print(
            f"seed {one['seed']}: {one['updates']} updates, {spent['wall']:.0f} minutes "
            f"({spent['cpu']:.0f} CPU minutes), {one['peak_mib']:.0f} MiB; dev {looks}"
        )


if __name__ == "__main__":
    main()
