"""Every world: the same task and seed give the same episode, alone, among a hundred, and in two processes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.types import Environment
from tests.envs.worlds import WORLDS, World, alone, digest, every, jobs, walk

STEPS = 8
OPEN = 20  # episodes of a slow world that stand open at once: thirty fit into the heap
FIRST = {"mcp:": 8}  # a session costs a tenth of a second; its hundred stands in the slow pass


def interleaved(world: World, count: int) -> None:
    """So many episodes, one move of any of them at a time, show what each shows alone.

    Where they are dear every fourth is another one. In a slow world they have half the moves, players draw
    all that they do (a gold path of ScienceWorld takes seconds), and OPEN of them stand open at once.
    """
    dear = world.slow or world.name in FIRST
    played = jobs(world, count // 4) * 4 if dear else jobs(world, count)
    steps = STEPS // 2 if world.slow else STEPS
    plans = {task.id: [] if world.slow else world.plan(task) for task, _ in played}
    single: dict[tuple[str, int], list[Any]] = {}
    for task, seed in played:
        if (task.id, seed) not in single:
            single[task.id, seed] = alone(world, task, plans[task.id], seed, steps)
    together: list[list[Any]] = [[] for _ in played]
    going: dict[int, tuple[Environment, Iterator[Any]]] = {}
    waiting, rng = list(enumerate(played)), random.Random(5)
    while going or waiting:
        while waiting and len(going) < (OPEN if world.slow else count):
            number, (task, seed) = waiting.pop()
            env = registry.make(task)
            going[number] = env, walk(world, env, plans[task.id], seed, steps)
        number = rng.choice(list(going))
        env, moves = going[number]
        if (move := next(moves, None)) is not None:
            together[number].append(move)
        else:
            env.close()
            del going[number]
    for number, (task, seed) in enumerate(played):
        assert together[number] == single[task.id, seed], task
    assert len({repr(trace) for trace in single.values()}) > len(single) // 5, "these episodes show nothing"


@pytest.mark.parametrize("world", every())
def test_episodes_interleaved_are_as_one_by_one(world: World) -> None:
    with world.serve():
        interleaved(world, FIRST.get(world.name, 100))


@pytest.mark.slow
@pytest.mark.parametrize("world", [p for p in every(slow=False) if p.id in FIRST])
def test_a_hundred_episodes_interleaved_are_as_one_by_one(world: World) -> None:
    with world.serve():
        interleaved(world, 100)


ROOT = Path(__file__).parents[2]


@cache
def other_process(only: str = "") -> dict[str, str]:
    """Digests of another process, with other hash seed and time zone: of `only`, or of all quick worlds."""
    names = [p.id for p in every() if all(m.name not in ("skip", "slow") for m in p.marks)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.envs.worlds", *([only] if only else names)],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("world", every())
def test_another_process_plays_the_same(world: World) -> None:
    with world.serve():
        mine = digest(world)
        assert mine == digest(world), "the same process plays it otherwise the second time"
    assert other_process(world.name if world.slow else "")[world.name] == mine


def test_no_world_is_left_out() -> None:
    ours = set(registry._OWN) | {prefix.rstrip(":") for prefix in registry._FAMILIES} - {"verifiers"}
    assert {name if name in ours else name.partition(":")[0] for name in WORLDS} == ours | {"tests.cellar"}
