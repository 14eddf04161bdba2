"""adapt: splits what it cannot do, as deep as needed, in one episode; stops at its budget."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

from roleagent_lite.errors import FatalModelError
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.systems import make_system
from roleagent_lite.types import Outcome, Reply, Request, Task, Trajectory
from tests.systems import make

GOAL = "Leave with the treasure."
PLAN = ("open the chest", "unlock the gate")


class Vault(make.World):
    """Five moves in the right order; no single one says what the whole needs."""

    max_steps = 10
    start = "yard"
    rooms: ClassVar[make.Rooms] = {
        "yard": ("A yard with a chest and a locked gate.", {"lift lid": "lid", "pull gate": "yard"}),
        "lid": ("The lid is up. Treasure!", {"take treasure": "rich", "pull gate": "lid"}),
        "rich": ("You hold treasure. The gate is locked.", {"turn key": "open", "pull gate": "rich"}),
        "open": ("You hold treasure. The gate is unlocked.", {"pull gate": "goal"}),
        "goal": ("You are out with the treasure.", {}),
    }


VAULT = Task("t1", "tests.systems.test_adapt:Vault", GOAL, split="test")
MOVES = {"open the chest": ("lift lid", "take treasure"), "unlock the gate": ("turn key", "pull gate")}


def worker(request: Request) -> str:
    """Pulls the gate for the whole goal, which is all it can think of; knows small tasks when told them."""
    text = request.messages[-1].content
    if request.module == "plan":
        return json.dumps({"logic": "AND", "steps": list(PLAN)})
    part = re.search(r"Do only this part of it now: (.*)", text)
    listed = make.offered(request)
    if part is None:
        return make.move("task failed" if "> pull gate" in text and "task failed" in listed else "pull gate")
    for move in MOVES.get(part[1], ()):
        if move in listed:
            return make.move(move)
    return make.move("task completed")


async def solve(folder: Path, rule: make.Rule = worker, name: str = "adapt", **how: Any) -> Trajectory:
    async with make.setting(folder, rule, **how) as setting:
        played = await make_system(name, setting).solve(VAULT, round=0, rollout=0, temperature=0.0)
        told = {c for s in played.steps for c in s.call_ids} | set(played.other_calls)
        assert told == set(setting.run.calls.keys())
        return played


def actions(played: Trajectory) -> list[str]:
    return [step.action for step in played.steps]


async def test_it_splits_what_acting_alone_cannot_do(tmp_path: Path) -> None:
    alone = await solve(tmp_path / "react", name="react")
    assert alone.outcome == Outcome("failed", "loop") and set(actions(alone)) == {"pull gate"}
    played = await solve(tmp_path / "adapt")
    assert played.solved
    assert actions(played) == ["pull gate", "lift lid", "take treasure", "turn key", "pull gate"]
    # "task failed", the plan and "task completed" stand in no step
    assert len(played.other_calls) == 3 and "/" not in played.id.rpartition("#")[2]


async def test_what_is_done_is_shown_to_the_next_part(tmp_path: Path) -> None:
    texts: list[str] = []

    def rule(request: Request) -> str:
        texts.append(request.messages[-1].content)
        return worker(request)

    await solve(tmp_path / "run", rule)
    assert "Do only this part of it now: unlock the gate\nDone already: open the chest." in texts[-1]
    assert f"Goal: {GOAL}" in texts[-1] and "task completed\ntask failed" in texts[-1]
    assert "task failed" in texts[0] and "task completed" not in texts[0]


@pytest.mark.parametrize("amount", range(1, 8))
async def test_it_stops_at_its_budget_exactly(tmp_path: Path, amount: int) -> None:
    async with make.setting(tmp_path / "run", worker, budget=make.calls(amount)) as setting:
        played = await make_system("adapt", setting).solve(VAULT, round=0, rollout=0, temperature=0.0)
        assert len(setting.run.calls) == amount
    assert played.outcome == Outcome("failed", "budget")


async def test_parts_that_fail_are_split_again_down_to_the_depth(tmp_path: Path) -> None:
    """Nothing can be done at all: one plan at depth 1, one at 2 (its first part fails, AND), none at 3."""
    asked: list[tuple[str, str]] = []

    def rule(request: Request) -> str:
        text = request.messages[-1].content
        if request.module == "plan":
            asked.append(("plan", re.findall(r"The task to split: (.*)", text)[0]))
            return json.dumps({"logic": "AND", "steps": [f"{len(asked)}a", f"{len(asked)}b"]})
        asked.append(("act", (re.findall(r"part of it now: (.*)", text) or [""])[0]))
        return make.move("task failed")

    played = await solve(tmp_path / "run", rule)
    assert asked == [("act", ""), ("plan", GOAL), ("act", "2a"), ("plan", "2a"), ("act", "4a")]
    assert played.outcome == Outcome("failed", "gave_up") and played.steps == ()
    assert "failed" in (played.error or "")


async def test_of_alternatives_the_next_is_tried_and_one_is_enough(tmp_path: Path) -> None:
    tried: list[str] = []

    def rule(request: Request) -> str:
        if request.module == "plan":
            return json.dumps({"logic": "OR", "steps": ["first way", "second way", "third way"]})
        part = re.search(r"part of it now: (.*)", request.messages[-1].content)
        tried.append(part[1] if part else "")
        return make.move("task completed" if part and part[1] == "second way" else "task failed")

    played = await solve(tmp_path / "run", rule)
    assert list(dict.fromkeys(tried)) == ["", "first way", "second way"]
    assert played.outcome == Outcome("failed", "gave_up") and "carried out" in (played.error or "")


async def test_an_executor_that_never_says_so_has_failed_after_its_share(tmp_path: Path) -> None:
    def rule(request: Request) -> str:
        if request.module == "plan":
            return json.dumps({"logic": "AND", "steps": [PLAN[0]]})
        text = request.messages[-1].content
        return worker(request) if "Do only" in text else make.move("pull gate")

    async with make.setting(tmp_path / "run", rule) as setting:
        system = make_system("adapt", setting)
        played = await system.solve(VAULT, round=0, rollout=0, temperature=0.0)
        bound = system.most_calls(VAULT)
        assert bound is not None and len(setting.run.calls) <= bound
    assert actions(played) == ["pull gate"] * 4 + [
        "lift lid",
        "take treasure",
    ]  # 0.4 of 10 steps
    assert played.outcome == Outcome("failed", "gave_up")


async def test_without_a_usable_plan_it_gives_up(tmp_path: Path) -> None:
    played = await solve(tmp_path / "run", lambda r: "no form" if r.module == "plan" else worker(r))
    assert played.outcome == Outcome("failed", "gave_up") and actions(played) == ["pull gate"]


async def test_killed_in_its_plan_it_pays_nothing_twice(tmp_path: Path) -> None:
    model = ScriptedModel(worker)

    def dying(request: Request) -> str:
        if model.requests == 5:
            raise FatalModelError("gone")
        return worker(request)

    model._rule = dying
    with pytest.raises(FatalModelError):
        await solve(tmp_path / "run", model=model)
    played = await solve(tmp_path / "run", model=model)
    assert played.solved and model.requests == 8 + 1


async def test_a_model_that_chooses_says_how_it_went_by_choosing(tmp_path: Path) -> None:
    def rule(request: Request) -> str | Reply:
        text = request.messages[-1].content
        if request.module == "plan":
            return worker(request)
        if request.choices is None:
            return json.dumps({"thought": "on"})
        goal = re.findall(r"Goal: (.*)", text)[-1]
        wanted = [*MOVES.get(goal, ("pull gate", "task failed")), "task completed"]
        if goal == GOAL and "> pull gate" in text:
            wanted = ["task failed"]
        best = next(w for w in wanted if f" {w}" in request.choices)
        return Reply("", scores=tuple((-1.0 if c == f" {best}" else -9.0,) for c in request.choices))

    async with make.setting(tmp_path / "run", rule, prompts="embedded", can_score=True) as setting:
        played = await make_system("adapt", setting).solve(VAULT, round=0, rollout=0, temperature=0.0)
    assert played.solved
    assert actions(played) == ["pull gate", "lift lid", "take treasure", "turn key", "pull gate"]
