"""The household Environment: one task, one episode, on the light engine.

`Task.params` holds a compact layout (our own rows) or {"game": path} (a `game.tw-pddl` of the user's). Leaves
out step limits, which are the rollout's (`limit` says how many a task allows).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from roleagent_lite.envs import params
from roleagent_lite.envs.household.engine import Engine, Snapshot
from roleagent_lite.envs.household.game import TASK_TYPES, Game, game_from_row
from roleagent_lite.envs.household.hindsight import reached
from roleagent_lite.envs.household.oracle import walkthrough
from roleagent_lite.envs.household.problem import load_game, read_json, read_sentence
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.types import Observation, Split, Task, Transition

LIMITS = {"easy": 8, "medium": 20, "full": 50}
FULL_LIMIT = 50
SPLITS: dict[str, Split] = {"train": "train", "valid_seen": "dev", "valid_unseen": "test"}

VOCABULARY = (
    "look; inventory; go to RECEPTACLE; open RECEPTACLE; close RECEPTACLE; take OBJECT from RECEPTACLE; "
    "move OBJECT to RECEPTACLE; examine RECEPTACLE or OBJECT; use LAMP; clean OBJECT with SINKBASIN; "
    "heat OBJECT with MICROWAVE; cool OBJECT with FRIDGE; slice OBJECT with KNIFE"
)


@lru_cache(maxsize=256)
def _load(path: str, changed: int) -> Game:
    """A game file is parsed once for all its rollouts; `changed` makes an edited file another one."""
    return load_game(path)


def game_of(task: Task) -> Game:
    """The game a task names. Raises ConfigError."""
    file = _file(task)
    return game_from_row(task.goal, task.params) if file is None else _load(*file)


def _file(task: Task) -> tuple[str, int] | None:
    """Path of the game file that a task names, and when it was changed; None for a row of ours."""
    path = task.params.get("game")
    if path is None:
        return None
    if not isinstance(path, str):
        raise ConfigError(f"task {task.id}: params.game must be a path, found {type(path).__name__}")
    try:
        return path, Path(path).stat().st_mtime_ns
    except (OSError, ValueError) as error:
        raise ConfigError(f"task {task.id}: cannot read the game file {path}: {error}") from None


def plan_of(game: Game) -> list[str]:
    """A winning plan from the start. Raises ConfigError where there is none."""
    plan = walkthrough(game)
    if plan is None:
        raise ConfigError("this household game cannot be won")
    return plan


def check(task: Task) -> None:
    """Raises ConfigError for a row that is no game, or a game file that is not there; reads no file."""
    if _file(task) is None:
        game_from_row(task.goal, task.params)


def limit(task: Task) -> int:
    """Steps an episode may have: params.max_steps, else by tier (easy 8, medium 20, full and files 50)."""
    return params.steps(task, LIMITS.get(str(task.params.get("tier")), FULL_LIMIT))


class Household:
    """An Environment with `facts`, `snapshot`, `restore` and the oracle's `walkthrough`.

    The task's seed changes nothing: a task names one game, and the game is deterministic. The reward of a
    step is the change of the score, so that an episode's rewards sum to its score.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.game = game_of(task)
        self.engine = Engine(self.game)
        self._text = self.engine.surroundings()
        self._score = self.engine.score

    def observe(self) -> Observation:
        """The last observation; at the start the room, without banner and task (that is `Task.goal`)."""
        return Observation(self._text, tuple(self.engine.admissible()), self.engine.state_key())

    def step(self, action: str) -> Transition:
        self._text, valid = self.engine.step(action)
        before, self._score = self._score, self.engine.score
        return Transition(self.observe(), float(self._score - before), self.engine.won, valid)

    def score(self) -> float:
        """1.0 while the goal holds, else 0.0."""
        return float(self.engine.score)

    def facts(self) -> list[str]:
        """All true facts in readable names, sorted."""
        return self.engine.facts()

    def snapshot(self) -> tuple[str, int, Snapshot]:
        return self._text, self._score, self.engine.snapshot()

    def restore(self, snapshot: tuple[str, int, Snapshot]) -> None:
        self._text, self._score, state = snapshot
        self.engine.restore(state)

    def walkthrough(self) -> list[str]:
        """A winning plan from the start. Raises ConfigError where there is none."""
        return plan_of(self.game)

    def hindsight(self, actions: Sequence[str]) -> list[tuple[Task, tuple[str, ...]]]:
        """Other tasks of this room that these moves solve from the start: see `hindsight.reached`."""
        return reached(self.task, actions)

    def close(self) -> None:
        """Nothing to release."""


def _games(root: Path) -> Iterator[tuple[Path, str]]:
    """Playable game files under a folder, with their task types, in order of path."""
    for record in sorted(root.rglob("traj_data.json")):
        folder = str(record.parent.relative_to(root))
        game = record.with_name("game.tw-pddl")
        if "movable" in folder or "Sliced" in folder or not game.is_file():
            continue
        data = read_json(record)
        kind = data.get("task_type") if isinstance(data, dict) else None
        if isinstance(kind, str) and kind in TASK_TYPES:
            yield game, kind


def alfworld_tasks(root: str | Path, split: str) -> list[Task]:
    """Tasks of a user's ALFWorld tree (`$ALFWORLD_DATA` or its `json_2.1.1`), one split of it.

    split: train, valid_seen or valid_unseen, or ours: train, dev, test. As ALFWorld itself does, folders
    with "movable" or "Sliced" in their name, other task types and games not marked solvable are skipped. Ids
    are the folders' names. Raises ConfigError where nothing playable lies there.
    """
    ours = {"dev": "valid_seen", "test": "valid_unseen"}
    name = ours.get(split, split)
    if name not in SPLITS:
        raise ConfigError(f"no ALFWorld split '{split}'{nearest(split, SPLITS)}")
    candidates = [Path(root) / name, *sorted(Path(root).glob(f"json_*/{name}"))]
    base = next((c for c in candidates if c.is_dir()), None)
    if base is None:
        raise ConfigError(
            f"no folder {name} in {root} nor in its json_* folders; give the folder that alfworld-download "
            "filled ($ALFWORLD_DATA)"
        )
    tasks = []
    for path, kind in _games(base):
        data = read_json(path)
        if not isinstance(data, dict) or data.get("solvable") is not True:
            continue
        grammar = data.get("grammar")
        goal = read_sentence(grammar if isinstance(grammar, str) else "")
        folder = path.parent.relative_to(base).as_posix()
        params = {"game": str(path), "tier": "full", "type": kind}
        tasks.append(Task(re.sub(r"[\s#]", "_", folder), "household", goal, 0, params, SPLITS[name]))
    if not tasks:
        raise ConfigError(f"no playable game.tw-pddl beside a traj_data.json in {base}")
    return tasks
