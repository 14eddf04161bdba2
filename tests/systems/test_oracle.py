"""oracle: full marks where the environment knows the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite.errors import ConfigError
from roleagent_lite.systems import make_system
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Outcome, Task
from tests.systems import make


class Guided(make.Maze):
    """A maze that knows a way; as its task says, the right one."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.way = list(task.params["way"])

    def walkthrough(self) -> list[str]:
        return self.way


def guided(*way: str) -> Task:
    return Task("g", "tests.systems.test_oracle:Guided", "Get out.", params={"way": way})


async def test_the_oracle_scores_full_marks_on_household(tmp_path: Path) -> None:
    tasks = [t for t in load_tasks("household-easy") if t.split == "test"]
    async with make.setting(tmp_path / "run", lambda _: "") as setting:
        system = make_system("oracle", setting)
        played = [await system.solve(t, round=0, rollout=0, temperature=0.0) for t in tasks]
        assert len(setting.run.calls) == 0
    assert len(played) >= 40 and all(t.solved and t.score == 1.0 for t in played)


async def test_a_plan_that_does_not_win_is_given_up(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", lambda _: "") as setting:
        system = make_system("oracle", setting)
        won = await system.solve(guided("take right door", "climb"), round=0, rollout=0, temperature=0.0)
        short = await system.solve(guided("take right door"), round=1, rollout=0, temperature=0.0)
    assert won.solved and system.most_calls(guided()) == 0
    assert short.outcome == Outcome("failed", "gave_up") and "1 actions did not solve" in (short.error or "")


async def test_an_environment_without_a_plan_is_named(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", lambda _: "") as setting:
        with pytest.raises(ConfigError, match=r"needs an environment with a method walkthrough\(\)"):
            await make_system("oracle", setting).solve(make.task("Maze"), round=0, rollout=0, temperature=0.0)
