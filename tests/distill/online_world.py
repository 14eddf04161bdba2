"""A world in which TINY can be seen to learn: of four actions one is right, twice, and a wrong one ends it.

Chance solves 1 in 16 if it draws evenly. All tasks look alike, so that what is learned on the training tasks
holds on the others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roleagent_lite.content import room
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.types import Observation, Task, Transition
from tests.distill import local
from tests.toy import ACTIONS

RIGHT = ("take key", "open door")


class Lock:
    """Take the key, then open the door; anything else is lost. Half a point of reward for the key."""

    max_steps = 2
    history = 2

    def __init__(self, task: Task) -> None:
        PLAYED.append(task.split)
        self.task = task
        self.flat = bool(task.params.get("flat"))
        self.right = tuple(task.params.get("right", RIGHT))
        self.done = 0

    def observe(self) -> Observation:
        text = "You took the key." if self.done else "There is a key and a door."
        return Observation(text, ACTIONS, str(self.done))

    def step(self, action: str) -> Transition:
        right = not self.flat and action == self.right[self.done]
        self.done += right
        return Transition(self.observe(), 0.5 * right, self.done == len(self.right) or not right)

    def score(self) -> float:
        return float(self.done == len(self.right))

    def hindsight(self, actions: Sequence[str]) -> list[tuple[Task, tuple[str, ...]]]:
        """The task whose one right move was the first."""
        name = f"{self.task.id}-{actions[0].replace(' ', '-')}"
        other = replace(self.task, id=name, params={"right": [actions[0]]}, parent=self.task.id)
        return [(other, (actions[0],))] if actions[0] != self.right[0] else []

    def close(self) -> None:
        """Nothing to release."""


PLAYED: list[str] = []


def write_tasks(path: Path, *, flat: bool = False, train: int = 6, dev: int = 2, test: int = 60) -> Path:
    """A task file; flat: nobody solves anything, so that no group has a signal."""
    counts = {"train": train, "dev": dev, "test": test}
    rows = [
        {
            "id": f"{split}-{k}", "env": "tests.distill.online_world:Lock", "goal": "Get out of the hall",
            "seed": place * 1000 + k, "params": {"type": f"kind{k % 2}", "flat": flat}, "split": split,
        }
        for place, (split, count) in enumerate(counts.items())
        for k in range(count)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_prompts(folder: Path) -> Path:
    """The shipped log of moves, without its demonstrations: TINY reads few tokens."""
    folder.mkdir(exist_ok=True)
    shipped = room("prompts") / "embedded" / "choose.toml"
    (folder / "choose.toml").write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "act.toml").write_text(
        'name = "act"\nrole = "agent"\ndescription = "texts of choose"\nevolve = ["instructions"]\n'
        '[inputs]\nlog = "what was seen"\n[outputs.action]\ndescription = "an action"\nenum = "action"\n'
        '[texts]\ninstructions = "Act"\nplaybook = ""\ndemonstrations = ""\n'
        '[template]\nuser = "{log}"\nsystem = "{instructions} {playbook} {demonstrations}"\n',
        encoding="utf-8",
    )
    return folder


def recipe(folder: Path, **more: Any) -> Recipe:
    """Online GRPO for TINY in this world; `more` as in `local.recipe`."""
    online = {
        "tasks": 6, "group": 8, "updates": 2, "dev": 2, "dev_every": 0, "room": 512,
        "prompts": str(write_prompts(folder / "prompts")), "max_drift": 1e-4, "temperature": 2.0,
        **more.pop("online", {}),
    }  # fmt: skip
    train = {"lr": 0.003, "batch": 64, "micro_batch": 8, **more.pop("train", {})}
    loss = {"max_kl": 100.0, **more.pop("loss", {})}
    return local.recipe(online=online, train=train, loss=loss, **more)
