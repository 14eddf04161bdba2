"""The eight games of TextWorldExpress on the package's own engine (extra `textworld-express`; needs Java).

A task's `params`: `game` (one of GAMES), `options` (the game's own, name -> whole number), `fold` (train,
dev or test; else the task's split), `max_steps` 50, `plan` (a gold path that was recorded once). The task's
seed is the game's. Observations, valid actions and scores are the engine's own, step for step.

Owns what the engine does not tell: a key of the true state, kept from the rooms as they were found and as
they were left, the inventory, and the doors that stand otherwise than at first. A branch replays its actions.
Owns also the peace between episodes: games of `sorting` share their things with all others in one Java
process (a new game empties the boxes of those in play), so that one that was disturbed is played again to
where it stood before its next move.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from roleagent_lite.envs import params
from roleagent_lite.envs.jvm import Engine, Simulator, after_fork
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Observation, Task, Transition

ENGINE = Engine(
    "textworld_express",
    "textworld-express.jar",
    "textworldexpress.runtime.PythonInterface",
    "512m",
    "textworld-express",
)
STEPS = 50
GAMES = (
    "cookingworld", "twc", "coin", "mapreader", "arithmetic", "sorting", "simonsays", "peckingorder",
)  # fmt: skip
SHARED = ("sorting",)  # games whose simulators are not apart
FOLDS = ("train", "dev", "test")
VOCABULARY = (
    "look around; inventory; move DIRECTION; take X; put X in Y; open X; close X; open door to DIRECTION; "
    "read X; examine X; and what the game lists"
)
_SEEN_ROOM = re.compile(r"[Tt]o the (North|South|East|West) you see the ([^.\n]+)\.")
_DOOR = re.compile(r"(?:open|close) door to (\w+)")
# The package's players that draw, from chance that it seeds by the clock: they get the task's seed from us.
_CHANCE = {
    "coin": "textworldexpress.goldagent.CoinGoldAgent",
    "twc": "textworldexpress.goldagent.TWCGoldAgent",
}
_DRAWS = 50  # of about two games in fifty it needs a second one
_TOLD = (
    "isOpen",
    "isCut",
    "isChopped",
    "isSliced",
    "isDiced",
    "isFried",
    "isRoasted",
    "isGrilled",
    "isEaten",
)


def limit(task: Task) -> int:
    """Steps an episode may have: params.max_steps, else 50."""
    return params.steps(task, STEPS)


def _options(task: Task) -> str:
    """`params.options` as the engine reads them: `numLocations=5,includeDoors=1`."""
    given = task.params.get("options", {})
    if not isinstance(given, Mapping) or not all(type(value) is int for value in given.values()):
        raise ConfigError(
            f"task {task.id}: params.options must be an object of whole numbers, found {given!r:.60}"
        )
    return ",".join(f"{name}={value}" for name, value in given.items())


_turn = threading.RLock()
_last: dict[str, object] = {}  # shared game -> who touched it last


def _renew() -> None:
    global _turn
    _turn = threading.RLock()
    _last.clear()


after_fork.append(_renew)


@contextmanager
def _turn_of(game: str, who: object) -> Iterator[bool]:
    """The right to touch a shared game for a while; whether another one has touched it since."""
    if game not in SHARED:
        yield False
        return
    with _turn:
        disturbed = _last.get(game) is not who
        _last[game] = who
        yield disturbed


def check(task: Task) -> tuple[str, str, str]:
    """Game, options and fold of a task. Raises ConfigError; starts nothing."""
    game, options = params.choice(task, "game", GAMES), _options(task)
    fold = params.choice(task, "fold", FOLDS, task.split)
    if not 0 <= task.seed < 2**31:
        raise ConfigError(f"task {task.id}: the seed of a game lies within 0 and 2^31, found {task.seed}")
    return game, options, fold


def _begun(task: Task, gold: bool) -> tuple[Simulator, dict[str, Any]]:
    """A simulator at the beginning of the task, with what it says. Raises ConfigError, EnvironmentFault."""
    game, options, fold = check(task)
    simulator = Simulator(ENGINE)
    wrong = simulator.call("load", game, options)
    if wrong:
        simulator.close()
        raise ConfigError(f"task {task.id}: {game} does not take params.options: {wrong.strip()}")
    return simulator, json.loads(simulator.call("generateNewGameJSON", task.seed, fold, gold))


@lru_cache(maxsize=512)
def _gold(game: str, options: tuple[tuple[str, int], ...], fold: str, seed: int) -> tuple[str, ...]:
    """A gold path, asked for once a process."""
    task = Task("gold", "textworld-express", "", seed, {"game": game, "options": dict(options), "fold": fold})
    if game in _CHANCE:
        return next((plan for draw in range(_DRAWS) if (plan := _drawn(task, game, draw))), ())
    with _turn_of(game, None):
        simulator, _ = _begun(task, True)
    try:
        return tuple(simulator.texts("getGoldActionSequence"))
    finally:
        simulator.close()


def _drawn(task: Task, game: str, draw: int) -> tuple[str, ...]:
    """What the package's own player does with this luck; nothing where it does not arrive."""
    simulator, _ = _begun(task, False)
    try:
        chance = simulator.keep(simulator.named("scala.util.Random")(task.seed + draw))
        player = simulator.keep(simulator.named(_CHANCE[game])(simulator.keep(simulator.call("game"))))
        found = simulator.keep(simulator.of(player, "mkGoldPath", chance))
        return tuple(simulator.of(found, "_2")) if simulator.of(found, "_1") else ()
    finally:
        simulator.close()


def _room(look: str) -> str:
    return look.partition("You are in the ")[2].partition(".")[0]


class _Ground:
    """What is known of the true state beside the text: rooms that are not as they were found, and doors.

    A room changes only while the player is in it, so that rooms not yet seen are as the seed made them, and
    others as they were left. A door is of two rooms, and is kept apart from both.
    """

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._game = simulator.keep(simulator.call("game"))
        self._inventory = simulator.keep(simulator.of(self._game, "agentInventory"))
        self._places: dict[str, Any] = {}
        self._found: dict[str, str] = {}
        self._now: dict[str, str] = {}
        self._carried = ""
        self._shown = ("", "")
        self._doors: set[tuple[str, str]] = set()
        self._read: set[str] = set()

    def note(self, action: str, before: str, after: str) -> None:
        """What a move did to doors (from the two looks), and what was read."""
        door = _DOOR.fullmatch(action)
        if action.startswith("read "):
            self._read.add(action)
        elif door is not None and before != after:
            beyond = {d.lower(): room for look in (before, after) for d, room in _SEEN_ROOM.findall(look)}
            here, there = sorted((_room(after), beyond.get(door[1], "")))
            self._doors ^= {(here, there)}

    def state(self, look: str, inventory: str) -> str:
        """The state in one text; `look` says where the player stands."""
        name = _room(look)
        before, self._shown = self._shown, (name, inventory)
        if name not in self._places:
            self._places[name] = self._simulator.keep(self._simulator.of(self._game, "agentLocation"))
            self._found[name] = self.room(name)
        elif before[0] == name:
            self._now[name] = self.room(name)
        if before[1] != inventory:
            self._carried = self._simulator.of(self._inventory, "toJSON")
        changed = sorted((room, now) for room, now in self._now.items() if now != self._found[room])
        return repr((name, changed, self._carried, sorted(self._doors), sorted(self._read)))

    def room(self, name: str) -> str:
        """A room as Java describes it, without its doors."""
        told: str = self._simulator.of(self._places[name], "toJSON")
        return told.partition(',"locationNorth":')[0]

    def facts(self) -> Iterator[str]:
        """What the rooms seen so far and the inventory hold, with what is open or cut or cooked."""
        trees = [self._simulator.of(place, "toJSON") for place in self._places.values()]
        todo = [json.loads(tree, strict=False) for tree in trees]
        todo.append(json.loads(self._simulator.of(self._inventory, "toJSON"), strict=False))
        while todo:
            thing = todo.pop()
            yield from (f"{thing['name']} {flag}" for flag in _TOLD if thing[flag])
            for inner in thing["contents"].values():
                yield f"{inner['name']} in {thing['name']}"
                todo.append(inner)


class TextWorldExpress:
    """An Environment with `facts` and a gold path (`walkthrough`)."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._actions: list[str] = []
        self._simulator: Simulator | None = None
        self._game = params.choice(task, "game", GAMES)
        with _turn_of(self._game, self):
            self._begin()

    def _begin(self) -> None:
        self.close()
        self._simulator, self._said = _begun(self._task, False)
        # simonsays has no rooms
        self._ground = _Ground(self._simulator) if self._said["look"] else None
        self._seen = self._read(self._said)

    def _read(self, said: Mapping[str, Any]) -> Observation:
        self._total = min(1.0, max(0.0, float(said["score"])))
        self._done = self._total >= 1.0 or bool(said["tasksuccess"]) or bool(said["taskfailure"])
        actions = tuple(sorted(set(said["validActions"])))
        ground = said["observation"]
        if self._ground is not None:
            ground = self._ground.state(said["look"], said["inventory"])
        state = (ground, said["scoreRaw"], actions, self._done)
        key = hashlib.sha256(repr(state).encode("utf-8", "replace")).hexdigest()[:16]
        return Observation(said["observation"], actions, key)

    def observe(self) -> Observation:
        return self._seen

    def step(self, action: str) -> Transition:
        """One move. An action that is not listed changes nothing, as in the engine."""
        if self._done:
            return Transition(self._seen, 0.0, True, valid=False)
        before, valid = self._total, action in self._seen.admissible
        with self._mine():
            self._move(action)
        self._actions.append(action)
        return Transition(self._seen, self._total - before, self._done, valid)

    @contextmanager
    def _mine(self) -> Iterator[None]:
        """The turn to touch the game, which stands as this episode left it."""
        with _turn_of(self._game, self) as disturbed:
            if disturbed:
                self._begin()
                for action in self._actions:
                    self._move(action)
            yield

    def _move(self, action: str) -> None:
        assert self._simulator is not None
        said = json.loads(self._simulator.call("stepJSON", action))
        if action in self._seen.admissible and self._ground is not None:
            self._ground.note(action, self._said["look"], said["look"])
        self._said = said
        self._seen = self._read(said)

    def score(self) -> float:
        """The engine's score, 0..1; a failed task's is below 0 there and 0 here."""
        return self._total

    def facts(self) -> list[str]:
        """Where the player stands, and what is known of the rooms seen so far, sorted."""
        if self._ground is None:
            return [f"score {self._total:g}"]
        with self._mine():
            return sorted({f"player in {_room(self._said['look'])}", *self._ground.facts()})

    def walkthrough(self) -> list[str]:
        """A gold path: `params.plan`, else the engine's own, asked for once."""
        plan = params.texts(self._task, "plan")
        if plan is not None:
            return plan
        options = tuple(sorted(self._task.params.get("options", {}).items()))
        fold = params.choice(self._task, "fold", FOLDS, self._task.split)
        return list(_gold(self._game, options, fold, self._task.seed))

    def close(self) -> None:
        """Lets go of the simulator."""
        if self._simulator is not None:
            self._simulator.close()


# What a shipped game is made with; the rest is the engine's default. Gold paths fit into 50 steps.
OPTIONS: Mapping[str, Mapping[str, int]] = {
    "cookingworld": {
        "numLocations": 4, "numIngredients": 2, "numDistractorItems": 4, "includeDoors": 0,
        "limitInventorySize": 0,
    },
    "twc": {"numLocations": 3, "numItemsToPutAway": 3, "includeDoors": 0, "limitInventorySize": 0},
    "coin": {"numLocations": 6, "numDistractorItems": 4, "includeDoors": 1, "limitInventorySize": 0},
    "mapreader": {
        "numLocations": 8, "maxDistanceApart": 4, "maxDistractorItemsPerLocation": 2, "includeDoors": 0,
        "limitInventorySize": 0,
    },
    "arithmetic": {}, "sorting": {}, "simonsays": {}, "peckingorder": {},
}  # fmt: skip
COUNTS: Mapping[str, int] = {"train": 12, "dev": 4, "test": 12}
FIRST: Mapping[str, int] = {"train": 0, "dev": 10_000, "test": 20_000}  # the package's own seeds of a fold


def rows() -> Iterator[dict[str, Any]]:
    """The shipped task set `textworld-express`: every game in every fold, a seed a task. Needs the engine.

    The gold path of `coin` differs from call to call: `tasks/textworld-express.jsonl` holds one recorded.
    """
    for game, options in OPTIONS.items():
        for fold, count in COUNTS.items():
            for seed in range(FIRST[fold], FIRST[fold] + count):
                given: dict[str, Any] = {"type": game, "game": game, "options": dict(options), "fold": fold}
                task = Task("row", "textworld-express", "", seed, given)
                with _turn_of(game, None):
                    simulator, _ = _begun(task, game == "coin")
                if game == "coin":
                    given["plan"] = simulator.texts("getGoldActionSequence")
                goal = " ".join(simulator.call("getTaskDescription").split())
                simulator.close()
                yield {"env": "textworld-express", "goal": goal, "seed": seed, "params": given, "split": fold}
