"""prompt: the action and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from roleagent_lite.systems import make_system
from roleagent_lite.types import Outcome, Reply, Request
from tests.systems import make


async def test_the_reply_holds_an_action_alone(tmp_path: Path) -> None:
    requests: list[Request] = []

    def rule(request: Request) -> str:
        requests.append(request)
        return json.dumps({"action": make.offered(request)[-1]})

    async with make.setting(tmp_path / "run", rule) as setting:
        system = make_system("prompt", setting)
        played = await system.solve(make.task("Maze"), round=0, rollout=0, temperature=0.0)
    assert played.solved and [step.action for step in played.steps] == ["take right door", "climb"]
    assert played.id == f"0/{system.prompt_set.id[:8]}/t1#0"
    for request in requests:
        assert request.module == "act" and list((request.schema or {})["properties"]) == ["action"]
        assert request.sample == played.id
        assert "thought" not in request.messages[0].content


async def test_a_model_that_chooses_neither_thinks_nor_foretells(tmp_path: Path) -> None:
    asked: list[str] = []

    def rule(request: Request) -> Reply:
        asked.append(request.module)
        assert request.choices is not None
        return Reply(
            "", scores=tuple((-1.0 if "right" in c or "climb" in c else -5.0,) for c in request.choices)
        )

    async with make.setting(tmp_path / "run", rule, prompts="embedded", can_score=True) as setting:
        system = make_system("prompt", setting)
        played = await system.solve(make.task("Maze"), round=0, rollout=0, temperature=0.0)
        again = await system.solve(make.task("Maze"), round=0, rollout=1, temperature=0.0)
    assert played.solved and again.solved and asked == ["choose"] * 4
    calls = [step.call_ids for t in (played, again) for step in t.steps]
    assert len(set(calls)) == 4  # no episode stands on another's calls


async def test_a_refused_form_is_an_outcome_and_its_calls_are_kept(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", lambda _: "I will not choose.") as setting:
        system = make_system("prompt", setting)
        played = await system.solve(make.task("Maze"), round=0, rollout=0, temperature=0.0)
        assert played.outcome == Outcome("bad_format", "wrong form")
        assert len(played.other_calls) == 2 and set(played.other_calls) == set(setting.run.calls.keys())
