"""Parts for tests of systems: a setting over a scripted model, worlds that punish what a system lacks.

The scripted models are rules over the text of one request; they know nothing else of the world.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from roleagent_lite.ask import load_prompts
from roleagent_lite.config import from_mapping
from roleagent_lite.lm.pool import open_models
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.store import Run
from roleagent_lite.systems.setting import Setting
from roleagent_lite.types import Model, Observation, Reply, Request, Role, Task, TaskBudget, Transition

Rooms = Mapping[str, tuple[str, dict[str, str]]]
Rule = Callable[[Request], "str | Reply"]
ROLES: tuple[Role, ...] = ("agent", "world", "reflector", "judge")


@asynccontextmanager
async def setting(
    folder: Path,
    rule: Rule,
    *,
    prompts: str = "v1",
    can_score: bool = False,
    budget: TaskBudget | None = None,
    seed: int = 0,
    model: ScriptedModel | None = None,
    price: str | None = None,
    **config: Any,
) -> AsyncIterator[Setting]:
    """A Setting whose run lies in `folder`; one scripted model for all roles, which answers by `rule`."""
    settings = from_mapping({"prompts": prompts, "budget": {"price": price}, **config})
    played = model or ScriptedModel(rule, can_score=can_score)
    models: dict[Role, Model] = dict.fromkeys(ROLES, played)
    with Run.create(folder, settings) as run:
        async with open_models(settings, run, overrides=models) as pool:
            yield Setting(
                settings, run, pool, load_prompts(prompts), budget or TaskBudget(), seed, folder.parent
            )


def calls(amount: int) -> TaskBudget:
    """A budget of so many calls a task."""
    return TaskBudget("calls", amount)


def said(request: Request) -> str:
    """All that the model is shown."""
    return "\n".join(message.content for message in request.messages)


def offered(request: Request) -> list[str]:
    """The actions that a request of module react or act lists."""
    _, _, listed = request.messages[-1].content.partition("Admissible actions (choose one, word for word):\n")
    return listed.strip().splitlines()


def seen(request: Request) -> str:
    """The present observation in a request of module react or act."""
    found = re.search(r"You see:\n(.*?)\n\n", request.messages[-1].content + "\n\n", re.DOTALL)
    return found[1] if found else ""


def move(action: str, thought: str = "So be it.") -> str:
    return json.dumps({"thought": thought, "action": action})


class World:
    """A small deterministic world: a table of rooms. Subclasses say `rooms` and `goal`.

    rooms: name -> (text, {action: next room}); a move that is not in the table changes nothing. The episode
    ends in a room whose name is in `ends`; it is solved in the room `goal`.
    """

    max_steps = 6
    history = 2
    start = "start"
    goal = "goal"
    ends: tuple[str, ...] = ("goal",)
    rooms: ClassVar[Rooms]

    def __init__(self, task: Task) -> None:
        self.at = self.start

    def observe(self) -> Observation:
        text, moves = self.rooms[self.at]
        return Observation(text, tuple(moves), self.at)

    def step(self, action: str) -> Transition:
        moves = self.rooms[self.at][1]
        before, self.at = self.at, moves.get(action, self.at)
        reached = self.at == self.goal and before != self.goal
        return Transition(self.observe(), float(reached), self.at in self.ends, action in moves)

    def score(self) -> float:
        return float(self.at == self.goal)

    def close(self) -> None:
        """Nothing is held open."""


class Note(World):
    """A code is seen once and needed three steps later, when the window of two steps has lost it."""

    rooms: ClassVar[Rooms] = {
        "start": ("A note on the wall says: the code is 7.", {"walk on": "hall"}),
        "hall": ("A hall.", {"walk on": "stairs"}),
        "stairs": ("Stairs lead down.", {"walk on": "door"}),
        "door": (
            "A door asks for the code.",
            {f"enter {n}": "goal" if n == 7 else "shut" for n in range(10)},
        ),
        "shut": ("The lock is jammed for ever.", {"wait": "shut"}),
        "goal": ("The door opens.", {}),
    }
    ends = ("goal", "shut")


class Boxes(World):
    """Two boxes; opening the wrong one ends the episode and shows where the prize was."""

    rooms: ClassVar[Rooms] = {
        "start": ("A red box and a blue box stand here.", {"open red box": "trap", "open blue box": "goal"}),
        "trap": ("A trap snaps shut. The prize was in the blue box.", {}),
        "goal": ("You hold the prize.", {}),
    }
    ends = ("goal", "trap")


class Maze(World):
    """Doors shut behind you, and a dead end looks no worse than the way out until one stands in it."""

    rooms: ClassVar[Rooms] = {
        "start": ("Three doors.", {"take left door": "l", "take middle door": "m", "take right door": "r"}),
        "l": ("A bright room. One door leads on.", {"go on": "dead"}),
        "m": ("A dark room. One door leads on.", {"go on": "dead"}),
        "r": ("A narrow room. Two doors lead on.", {"go on": "dead", "climb": "goal"}),
        "dead": ("A pit. There is no way out and nothing to learn.", {}),
        "goal": ("Daylight. You are out.", {}),
    }
    ends = ("goal", "dead")


class SavedMaze(Maze):
    """The same maze with snapshots; `replays` counts environments made."""

    made = 0

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        SavedMaze.made += 1

    def snapshot(self) -> str:
        return self.at

    def restore(self, snapshot: str) -> None:
        self.at = snapshot


class Fickle(Maze):
    """Says something else each time it is made: no search can go back in it."""

    made = 0

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        Fickle.made += 1
        self.number = Fickle.made

    def observe(self) -> Observation:
        seen = super().observe()
        return Observation(f"{seen.text} It is day {self.number}.", seen.admissible, seen.state_key)


def task(world: str, name: str = "t1", goal: str = "Get out.", **params: Any) -> Task:
    """A task of one of the worlds here."""
    return Task(name, f"tests.systems.make:{world}", goal, params=params, split="test")


class Ends(World):
    """Two ways end at once, seen from the crossing; behind the third, what looks best ends too."""

    rooms: ClassVar[Rooms] = {
        "start": ("A crossing.", {"go near": "dead", "go back": "dead", "go far": "bridge"}),
        "bridge": ("A bright bridge.", {"go left": "ledge", "go right": "arch"}),
        "ledge": ("A bright ledge.", {"go on": "dead"}),
        "arch": ("A dark arch.", {"go on": "goal"}),
        "dead": ("A pit.", {}),
        "goal": ("Daylight.", {}),
    }
    ends = ("goal", "dead")


class Broken(Maze):
    """Raises at its first step."""

    def step(self, action: str) -> Transition:
        raise KeyError(action)
