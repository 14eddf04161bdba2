"""Parts for tests of evaluations: a suite of toy tasks, a scripted model, systems that end as they are
told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roleagent_lite.evals import Evaluation, Suite, evaluate
from roleagent_lite.evals.suite import TaskSource
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.types import Model, Outcome, PromptSet, Reply, Request, Role, Task, Trajectory, Usage

ROLES: tuple[Role, ...] = ("agent", "world", "reflector", "judge")
SOLVED, LOST, BROKEN = (
    Outcome("solved"),
    Outcome("failed", "step_limit"),
    Outcome("infrastructure_error", "x"),
)


def toy_file(path: Path, n: int = 6, goal: str = "Get out, {}.", **params: Any) -> str:
    """A task file of `n` sealed toy tasks of two types."""
    rows = [
        {"id": f"t{i}", "env": "tests.toy:Toy", "goal": goal.format(i), "split": "test",
         "params": {"type": "ab"[i % 2], **params}}
        for i in range(n)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def toy_suite(tasks: str, *systems: str, **more: Any) -> Suite:
    return Suite("toys", (TaskSource(tasks),), systems=systems or ("random", "prompt"), **more)


def rule(request: Request) -> Reply:
    """Solves the tasks with an even number; in the others it looks round until the limit."""
    text = request.messages[-1].content
    solves = any(f"Get out, {i}." in text for i in (0, 2, 4))
    action = "look around" if not solves else "open door" if "You take the key." in text else "take key"
    return Reply(
        json.dumps({"thought": "", "action": action, "predictions": []}), usage=Usage(10, 2, 0, 0, 0.0)
    )


def scripted(answer: Callable[[Request], Any] = rule) -> dict[Role, Model]:
    model = ScriptedModel(answer)
    return dict.fromkeys(ROLES, model)


class Told:
    """A System that ends each task as `ends(task, rollout)` says, without a step."""

    def __init__(self, name: str, ends: Callable[[Task, int], Outcome], score: float | None = None) -> None:
        self.name, self.model = name, "told"
        self.prompt_set = PromptSet(f"{name:_<8}{name}", {"system.name": name})
        self._ends, self._score = ends, score

    async def solve(
        self, task: Task, *, round: int, rollout: int, temperature: float, max_steps: int = 0
    ) -> Trajectory:
        outcome = self._ends(task, rollout)
        score = self._score if self._score is not None else float(outcome.kind == "solved")
        return Trajectory(
            f"{round}/{self.prompt_set.id[:8]}/{task.id}#{rollout}", task.id, self.prompt_set.id, self.model,
            round, rollout, task.split, (), score if outcome.scored else 0.0, outcome,
            max_steps=max_steps or 9,
        )  # fmt: skip

    def most_calls(self, task: Task, max_steps: int = 0) -> int | None:
        return 0


def told(folder: Path, name: str, *systems: Told, n: int = 6, **how: Any) -> Evaluation:
    """An evaluation of systems that end as they are told, on `n` toy tasks, in `folder`/`name`."""
    tasks = toy_file(folder / how.pop("file", "t.jsonl"), n, **how.pop("params", {}))
    suite = toy_suite(tasks, *(s.name for s in systems))
    return evaluate(
        suite, {"model": "scripted"}, systems=systems, run_dir=folder / name, models=scripted(), **how
    )
