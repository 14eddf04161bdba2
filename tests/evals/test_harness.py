"""The harness: what counts, whatever the order; nothing is played twice; tokens from the record."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from roleagent_lite.agents import make_agent
from roleagent_lite.ask import Asker, load_prompts
from roleagent_lite.config import RunConfig, from_mapping
from roleagent_lite.errors import ConfigError
from roleagent_lite.evals.harness import result_of, score_agent, usage_of
from roleagent_lite.lm.pool import open_models
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.store import Run
from roleagent_lite.types import Outcome, Reply, Request, Result, Task, Trajectory, Usage
from tests.report import make

TASKS = [make.task(i) for i in range(4)]


def played(*ends: Outcome) -> list[Trajectory]:
    return [make.episode(t, make.SEED, e) for t, e in zip(TASKS, ends, strict=True)]


def test_infrastructure_errors_are_left_out_and_all_else_counts() -> None:
    ends = played(make.SOLVED, make.LOST, make.BROKEN, Outcome("cut_off", "max_tokens"))
    found = result_of("test", "seed", TASKS, ends, Usage())
    assert found.scores == {"test0": (1.0,), "test1": (0.0,), "test2": (None,), "test3": (0.0,)}
    assert found.n == 3 and found.mean == pytest.approx(1 / 3)
    assert found.low is not None and found.high is not None and found.low < 1 / 3 < found.high


def test_nothing_scored_is_unknown_not_zero() -> None:
    found = result_of("test", "seed", TASKS, played(*[make.BROKEN] * 4), Usage())
    assert (found.mean, found.low, found.high, found.n) == (None, None, None, 0)


def test_evl_01_the_order_of_ending_changes_nothing() -> None:
    episodes = [
        make.episode(t, make.SEED, make.SOLVED if (i + r) % 2 else make.LOST, rollout=r)
        for i, t in enumerate(TASKS)
        for r in range(3)
    ]
    expected = result_of("test", "seed", TASKS, episodes, Usage())
    assert list(expected.scores) == [t.id for t in TASKS] and expected.scores["test0"] == (0.0, 1.0, 0.0)
    random.Random(1).shuffle(episodes)
    assert result_of("test", "seed", TASKS, episodes, Usage()) == expected


def test_usage_is_the_sum_of_the_episodes_own_calls(tmp_path: Path) -> None:
    def with_calls(*ids: str) -> Trajectory:
        return make.episode(TASKS[0], make.SEED, steps=[replace(make.step(), call_ids=ids)])

    with make.new_run(tmp_path / "r") as run:
        run.calls.put(make.call(1))
        run.calls.put(make.call(2))
        run.calls.put(make.call(3, usage=Usage(7, None, 0, None, 0.5)))
        found = usage_of(run, [with_calls("c1", "c2")])
        assert (found.input, found.output, found.cached) == (200, 20, 40)
        assert found.dollars == pytest.approx(0.002) and found.reasoning is None
        mixed = usage_of(run, [with_calls("c1", "c3")])
        assert (mixed.input, mixed.output) == (107, None) and mixed.dollars == pytest.approx(0.501)
        assert usage_of(run, [with_calls("lost")]).input is None


# --- whole, on the toy world --------------------------------------------------------------------------

TOYS = [Task(f"t{i}", "tests.toy:Toy", f"Get out, {i}.", split="test") for i in range(6)]


def rule(request: Request) -> Reply:
    """Solves the tasks with an even number; the others look round until the limit."""
    text = request.messages[-1].content
    solves = any(f"Get out, {i}." in text for i in (0, 2, 4))
    action = "look around" if not solves else "open door" if "You take the key." in text else "take key"
    return Reply(
        json.dumps({"thought": "", "action": action, "predictions": []}), usage=Usage(10, 2, 0, 0, 0.0)
    )


async def scored(
    path: Path, config: RunConfig, tasks: Sequence[Task] = TOYS, **how: object
) -> tuple[Result, int]:
    model = ScriptedModel(rule)
    prompts = load_prompts("v1")
    with Run.create(path, config) as run:
        roles = ("agent", "world", "reflector", "judge")
        async with open_models(config, run, overrides=dict.fromkeys(roles, model)) as pool:  # type: ignore[arg-type]
            found = await score_agent(
                agent=make_agent("generate", Asker(pool, prompts), prompts.seed_set(), config.wia),
                tasks=tasks, run=run, models=pool, config=config, suite="test", system="seed", round=3,
                **how,  # type: ignore[arg-type]
            )  # fmt: skip
        assert run.results.get("test/seed") == found
        assert all(t.round == 3 and t.split == "test" for t in run.trajectories)
    return found, model.requests


async def test_evl_01_one_worker_and_eight_give_the_same_result(tmp_path: Path) -> None:
    config = from_mapping({"model": "scripted", "tasks": "t"})
    one, _ = await scored(tmp_path / "a", config, workers=1)
    eight, _ = await scored(tmp_path / "b", config, workers=8)
    assert replace(one, seconds=None) == replace(eight, seconds=None)
    assert [row[0] for row in one.scores.values()] == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert one.n == 6 and one.usage.output == one.usage.input // 5 if one.usage.input else False


async def test_an_evaluation_that_is_there_is_not_played_again(tmp_path: Path) -> None:
    config = from_mapping({"model": "scripted", "tasks": "t"})
    first, bought = await scored(tmp_path / "a", config)
    again, more = await scored(tmp_path / "a", config)
    assert again == first and bought > 0 and more == 0


async def test_repetitions_are_rollouts_of_their_own(tmp_path: Path) -> None:
    config = from_mapping({"model": "scripted", "tasks": "t"})
    found, _ = await scored(tmp_path / "a", config, TOYS[:2], repetitions=3, temperature=0.7)
    assert found.scores == {"t0": (1.0, 1.0, 1.0), "t1": (0.0, 0.0, 0.0)} and found.n == 6


async def test_nothing_to_play_is_said(tmp_path: Path) -> None:
    config = from_mapping({"model": "scripted", "tasks": "t"})
    with pytest.raises(ConfigError, match="has no tasks"):
        await scored(tmp_path / "a", config, [])
    with pytest.raises(ConfigError, match="at least 1"):
        await scored(tmp_path / "b", config, repetitions=0)
