"""`env new NAME`: a small working environment with its test, for a user to change.

Owns the texts of the two files. The world is a cellar with a locked chest: seeded, with a plan of its own,
state keys and failure modes, so that every part of the protocol is seen once.
"""

from __future__ import annotations

import importlib.util
import keyword
import sys
import sysconfig
from pathlib import Path

from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError

_ENV = '''"""A text environment for roleagent-lite: a chest, its key, and the place where the key lies.

Try it:    roleagent-lite env check {module}:{name}
Use it:    roleagent-lite evolve --env {module}:{name}
"""

import random

from roleagent_lite.types import Observation, Transition

PLACES = ("shelf", "barrel", "crate", "basket", "bucket")


class {name}:
    """Made anew for each episode of a task. Everything random comes from the task's seed."""

    max_steps = 8
    goal = "Open the chest. The key lies in one of the places; a riddle says where."
    failure_modes = {{
        "wrong_place": "searched a place that the riddle rules out",
        "forgot_key": "tried the chest without the key in hand",
    }}

    @staticmethod
    def tasks():
        """Tasks by split. Without this method they would differ by seed alone, with `goal` as their goal."""
        seeds = {{"train": range(20), "dev": range(100, 108), "test": range(200, 212)}}
        return [
            {{"goal": {name}.goal, "seed": seed, "split": split}}
            for split, numbers in seeds.items()
            for seed in numbers
        ]

    def __init__(self, task):
        self.hidden = random.Random(task.seed).choice(PLACES)
        self.has_key = False
        self.is_open = False
        letter = self.hidden[0].upper()
        self.last = f"You stand in a cellar. On the chest is written: the key sleeps in the {{letter}}..."

    def observe(self):
        """What the agent sees. Asked twice, it says the same."""
        actions = tuple(f"search {{place}}" for place in PLACES) + ("open chest",)
        state = f"key={{self.has_key}} open={{self.is_open}}"  # equal key = same true state
        return Observation(self.last, actions, state)

    def step(self, action):
        """One action of the list. Rewards of an episode sum to its score."""
        if action == "open chest":
            self.is_open = self.has_key
            self.last = "The chest opens." if self.is_open else "The chest is locked."
        elif action == f"search {{self.hidden}}" and not self.has_key:
            self.has_key = True
            self.last = f"In the {{self.hidden}} you find a key and take it."
        else:
            self.last = "You find nothing."
        return Transition(self.observe(), reward=float(self.is_open), done=self.is_open)

    def score(self):
        """0 to 1; 1 = solved."""
        return float(self.is_open)

    def walkthrough(self):
        """A plan that solves the task, for `env check` and the oracle. Optional."""
        return [f"search {{self.hidden}}", "open chest"]

    def close(self):
        """Release what was opened. Optional."""
'''

_TEST = '''"""The test of {module}.py: what `roleagent-lite env check` says, and that the plan wins."""

from {module} import {name}

from roleagent_lite.envs.checker import check
from roleagent_lite.types import Task

FIRST, SECOND = (Task(str(seed), "{module}:{name}", {name}.goal, seed) for seed in (1, 2))


def test_the_checker_finds_nothing():
    assert check({name}, FIRST) == []


def test_the_same_seed_gives_the_same_episode():
    assert {name}(FIRST).observe() == {name}(FIRST).observe()
    assert {name}(FIRST).hidden == {name}(FIRST).hidden


def test_the_plan_solves_it():
    env = {name}(SECOND)
    for action in env.walkthrough():
        moved = env.step(action)
    assert moved.done
    assert env.score() == 1.0
'''


def names(given: str) -> tuple[str, str]:
    """(module, class) of a name such as `cellar`, `wine-cellar` or `WineCellar`. Raises ConfigError."""
    words = "".join(f"_{c.lower()}" if c.isupper() else c for c in given.replace("-", "_")).strip("_")
    module = "_".join(part for part in words.split("_") if part)
    if not module.isidentifier() or keyword.iskeyword(module) or not module.isascii():
        raise ConfigError(f"'{given}' cannot name a Python module; use letters, digits and _, a letter first")
    if module in sys.stdlib_module_names:  # the file would hide Python's own from every program in the folder
        raise ConfigError(f"'{given}' is the name of a module of Python's own; choose another")
    if registry.reserved(module):
        raise ConfigError(f"'{module}:...' is read as a world of this package; choose another name")
    if _installed(module):
        raise ConfigError(
            f"'{given}' is the name of an installed module, which the file would hide; choose another"
        )
    return module, "".join(part.capitalize() for part in module.split("_"))


def _installed(module: str) -> bool:
    """Whether a package of this installation is imported by that name."""
    found = importlib.util.find_spec(module)
    places = (*(found.submodule_search_locations or ()), found.origin or "") if found is not None else ()
    folders = tuple(sysconfig.get_path(key) for key in ("purelib", "platlib"))
    return module == "roleagent_lite" or any(place.startswith(folders) for place in places)


def write(given: str, folder: Path) -> tuple[Path, Path]:
    """Writes NAME.py and test_NAME.py into `folder`. Raises ConfigError where one is there already."""
    module, name = names(given)
    env, test = folder / f"{module}.py", folder / f"test_{module}.py"
    for path in (env, test):
        if path.exists():
            raise ConfigError(f"{path} is there already; choose another name, or move it away")
    folder.mkdir(parents=True, exist_ok=True)
    env.write_text(_ENV.format(module=module, name=name), encoding="utf-8")
    test.write_text(_TEST.format(module=module, name=name), encoding="utf-8")
    return env, test
