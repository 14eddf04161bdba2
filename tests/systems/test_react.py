"""react: a thought carries what the window of steps loses, which acting alone cannot."""

from __future__ import annotations

import json
import re
from pathlib import Path

from roleagent_lite.systems import make_system
from roleagent_lite.types import Outcome, Reply, Request
from tests.systems import make


def reader(request: Request) -> str:
    """Enters the code where it can read one; writes down what it has read, in its thought."""
    text = request.messages[-1].content
    code = re.search(r"the code is (\d)", text)
    actions = make.offered(request)
    action = f"enter {code[1] if code else 0}" if "enter 0" in actions else actions[0]
    wanted = (request.schema or {}).get("properties", {})
    reply = {"action": action} | (
        {"thought": f"the code is {code[1]}"} if code and "thought" in wanted else {}
    )
    return json.dumps(reply | ({"thought": "on"} if "thought" in wanted and not code else {}))


async def test_a_thought_carries_what_acting_alone_forgets(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", reader) as setting:
        alone = await make_system("prompt", setting).solve(
            make.task("Note"), round=0, rollout=0, temperature=0.0
        )
        thinking = await make_system("react", setting).solve(
            make.task("Note"), round=0, rollout=0, temperature=0.0
        )
    assert alone.outcome == Outcome("failed", "lost") and alone.steps[-1].action == "enter 0"
    assert all(step.thought == "" for step in alone.steps)
    assert thinking.solved and thinking.steps[-1].action == "enter 7"
    assert [step.thought for step in thinking.steps] == ["the code is 7"] * 4
    assert alone.id != thinking.id
    assert thinking.other_calls == () and len(thinking.steps[0].call_ids) == 1


async def test_past_thoughts_stand_before_their_actions(tmp_path: Path) -> None:
    shown: list[str] = []

    def rule(request: Request) -> str:
        shown.append(request.messages[-1].content)
        return reader(request)

    async with make.setting(tmp_path / "run", rule) as setting:
        await make_system("react", setting).solve(make.task("Note"), round=0, rollout=0, temperature=0.0)
    assert "> think: the code is 7\n> walk on\nA hall.\n> think: the code is 7\n> walk on\n" in shown[2]
    assert "tried this task before" not in shown[2] and "part of it" not in shown[2]


async def test_no_prediction_is_asked_for(tmp_path: Path) -> None:
    schemas = []

    def rule(request: Request) -> str:
        schemas.append(json.dumps(request.schema, default=dict))
        return reader(request)

    async with make.setting(tmp_path / "run", rule) as setting:
        system = make_system("react", setting)
        played = await system.solve(make.task("Note"), round=0, rollout=0, temperature=0.0, max_steps=2)
        assert system.most_calls(make.task("Note"), 2) == 4  # two moves, each perhaps asked again
        assert system.most_calls(make.task("Note")) == 12
    assert played.outcome == Outcome("failed", "step_limit") and played.max_steps == 2
    assert not any("predictions" in schema for schema in schemas)
    assert all(step.predictions == () for step in played.steps)


async def test_a_model_that_chooses_thinks_before_it_is_scored(tmp_path: Path) -> None:
    logs: list[tuple[str, str]] = []

    def rule(request: Request) -> str | Reply:
        logs.append((request.module, request.messages[-1].content))
        if request.choices is None:
            return json.dumps({"thought": f"thought {len(logs)}"})
        return Reply("", scores=tuple((-1.0 if "7" in c or "on" in c else -9.0,) for c in request.choices))

    async with make.setting(tmp_path / "run", rule, prompts="embedded", can_score=True) as setting:
        system = make_system("react", setting)
        played = await system.solve(make.task("Note"), round=0, rollout=0, temperature=0.0)
        assert system.most_calls(make.task("Note")) == 24
    assert played.solved and [m for m, _ in logs] == ["think", "choose"] * 4
    assert logs[1][1].endswith("the code is 7.\n> think: thought 1\nOK.\n>")
    assert "> think: thought 1\n> walk on\nA hall.\n> think: thought 3\n> walk on\n" in logs[5][1]
    assert [len(step.call_ids) for step in played.steps] == [2, 2, 2, 2]
