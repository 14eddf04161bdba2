"""Episodes, tasks, a run and a scripted world for the tests of aiw."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from roleagent_lite.ask.asker import Asker
from roleagent_lite.ask.prompts import load_prompts
from roleagent_lite.config import from_mapping
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.store import Run
from roleagent_lite.types import (
    Diagnosis,
    Kind,
    Message,
    Outcome,
    Reply,
    Request,
    Role,
    Split,
    Step,
    Task,
    Trajectory,
)  # fmt: skip

GOALS = ["put a hot apple on the table", "put a cool apple on the table", "put a clean cup in the cabinet"]


def task(id: str, goal: str = "put a hot apple on the table", split: Split = "train") -> Task:
    return Task(id, "household", goal, split=split)


def episode(
    task_id: str,
    rollout: int = 0,
    actions: Sequence[str] = ("look", "go to fridge 1"),
    *,
    kind: Kind = "failed",
    reason: str = "step_limit",
    round: int = 1,
    prompt_set: str = "seed",
    split: Split = "train",
) -> Trajectory:
    steps = tuple(Step(f"you see {i}", a, f"after {a}") for i, a in enumerate(actions))
    score = 1.0 if kind == "solved" else 0.0
    return Trajectory(
        id=f"{round}/{prompt_set}/{task_id}#{rollout}",
        task=task_id,
        prompt_set=prompt_set,
        model="scripted",
        round=round,
        rollout=rollout,
        split=split,
        steps=steps,
        score=score,
        outcome=Outcome(kind, "" if kind == "solved" else reason),
        max_steps=8,
    )


def diagnosis(
    trajectory: Trajectory, mode: str = "missing_precondition", lesson: str = "heat first"
) -> Diagnosis:
    return Diagnosis(trajectory.id, mode, "it was cold", 1, lesson, "heat apple microwave")


def open_run(path: Path, **config: Any) -> Run:
    return Run.create(path, from_mapping({"model": "scripted", "workers": 4, **config}))


def diagnosed(mode: str = "missing_precondition", **more: Any) -> str:
    body = {
        "mode": mode,
        "detail": "It was cold.",
        "critical_step": 2,
        "lesson": "Heat first.",
        "query": "heat apple",
    }
    return json.dumps({**body, **more})


def chosen(*ids: str, reason: str = "same skill") -> str:
    return json.dumps({"chosen": [{"id": i, "reason": reason} for i in ids]})


class World:
    """A world by rule: `rules[module]` answers a request of that module; every request is kept."""

    def __init__(self, **rules: Callable[[Request], str | Reply] | str) -> None:
        self.seen: list[Request] = []
        self._rules = rules

    def _answer(self, request: Request) -> str | Reply:
        self.seen.append(request)
        rule = self._rules[request.module]
        return rule if isinstance(rule, str) else rule(request)

    def of(self, module: str) -> list[Request]:
        return [r for r in self.seen if r.module == module]

    def asker(self) -> Asker:
        model = ScriptedModel(self._answer)
        models: dict[Role, Any] = {"agent": model, "world": model, "reflector": model, "judge": model}
        return Asker(models, load_prompts("v1"))


def said(request: Request) -> str:
    """All that a model was told."""
    messages: Sequence[Message] = request.messages
    return "\n".join(m.content for m in messages)


class Hashing:
    """A deterministic stand-in for an embedder: words hashed into buckets, no meaning beyond shared words."""

    def __init__(self, name: str = "hashing", dim: int = 32) -> None:
        self.name = name
        self.dim = dim
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> list[float]:
        vector = [0.0] * self.dim
        for word in text.casefold().split():
            vector[zlib.crc32(word.encode()) % self.dim] += 1.0
        return vector
