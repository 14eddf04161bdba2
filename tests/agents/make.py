"""Parts for tests of agents: views, askers on a rule, steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roleagent_lite.ask import Asker, load_prompts
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.types import Observation, Reply, Request, Step, View
from tests.toy import ACTIONS, task

V1 = load_prompts("v1")
SEED = V1.seed_set()


def asker(rule: Callable[[Request], str | Reply], *, can_score: bool = False) -> Asker:
    model = ScriptedModel(rule, can_score=can_score)
    return Asker(dict.fromkeys(("agent", "world", "reflector", "judge"), model), V1)


def view(**changes: Any) -> View:
    fields: dict[str, Any] = {
        "task": task(),
        "observation": Observation("A hall with a key and a door.", ACTIONS, "s1"),
        "history": (),
        "step": 1,
        "max_steps": 6,
        "horizon": 2,
        "temperature": 0.9,
        "sample": "0/abc/t1#0",
    }
    return View(**{**fields, **changes})


def step(action: str, outcome: str = "Nothing happens.", **changes: Any) -> Step:
    return Step(observation="before", action=action, outcome=outcome, **changes)
