"""Worlds of strangers: each does a thing that people's environments do. Found as `tests.odd_worlds:Name`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from roleagent_lite.types import Observation, Task, Transition
from tests.toy import ACTIONS, Toy

FAULTS: dict[str, type[Exception]] = {
    "key": KeyError, "stop": StopIteration, "memory": MemoryError, "os": OSError,
    "assert": AssertionError, "iter": StopAsyncIteration,
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "four": ("seen", 0.0, True, {}),
    "five": ("seen", 0.0, True, False, {}),
    "numpy": (np.str_("seen"), np.float32(0.0), np.bool_(True), np.bool_(False), {}),
    "none": None,
    "dict": {"reward": 1.0, "done": True},
    "bytes": (b"seen", 0.0, True),
    "array": (np.zeros(3), 0.0, True, False, {}),
    "reward": ("seen", np.array([1.0, 2.0]), True, False, {}),
    "nan": ("seen", float("nan"), True, False, {}),
    "two": ("seen", 0.0),
}


class Long(Toy):
    """Thirty steps, so that a loop shows before they are over."""

    max_steps = 30


class Answers(Toy):
    """step() returns what `params.answer` names."""

    def step(self, action: str) -> Any:
        self.moves.append(action)
        return ANSWERS[self.task.params["answer"]]


class Async(Toy):
    async def step(self, action: str) -> Any:
        return Transition(Observation("never"), 0.0, True)


class Raises(Toy):
    """Raises what `params.raises` names on its third step, in the task that is number 2."""

    def step(self, action: str) -> Any:
        if "number 2" in self.task.goal and len(self.moves) == 2:
            self.moves.append(action)
            name = self.task.params["raises"]
            if name == "exit":
                sys.exit(3)
            if name == "recursion":
                return self._deep(0)
            raise FAULTS[name]("the engine lost its thread")
        return super().step(action)

    def _deep(self, n: int) -> int:
        return self._deep(n + 1) + 1


class Keyed(Toy):
    """State keys that are no texts."""

    def _state(self) -> Any:
        return (
            (int(self.key), self.won) if self.task.params.get("tuple") else np.int64(2 * self.key + self.won)
        )


class HalfCharacters(Toy):
    """Lists an action that holds half a character, and takes no other."""

    listed = ("take \ud83d key", "wait")

    def step(self, action: str) -> Any:
        self.moves.append(action)
        won = action == "take \ud83d key"
        return Transition(Observation("You did \ud83d." if won else "Nothing.", self.listed), float(won), won)

    def score(self) -> float:
        return float(self.moves[-1:] == ["take \ud83d key"])


class Prints(Toy):
    """Prints, as people's environments do."""

    def step(self, action: str) -> Any:
        print("debug: stepping")
        return super().step(action)


class Arrays(Toy):
    """Gym's five values with numpy's types, actions in an array."""

    def step(self, action: str) -> Any:
        came: Transition = super().step(action)
        info = {"admissible": np.array(ACTIONS), "state_key": np.int64(7)}
        return np.str_(came.observation.text), np.float64(came.reward), np.bool_(came.done), np.False_, info


def task(name: str, env: str, **params: Any) -> Task:
    return Task(name, f"tests.odd_worlds:{env}", "Get out.", params=params)
