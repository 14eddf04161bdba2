"""module:callable: a user's agent is compared, metered and recorded like any other system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roleagent_lite.systems import make_system
from roleagent_lite.types import Outcome, PromptSet, View
from tests.systems import make


async def always_right(view: View, prompt_set: PromptSet, ask: Any) -> str:
    """Asks once before every action, and goes right whatever the answer."""
    await ask("reflexion", {"task": view.task.goal, "episode": "e", "outcome": "o", "lessons": ""})
    return view.observation.admissible[-1]


NAME = "tests.systems.test_own:always_right"


def rule(request: object) -> str:
    return '{"reflection": "so so"}'


async def test_a_users_agent_plays_and_its_calls_are_told(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", rule) as setting:
        system = make_system(NAME, setting)
        played = await system.solve(make.task("Maze"), round=0, rollout=0, temperature=0.0)
        assert played.solved and system.most_calls(make.task("Maze")) is None
        assert set(played.other_calls) == set(setting.run.calls.keys()) and len(played.other_calls) == 2


async def test_the_budget_holds_for_it_too(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", rule, budget=make.calls(1)) as setting:
        system = make_system(NAME, setting)
        played = await system.solve(make.task("Maze"), round=0, rollout=0, temperature=0.0)
        assert played.outcome == Outcome("failed", "budget") and len(played.steps) == 1
        assert len(setting.run.calls) == 1 == system.most_calls(make.task("Maze"))
