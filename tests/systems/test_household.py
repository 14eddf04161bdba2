"""Systems on the household world: their paths are real ones; the embedded model plays them all."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from roleagent_lite.ask import load_prompts
from roleagent_lite.config import from_mapping
from roleagent_lite.envs import registry
from roleagent_lite.lm.pool import open_models
from roleagent_lite.store import Run
from roleagent_lite.systems import SYSTEMS, Setting, make_system
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Request, TaskBudget, Trajectory
from tests.systems import make

TASK = load_tasks("household-easy", "test")[0]


def spent(played: Trajectory) -> int:
    """Calls made for an episode."""
    return len({c for step in played.steps for c in step.call_ids} | set(played.other_calls))


def check_path(played: Trajectory) -> None:
    """The steps of an episode, played in a fresh world, bring what they say they brought."""
    env = registry.make(TASK)
    seen = env.observe()
    for step in played.steps:
        assert (seen.text, seen.admissible, seen.state_key) == (
            step.observation, step.admissible, step.state_key,
        )  # fmt: skip
        seen = env.step(step.action).observation
        assert seen.text == step.outcome
    assert env.score() == played.score


def any_move(request: Request) -> str:
    """Some action, and some value, by a hash of what is shown."""
    number = zlib.crc32(f"{request.sample}{request.messages[-1].content}".encode())
    if request.module == "value":
        return f'{{"thought": "hm", "score": {1 + number % 10}}}'
    if request.module == "reflexion":
        return '{"reflection": "Go elsewhere."}'
    if request.module == "plan":
        return '{"logic": "OR", "steps": ["look for it", "bring it"]}'
    listed = make.offered(request)
    return make.move(listed[number % len(listed)])


@pytest.mark.parametrize("name", ["react", "reflexion", "lats", "adapt"])
async def test_a_path_is_one_that_the_world_answers(tmp_path: Path, name: str) -> None:
    async with make.setting(tmp_path / "run", any_move, budget=make.calls(90)) as setting:
        played = await make_system(name, setting).solve(TASK, round=0, rollout=0, temperature=0.0)
        assert spent(played) == len(setting.run.calls) <= 90
        check_path(played)
        for trial in setting.run.trials:
            check_path(trial)
    assert len(played.steps) >= 1


@pytest.mark.embedded
@pytest.mark.parametrize("name", list(SYSTEMS))
async def test_the_embedded_model_plays_every_system(tmp_path: Path, name: str) -> None:
    config = from_mapping({"model": "embedded", "prompts": "embedded", "limits": {"max_tokens": 200}})
    with Run.create(tmp_path / "run", config) as run:
        async with open_models(config, run) as models:
            budget = TaskBudget("calls", 24)
            system = make_system(name, Setting(config, run, models, load_prompts("embedded"), budget))
            played = await system.solve(TASK, round=0, rollout=0, temperature=0.0)
            made = len(run.calls)
            print(
                f"{name}: {made} calls, {played.outcome.kind} {played.outcome.reason}, {played.seconds:.1f} s"
            )
            assert spent(played) == made <= 24
            assert made <= (system.most_calls(TASK) or 0)
    check_path(played)
    assert played.outcome.kind in ("solved", "failed")
    if system.model:
        assert system.kind == "choose" and all(step.valid for step in played.steps)
