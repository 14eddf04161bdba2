"""Steps per CPU second of the worlds that have a plan for each task, and milliseconds to make an episode.

A row of WORLDS is a world: the shipped task set that is played, and the actions that are played before the
task's own plan. Each episode is made, played to its end, and must score full marks; making and playing are
timed apart, in CPU seconds of this process and of the Java that it started. Nothing is compared with another
engine here.

    python benchmarks/worlds_speed.py [--worlds shell,webshop] [--tasks 60] [--split test]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from roleagent_lite.envs import jvm, registry
from roleagent_lite.errors import ConfigError, MissingExtra
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Task


@dataclass(frozen=True)
class World:
    """tasks: a shipped set; before: actions that change nothing of what the plan needs; most: tasks played
    at most."""

    tasks: str
    before: tuple[str, ...] = ()
    most: int = 1000


LOOKING = ("systemctl --failed", "docker ps -a", "journalctl -p err -n 20", "df -h", "ps aux | head")
WORLDS: Mapping[str, World] = {
    "household": World("household-full"),
    "webshop": World("webshop"),
    "search": World("search"),
    "shell": World(
        "shell", ("systemctl --failed", "docker ps -a", "journalctl -p err -n 20", "df -h", "ps aux | head")
    ),
    "textworld-express": World("textworld-express"),
    "scienceworld": World("scienceworld", ("look around",), most=10),  # a plan may take 10 s to find
}


def cpu() -> float:
    """CPU seconds spent here and in Java (which is counted on Linux only)."""
    java = 0.0
    for pid in jvm.processes():
        stat = Path(f"/proc/{pid}/stat")
        if stat.is_file():
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            java += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return time.process_time() + java


@dataclass
class Times:
    steps: int = 0
    episodes: int = 0
    making: float = 0.0
    playing: float = 0.0


def play(task: Task, before: Sequence[str], times: Times) -> None:
    """One episode. Raises SystemExit where the plan does not score full marks."""
    start = cpu()
    env = registry.make(task)
    env.observe()
    times.making += cpu() - start
    actions = [*before, *env.walkthrough()]  # type: ignore[attr-defined]
    start = cpu()
    for action in actions:
        times.steps += 1
        if env.step(action).done:
            break
    times.playing += cpu() - start
    if env.score() < 1.0:
        raise SystemExit(f"{task.env}: the plan of {task.id} scores {env.score()}")
    env.close()
    times.episodes += 1


def measure(name: str, split: str, most: int) -> Times:
    """Up to `most` tasks of a world's set; the first is played once before, untimed, for what all share."""
    world = WORLDS[name]
    tasks = [task for task in load_tasks(world.tasks) if task.split == split]
    most = min(most, world.most)
    chosen = tasks[:: max(1, len(tasks) // most)][:most]
    play(chosen[0], world.before, Times())
    times = Times()
    for task in chosen:
        play(task, world.before, times)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--split", default="test")
    options = parser.parse_args()
    for name in options.worlds.split(","):
        if name not in WORLDS:
            raise SystemExit(f"no world '{name}'; known: {', '.join(WORLDS)}")
        try:
            times = measure(name, options.split, max(1, options.tasks))
        except (MissingExtra, ConfigError) as error:
            print(f"{name:17} skipped: {error}")
            continue
        print(
            f"{name:17} {times.episodes:4} episodes {times.steps:5} steps  "
            f"{times.steps / times.playing:8.0f} steps per CPU second, "
            f"{1000 * times.making / times.episodes:6.1f} CPU ms to make an episode"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
