"""random: the seed decides, no model is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from roleagent_lite.systems import make_system
from tests.systems import make


async def test_the_draws_follow_the_seed_and_cost_nothing(tmp_path: Path) -> None:
    played = []
    async with make.setting(tmp_path / "run", lambda _: "") as setting:
        for seed in (0, 0, 1):
            system = make_system("random", replace(setting, seed=seed))
            found = [
                await system.solve(make.task("Maze"), round=0, rollout=n, temperature=0.0) for n in range(20)
            ]
            played.append([step.action for t in found for step in t.steps])
        assert len(setting.run.calls) == 0
        assert (system.model, found[0].model) == ("", "")
        assert system.most_calls(make.task("Maze")) == 0 and not system.sees_score
    assert played[0] == played[1] != played[2]


async def test_it_wins_by_chance_alone(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", lambda _: "") as setting:
        system = make_system("random", setting)
        solved = [
            (await system.solve(make.task("Maze"), round=0, rollout=n, temperature=0.0)).solved
            for n in range(300)
        ]
    assert 0.1 < sum(solved) / 300 < 0.24  # one door of three, then one of two: 1/6
