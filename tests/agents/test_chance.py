"""RandomAgent: seeded, independent of the order of play."""

from __future__ import annotations

import pytest

from roleagent_lite.agents.chance import RandomAgent
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Observation
from tests.agents.make import SEED, view
from tests.toy import ACTIONS


async def draws(seed: int, sample: str) -> list[str]:
    agent = RandomAgent(SEED, seed)
    return [(await agent.act(view(step=n, sample=sample))).action for n in range(1, 41)]


async def test_the_draw_depends_on_seed_episode_and_step_alone() -> None:
    assert await draws(0, "a") == await draws(0, "a")
    assert await draws(0, "a") != await draws(1, "a")
    assert await draws(0, "a") != await draws(0, "b")
    assert set(await draws(0, "a")) == set(ACTIONS)


async def test_without_admissible_actions_there_is_nothing_to_draw_from() -> None:
    with pytest.raises(ConfigError, match="lists no admissible actions; use the agent 'generate'"):
        await RandomAgent(SEED).act(view(observation=Observation("x")))
