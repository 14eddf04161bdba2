"""kill -9 in the middle of several systems at once: no stored reply is bought again, and nothing differs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.stage import Episode, trajectory_id
from roleagent_lite.store import Run
from roleagent_lite.systems import make_system
from roleagent_lite.types import Request, Trajectory
from tests.kill_runner import die_after, finish, start
from tests.systems import make
from tests.systems.test_adapt import VAULT, worker
from tests.systems.test_lats import walker
from tests.systems.test_reflexion import learner

JOBS: Mapping[str, Any] = {
    "react": make.task("Maze", "m"),
    "reflexion": make.task("Boxes", "b"),
    "lats": make.task("Maze", "m"),
    "adapt": VAULT,
}


def rule(request: Request) -> Any:
    """Each world's own scripted model, told by what the request shows."""
    text = request.messages[-1].content
    if "treasure" in text:
        return worker(request)
    return learner(request) if " box" in text else walker(request)


def session(run: Path, log: Path, die_at: int | None) -> None:
    """Plays all jobs at once; a line in `log` for each request that reaches the model."""
    if die_at is not None:
        die_after(die_at)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def logged(request: Request) -> Any:
        line = [request.sample, request.module, request.messages[-1].content]
        os.write(out, json.dumps(line).encode() + b"\n")
        return rule(request)

    async def work() -> None:
        async with make.setting(run, logged) as setting:

            async def one(name: str) -> None:
                played = await make_system(name, setting).solve(JOBS[name], round=0, rollout=0, temperature=0)
                setting.run.trajectories.put(played)

            await asyncio.gather(*(one(name) for name in JOBS))

    asyncio.run(work())


def stored(folder: Path) -> list[list[str]]:
    """What the run holds a reply to, as the log words it."""
    with Run.open(folder) as run:
        return [[c.request.sample, c.request.module, c.request.messages[-1].content] for c in run.calls]


def lines(log: Path) -> list[list[str]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def episodes(folder: Path) -> dict[str, Trajectory]:
    with Run.open(folder) as run:
        found = {t.id: t for t in (*run.trajectories, *run.trials)}
        assert len(found) == len(run.trajectories) + len(run.trials)
        return found


def facts(trajectory: Trajectory) -> tuple[Any, ...]:
    return trajectory.steps, trajectory.outcome, trajectory.score, trajectory.other_calls


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same work, undisturbed."""
    folder = tmp_path_factory.mktemp("whole")
    assert finish(start(session, folder / "run", folder / "log", None)) == 0
    return folder


@pytest.mark.parametrize("seed", range(3))
def test_kills_cost_only_what_was_in_flight(whole: Path, tmp_path: Path, seed: int) -> None:
    run, kills = tmp_path / "run", 0
    while True:
        before = stored(run) if run.exists() else []
        log = tmp_path / f"log{kills}"
        code = finish(start(session, run, log, 40_000 + 7_001 * seed if kills < 4 else None))
        bought_again = [line for line in (lines(log) if log.exists() else []) if line in before]
        # Equal requests (a loop, the same sample asked anew) are told apart by how often they were made.
        assert len(bought_again) <= sum(lines(whole / "log").count(x) - 1 for x in bought_again)
        if code == 0:
            break
        assert code == -9
        kills += 1
    assert kills >= 1
    mine, theirs = episodes(run), episodes(whole / "run")
    assert mine.keys() == theirs.keys()
    assert {k: facts(t) for k, t in mine.items()} == {k: facts(t) for k, t in theirs.items()}


def test_the_work_is_what_it_should_be(whole: Path) -> None:
    found = episodes(whole / "run")
    with Run.open(whole / "run") as run:
        solved = {s.texts["system.name"]: s for s in run.prompt_sets}
    for name, task in JOBS.items():
        played = found[trajectory_id(Episode(task, 0, 0, 0.0), solved[name])]
        assert played.solved == (name != "react"), name
