"""Every world: its oracle or gold path scores full marks within the step limit, a random player does not."""

from __future__ import annotations

import random

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.types import Task
from tests.envs.worlds import World, every

FEW, SLOW_FEW = 12, 3  # tasks of a world, of a slow one
# Tasks of a world in the slow pass; what is not named here plays all that it ships.
MOST = {
    "household:alfworld": 60,
    "appworld": 24,
    "mcp:": 8,
    "gym:FrozenLake-v1": 40,
    "tests.cellar:Cellar": 60,
}
ELSEWHERE = {
    "scienceworld": "test_scienceworld plays a gold path of each of its thirty tasks in the slow pass"
}


def won(world: World, task: Task) -> None:
    """The plan, exactly as an oracle plays it: full marks at its end, rewards that add up to them."""
    plan = world.plan(task)
    assert 0 < len(plan) <= registry.spec(task.env).max_steps(task), task
    env = registry.make(task)
    try:
        total, done = 0.0, False
        for action in plan:
            assert not done or env.score() == 1.0, f"{task}: over before the end of its plan"
            if done:
                break  # ScienceWorld's gold paths go on after full marks
            moved = env.step(action)
            total, done = total + moved.reward, moved.done
        assert (env.score(), done) == (1.0, True), task
        assert total == pytest.approx(1.0), f"{task}: the rewards do not add up to the score"
    finally:
        env.close()


def drawn(world: World, task: Task, seed: int) -> float:
    """What a player that draws gets in the steps that the task allows, or in 30 of them."""
    rng, env = random.Random(seed), registry.make(task)
    try:
        for _ in range(min(30, registry.spec(task.env).max_steps(task))):
            seen = env.observe()
            if env.step(rng.choice(seen.admissible or world.words)).done:
                break
        return env.score()
    finally:
        env.close()


@pytest.mark.parametrize("world", every())
def test_a_plan_scores_full_marks(world: World) -> None:
    with world.serve():
        for task in world.tasks(SLOW_FEW if world.slow else FEW):
            won(world, task)


@pytest.mark.slow
@pytest.mark.parametrize("world", every(slow=False, without=ELSEWHERE))
def test_a_plan_scores_full_marks_in_every_task(world: World) -> None:
    with world.serve():
        for task in world.tasks(MOST.get(world.name, 10_000)):
            won(world, task)


@pytest.mark.parametrize("world", every())
def test_a_player_that_draws_does_not(world: World) -> None:
    with world.serve():
        tasks = world.tasks(SLOW_FEW if world.slow else FEW)
        scores = [drawn(world, task, seed) for seed, task in enumerate(tasks)]
    full = sum(score == 1.0 for score in scores)
    assert full <= len(scores) // 3 and sum(scores) / len(scores) < 0.7, scores
