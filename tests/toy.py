"""TOY: a three-room text world for tests. `take key`, then `open door` wins in two steps.

Classes are user environments, found as `tests.toy:Toy` or under the registered names below.
"""

from __future__ import annotations

from typing import Any

from roleagent_lite.types import Observation, Task, Transition

ACTIONS = ("look around", "take key", "open door", "say hello.")


class Toy:
    """Lists its actions; deterministic; reward 1 on winning."""

    max_steps = 6
    history = 2
    listed: tuple[str, ...] = ACTIONS
    moves: list[str]

    def __init__(self, task: Task) -> None:
        self.task = task
        self.key = False
        self.won = False
        self.moves = []
        LOG.setdefault(task.id, []).append(self.moves)

    def _state(self) -> str:
        return f"{'key' if self.key else 'no key'}, {'open' if self.won else 'shut'}"

    def observe(self) -> Observation:
        return Observation("You are in a hall. There is a key and a door.", self.listed, self._state())

    def step(self, action: str) -> Any:
        self.moves.append(action)
        text, reward = "Nothing happens.", 0.0
        if action == "take key" and not self.key:
            self.key, text = True, "You take the key."
        elif action == "open door" and self.key:
            self.won, text, reward = True, "The door opens. You are free.", 1.0
        return Transition(Observation(text, self.listed, self._state()), reward, self.won)

    def score(self) -> float:
        return float(self.won)

    def close(self) -> None:
        """Nothing to release."""


class FreeToy(Toy):
    """The same world without a list of actions and without state keys."""

    listed: tuple[str, ...] = ()

    def _state(self) -> str:
        return None  # type: ignore[return-value]


class Faulty(Toy):
    """Raises on step 3 of the task whose params say so."""

    def step(self, action: str) -> Any:
        if self.task.params.get("raise") and len(self.moves) == 2:
            raise KeyError("the engine lost its thread; api_key=sk-abcdefghijklmnopqrstuvwx")
        return super().step(action)


class Endless(Toy):
    """Never done, nothing can be won."""

    max_steps = 10

    def step(self, action: str) -> Any:
        self.moves.append(action)
        return Transition(Observation(f"Turn {len(self.moves)}.", self.listed), 0.0, False, False)


class Lost(Toy):
    """Ends at the first step, unsolved."""

    def step(self, action: str) -> Any:
        return Transition(Observation("You fall into a pit.", self.listed, "pit"), 0.0, True)

    def score(self) -> float:
        return 0.25


class Open(Toy):
    """Goes on after the goal is reached."""

    def step(self, action: str) -> Any:
        came: Transition = super().step(action)
        return Transition(came.observation, came.reward, False)


class Unpaid(Toy):
    """Signals success but never a reward."""

    def step(self, action: str) -> Any:
        came: Transition = super().step(action)
        return Transition(came.observation, 0.0, came.done)


class Dice(Toy):
    """Ignores its seed: no two episodes start alike."""

    made = 0

    def observe(self) -> Observation:
        Dice.made += 1
        return Observation(f"A die shows {Dice.made}.", self.listed)


class Talker(Toy):
    """Says what looks like a key and half a character."""

    def observe(self) -> Observation:
        return Observation("The note says sk-abcdefghijklmnopqrstuvwx \ud83d.", self.listed)

    def step(self, action: str) -> Any:
        came: Transition = super().step(action)
        return Transition(self.observe(), came.reward, came.done)


class Shape(Toy):
    """Returns what its task says in place of a Transition."""

    def step(self, action: str) -> Any:
        return {"four": ("seen", 0.0, True, {}), "dict": {"reward": 1.0, "done": True}}[
            self.task.params["shape"]
        ]


LOG: dict[str, list[list[str]]] = {}


def task(name: str = "t1", env: str = "Toy", **params: Any) -> Task:
    """A task of one of the classes here."""
    return Task(name, f"tests.toy:{env}", "Get out of the hall.", seed=1, params=params)
