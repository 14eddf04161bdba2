"""The thirty tasks of ScienceWorld on the package's own simulator (extra `scienceworld`; needs Java).

A task's `params`: `task` (one of TASKS), `variation` (0 and up), `simplifications` (a list of the package's:
easy, teleportAction, openDoors, ...), `list_actions` (false: actions are free; true: every valid one is
listed, 400 and more, which takes several times as long as a step), `max_steps` 100.

The package does not repeat itself: animals walk and plants are bred by one random generator of the whole
Java process, and the order in which things are listed (and heat each other) hangs on numbers that all
simulators draw from one counter and on hash codes of addresses. Owns the remedy: hash codes are fixed, and
each call runs with the counter as this episode left it and with the generator seeded from the task, its seed
and the number of the call. Owns also the filter of `reset task`. A branch replays its actions.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from roleagent_lite.envs import params
from roleagent_lite.envs.jvm import Engine, Simulator, after_fork
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Observation, Task, Transition

ENGINE = Engine(
    "scienceworld",
    "scienceworld.jar",
    "scienceworld.runtime.pythonapi.PythonInterface",
    "1g",  # thirty simulators at once fit
    "scienceworld",
    ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2"),
)
STEPS = 100
TASKS = (
    "boil", "change-the-state-of-matter-of", "chemistry-mix", "chemistry-mix-paint-secondary-color",
    "chemistry-mix-paint-tertiary-color", "find-animal", "find-living-thing", "find-non-living-thing",
    "find-plant", "freeze", "grow-fruit", "grow-plant", "identify-life-stages-1", "identify-life-stages-2",
    "inclined-plane-determine-angle", "inclined-plane-friction-named-surfaces",
    "inclined-plane-friction-unnamed-surfaces", "lifespan-longest-lived",
    "lifespan-longest-lived-then-shortest-lived", "lifespan-shortest-lived",
    "measure-melting-point-known-substance", "measure-melting-point-unknown-substance", "melt",
    "mendelian-genetics-known-plant", "mendelian-genetics-unknown-plant", "power-component",
    "power-component-renewable-vs-nonrenewable-energy", "test-conductivity",
    "test-conductivity-of-unknown-substances", "use-thermometer",
)  # fmt: skip
ELECTRICAL = tuple(name for name in TASKS if "power-component" in name or "conductivity" in name)
SIMPLIFICATIONS = (
    "easy", "noElectricalAction", "openContainers", "openDoors", "selfWateringFlowerPots", "teleportAction",
)  # fmt: skip
VOCABULARY = (
    "look around; look at X; look in X; inventory; task; go to PLACE; teleport to PLACE (where allowed); "
    "open X; close X; pick up X; put down X; move X to Y; pour X in Y; dunk X in Y; mix X; use X on Y; "
    "activate X; deactivate X; connect X to Y; disconnect X; read X; eat X; flush X; focus on X; wait; "
    "wait1; and the number of a choice where the world asks which one is meant"
)
REFUSED = "No known action matches that input."  # the simulator's own words
_UNKNOWN = (REFUSED, "Unknown action", "Ambiguous request: Multiple")
_UUID = re.compile(r'"uuid":"\d+",|-\d+(?=")')
_DEGREES = re.compile(r'("temperatureC":-?\d+)\.\d+(?:E-?\d+)?')
_CHOICE = re.compile(r"^(\d+):", re.M)

_turn = threading.RLock()


def _renew() -> None:
    global _turn
    _turn = threading.RLock()


after_fork.append(_renew)


class World:
    """One simulator that repeats itself. Every method takes the turn of the whole process."""

    def __init__(
        self, name: str, variation: int, simplifications: Sequence[str], seed: int, gold: bool
    ) -> None:
        self._simulator = simulator = Simulator(ENGINE)
        self._counter = simulator.named("util.UniqueIdentifier")
        self._chance = getattr(simulator.named("scala.util.Random$"), "MODULE$")
        self._seed = f"{name}/{variation}/{','.join(simplifications)}/{seed}"
        self._calls = 0
        self._count = 1
        said = self._do("load", name, variation, ",".join(simplifications), gold)
        if said:
            simulator.close()
            raise ConfigError(
                f"ScienceWorld does not load {name} {variation}: {str(said).removeprefix('ERROR: ')}"
            )

    def _do(self, method: str, *arguments: Any) -> Any:
        """A call that may change the world."""
        drawn = hashlib.sha256(f"{self._seed}/{self._calls}".encode()).digest()[:8]
        with _turn:
            self._simulator.of(self._counter, "count_$eq", self._count)
            self._simulator.of(self._chance, "setSeed", int.from_bytes(drawn, "big", signed=True))
            found = self._simulator.call(method, *arguments)
            self._count = self._simulator.of(self._counter, "count")
        self._calls += 1
        return found

    def begin(self) -> str:
        """The first look, of a fresh world."""
        self._do("reset")
        return str(self._do("step", "look around"))

    def step(self, action: str) -> tuple[str, int, bool]:
        """What is seen, the score (-100 to 100), and whether the simulator says that it is over."""
        seen = str(self._do("step", action))
        return seen, round(100 * self.ask("getScore")), bool(self.ask("getCompleted"))

    def ask(self, method: str) -> Any:
        """A call that changes nothing."""
        return self._simulator.call(method)

    def valid(self) -> list[str]:
        """All valid actions, sorted, without the one that would begin anew."""
        with _turn:
            self._simulator.of(self._counter, "count_$eq", self._count)
            found = self._simulator.texts("getValidActionObjectCombinations")
        return sorted({action for action in found if not _resets(action)})

    def texts(self, method: str) -> list[str]:
        return self._simulator.texts(method)

    def numbers(self, method: str) -> list[int]:
        """A Java list of whole numbers."""
        found: list[int] = json.loads(self._simulator.of(self.ask(method), "toString"))
        return found

    def tree(self) -> str:
        """The whole world as JSON (150 kB), which the simulator gives as a file only."""
        with _turn, tempfile.TemporaryDirectory() as folder:
            self._simulator.call("getObjectTree", folder)
            return (Path(folder) / "objectTree.json").read_text(encoding="utf-8")

    def close(self) -> None:
        self._simulator.close()


def _resets(action: str) -> bool:
    return "reset task" in " ".join(action.lower().split())


def limit(task: Task) -> int:
    """Steps an episode may have: params.max_steps, else 100."""
    return params.steps(task, STEPS)


def _named(task: Task) -> tuple[str, int, tuple[str, ...]]:
    """Task, variation and simplifications as `params` names them. Raises ConfigError."""
    name, variation = params.choice(task, "task", TASKS), params.whole(task, "variation")
    given = tuple(params.texts(task, "simplifications") or ())
    for one in given:
        params.choice(
            Task(task.id, task.env, "", params={"simplifications": one}), "simplifications", SIMPLIFICATIONS
        )
    if "noElectricalAction" in given and name in ELECTRICAL:
        raise ConfigError(
            f"task {task.id}: {name} needs electrical actions, but params.simplifications forbid them"
        )
    return name, variation, given


def check(task: Task) -> None:
    """Raises ConfigError for params that name no task of the package; starts nothing."""
    _named(task)
    params.flag(task, "list_actions")


@lru_cache(maxsize=512)
def _gold(name: str, variation: int, simplifications: tuple[str, ...], seed: int) -> tuple[str, ...]:
    world = World(name, variation, simplifications, seed, True)
    try:
        return tuple(world.texts("getGoldActionSequence"))
    finally:
        world.close()


class ScienceWorld:
    """An Environment with `facts` and a gold path (`walkthrough`)."""

    def __init__(self, task: Task) -> None:
        self._named = _named(task)
        self._listed = params.flag(task, "list_actions")
        self._task_seed = task.seed
        self._world = World(*self._named, task.seed, False)
        self._total = 0.0
        self._done = False
        self._seen = self._read(self._world.begin())

    def _read(self, text: str) -> Observation:
        choices = tuple(_CHOICE.findall(text)) if text.startswith("Ambiguous request: Please enter") else ()
        tree = _DEGREES.sub(r"\1", _UUID.sub("", self._world.tree()))
        state = repr((tree, self._total, choices and text, self._done))
        key = hashlib.sha256(state.encode("utf-8", "replace")).hexdigest()[:16]
        if not self._listed:
            return Observation(text, state_key=key)
        return Observation(text, choices or tuple(self._world.valid()), key, open=True)

    def observe(self) -> Observation:
        return self._seen

    def step(self, action: str) -> Transition:
        """One action. `reset task` is refused as any unknown one; what is not understood changes nothing."""
        if self._done:
            return Transition(self._seen, 0.0, True, valid=False)
        before = self._total
        if _resets(action):
            seen = Observation(REFUSED, self._seen.admissible, self._seen.state_key, self._seen.open)
            return Transition(seen, 0.0, False, valid=False)
        text, score, over = self._world.step(action.strip().removesuffix("."))  # it knows no full stops
        self._total = min(1.0, max(0.0, score / 100))
        self._done = over or score < 0 or score >= 100
        self._seen = self._read(text)
        return Transition(self._seen, self._total - before, self._done, not text.startswith(_UNKNOWN))

    def score(self) -> float:
        """The simulator's score, 0..1; a failed task's is below 0 there and 0 here."""
        return self._total

    def facts(self) -> list[str]:
        """The world as it is, sorted: what lies in what, what is open, on, alive, and how warm; electrical
        terminals are left out."""
        return sorted(set(_told(json.loads(self._world.tree()))))

    def walkthrough(self) -> list[str]:
        """The package's gold path for this task, variation, simplifications and seed (0.1 to 10 s)."""
        return list(_gold(*self._named, self._task_seed))

    def close(self) -> None:
        """Lets go of the simulator."""
        self._world.close()


def _told(thing: dict[str, Any]) -> Iterator[str]:
    name = thing["name"]
    box, device, matter, life = (thing[f"prop{k}"] or {} for k in ("Container", "Device", "Material", "Life"))
    if box.get("isClosable"):
        yield f"{name} is {'open' if box['isOpen'] else 'closed'}"
    if device.get("isActivable"):
        yield f"{name} is {'on' if device['isActivated'] else 'off'}"
    if matter:
        yield f"{name} is {matter['stateOfMatter']} at {round(matter['temperatureC'])} degrees"
    if life:
        yield f"{name} is {'dead' if life['isDead'] else 'alive'}"
    for inner in thing["contents"].values():
        if not inner["name"].startswith("terminal") and not inner["isDeleted"]:
            yield f"{inner['name']} in {name}"
            yield from _told(inner)


COUNTS = {"train": 3, "dev": 1, "test": 2}
_SPARE = 1.25  # steps a task may have, in lengths of its gold path, where 100 are too few for that


def _row(name: str, split: str, variation: int) -> dict[str, Any] | None:
    """A row, or None where the gold path does not reach full marks."""
    given = {"type": name, "task": name, "variation": variation, "simplifications": ["easy"]}
    task = Task("row", "scienceworld", "", 0, given)
    env = ScienceWorld(task)
    try:
        plan = env.walkthrough()
        if any(env.step(action).done for action in plan) and env.score() == 1.0:
            if len(plan) * _SPARE > STEPS:
                given["max_steps"] = int(len(plan) * _SPARE) // 10 * 10 + 10
            goal = " ".join(str(env._world.ask("getTaskDescription")).split())
            return {"env": "scienceworld", "goal": goal, "params": given, "split": split}
        return None
    finally:
        env.close()


def rows() -> Iterator[dict[str, Any]]:
    """The shipped task set `scienceworld`: of every task a few variations of each of the package's splits,
    evenly spaced, with the simplifications `easy`; where the gold path fails, the next variation. Minutes.
    """
    for name in TASKS:
        world = World(name, 0, (), 0, False)
        splits = {split: world.numbers(f"getVariations{split.title()}") for split in COUNTS}
        world.close()
        for split, known in splits.items():
            found = 0
            for place in range(COUNTS[split]):
                start = place * len(known) // COUNTS[split]
                end = (place + 1) * len(known) // COUNTS[split]
                row = next((r for v in known[start:end] if (r := _row(name, split, v)) is not None), None)
                if row is not None:
                    found += 1
                    yield row
