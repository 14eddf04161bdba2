"""What all systems share: ids, the run's own episodes taken back, budgets that cut, any order of play."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from roleagent_lite.errors import FatalModelError
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.systems import make_system
from roleagent_lite.types import Outcome, Request, TaskBudget
from tests.systems import make


def right(request: Request) -> str:
    return make.move(make.offered(request)[-1])


async def test_a_finished_episode_is_taken_from_the_run(tmp_path: Path) -> None:
    model = ScriptedModel(right)
    async with make.setting(tmp_path / "run", right, model=model) as setting:
        system = make_system("react", setting)
        first = await system.solve(make.task("Maze"), round=2, rollout=1, temperature=0.0)
        setting.run.trajectories.put(first)  # as the harness does
        assert await system.solve(make.task("Maze"), round=2, rollout=1, temperature=0.0) == first
    assert model.requests == 2 and first.id == f"2/{system.prompt_set.id[:8]}/t1#1"


async def test_after_a_stop_nothing_is_paid_for_twice(tmp_path: Path) -> None:
    """The model dies at its third call; the resumed attempt buys only what is missing."""
    model = ScriptedModel(right)

    def dying(request: Request) -> str:
        if model.requests == 3:
            raise FatalModelError("gone")
        return right(request)

    model._rule = dying
    for _ in range(2):
        try:
            async with make.setting(tmp_path / "run", right, model=model) as setting:
                system = make_system("react", setting)
                played = [
                    await system.solve(make.task("Maze", name), round=0, rollout=0, temperature=0.0)
                    for name in ("a", "b")
                ]
        except FatalModelError:
            continue
    assert [t.solved for t in played] == [True, True]
    assert model.requests == 3 + 2  # two for a, one refused; then two for b, and a's from the record


async def test_a_budget_in_calls_cuts_an_episode_where_it_is(tmp_path: Path) -> None:
    model = ScriptedModel(right)
    async with make.setting(tmp_path / "run", right, model=model, budget=make.calls(1)) as setting:
        played = await make_system("react", setting).solve(
            make.task("Maze"), round=0, rollout=0, temperature=0.0
        )
    assert played.outcome == Outcome("failed", "budget") and played.score == 0.0
    assert len(played.steps) == 1 == model.requests
    assert "budget of 1 calls a task is spent" in (played.error or "")


async def test_a_budget_in_dollars_cuts_too(tmp_path: Path) -> None:
    budget = TaskBudget("dollars", 0.0001)
    async with make.setting(tmp_path / "run", right, price="1/1", budget=budget) as setting:
        played = await make_system("react", setting).solve(
            make.task("Maze"), round=0, rollout=0, temperature=0.0
        )
        spent = [call.reply.usage.dollars for call in setting.run.calls]
    assert played.outcome == Outcome("failed", "budget") and len(spent) == 1
    assert spent[0] is not None and spent[0] >= 0.0001


async def test_a_broken_world_is_data_and_a_dead_model_ends_the_run(tmp_path: Path) -> None:
    def dead(request: Request) -> str:
        raise FatalModelError("no credit")

    async with make.setting(tmp_path / "run", dead) as setting:
        with pytest.raises(FatalModelError):
            await make_system("react", setting).solve(make.task("Maze"), round=0, rollout=0, temperature=0.0)
        broken = await make_system("random", setting).solve(
            make.task("Broken"), round=0, rollout=0, temperature=0.0
        )
    assert broken.outcome == Outcome("infrastructure_error", "environment") and "KeyError" in (
        broken.error or ""
    )


async def _play(folder: Path, workers: int) -> list[tuple[str, list[str], tuple[str, ...]]]:
    def rule(request: Request) -> str:
        actions = make.offered(request)
        return make.move(actions[len(request.sample) % len(actions)], request.sample)

    async with make.setting(folder, rule) as setting:
        system, gate = make_system("react", setting), asyncio.Semaphore(workers)

        async def one(name: str) -> tuple[str, list[str], tuple[str, ...]]:
            async with gate:
                t = await system.solve(make.task("Maze", name), round=0, rollout=0, temperature=0.0)
                return t.id, [s.action for s in t.steps], t.steps[0].call_ids

        return await asyncio.gather(*(one(name) for name in ("a", "bb", "ccc", "dddd")))


async def test_the_order_of_play_changes_nothing(tmp_path: Path) -> None:
    alone, together = await _play(tmp_path / "1", 1), await _play(tmp_path / "4", 4)
    assert alone == together and len({tuple(actions) for _, actions, _ in alone}) > 1
