"""Finding environments: ours, by import path (also from the current directory), entry points, near misses."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.envs.household.env import Household
from roleagent_lite.envs.registry import EnvSpec, known, load_factory, make, register, spec, spec_of
from roleagent_lite.errors import ConfigError, EnvironmentFault
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Environment, Observation, Task, Transition

TOY = '''
"""A user's environment."""
from roleagent_lite.types import Observation, Transition

class Toy:
    def __init__(self, task):
        self.word, self.done = task.params.get("word", "key"), False

    def observe(self):
        return Observation(f"a {self.word}", (f"take {self.word}", "wait"))

    def step(self, action):
        self.done = action == f"take {self.word}"
        return Transition(self.observe(), float(self.done), self.done)

    def score(self):
        return float(self.done)

class Sized(Toy):
    max_steps, history, vocabulary = 7, 4, "take X; wait"
    def facts(self):
        return []
    snapshot = restore = facts

class PerTask(Toy):
    @staticmethod
    def max_steps(task):
        return task.params["n"]

number = 3

def late(task):
    import toy_late
    return toy_late.Toy(task)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a user's module; imports are undone afterwards."""
    for name in ("toy_env", "toy_late"):
        (tmp_path / f"{name}.py").write_text(TOY)
    (tmp_path / "toy_broken.py").write_text("raise RuntimeError('no server')")
    (tmp_path / "toy_needs.py").write_text("import surely_missing_module")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registry, "_registered", {})
    for name in ("toy_env", "toy_late", "toy_broken", "toy_needs"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_household() -> None:
    found = spec("household")
    assert (found.name, found.history, found.facts, found.snapshots) == ("household", 2, True, True)
    assert "go to RECEPTACLE" in found.vocabulary
    task = load_tasks("household-easy")[0]
    assert found.max_steps(task) == 8
    env = make(task)
    assert isinstance(env, Household) and isinstance(env, Environment)


def test_the_original_is_listed() -> None:
    assert {"household", "household:alfworld"} <= set(known())
    assert spec("household:alfworld").history == 2


def test_a_users_class_in_the_current_directory(folder: Path) -> None:
    task = Task("t", "toy_env:Toy", "take it", params={"word": "pen"})
    env = make(task)
    assert env.observe() == Observation("a pen", ("take pen", "wait"))
    assert env.step("take pen") == Transition(Observation("a pen", ("take pen", "wait")), 1.0, True)
    assert env.score() == 1.0
    env.close()
    found = spec("toy_env:Toy")
    assert (found.max_steps(task), found.history, found.vocabulary, found.facts) == (30, 2, "", False)


def test_what_a_class_says_of_itself(folder: Path) -> None:
    task = Task("t", "toy_env:Sized", "g", params={"n": 9})
    found = spec("toy_env:Sized")
    assert (found.max_steps(task), found.history, found.vocabulary) == (7, 4, "take X; wait")
    assert found.facts and found.snapshots
    assert spec("toy_env:PerTask").max_steps(task) == 9


@pytest.mark.parametrize("wrong", [0, -3, "9", 2.5, True, None])
def test_wrong_max_steps(folder: Path, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="environment toy_env:PerTask: max_steps must be a positive"):
        spec("toy_env:PerTask").max_steps(Task("t", "x", "g", params={"n": wrong}))


def test_a_module_may_import_its_neighbours_later(folder: Path) -> None:
    env = make(Task("t", "toy_env:late", "g"))
    assert env.observe().text == "a key"


def test_the_current_directory_comes_first_only_while_importing(folder: Path) -> None:
    before = list(sys.path)
    load_factory("toy_env:Toy")
    assert sys.path in (before, [*before, str(folder)])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hosehold", "no environment 'hosehold'; did you mean 'household'"),
        ("zzz", "no environment 'zzz'; known: .*household, household:alfworld"),
        ("", "no environment ''"),
        ("a b:c", "no environment 'a b:c'"),
        ("toy_env:", "no environment 'toy_env:'"),
        (":Toy", "no environment ':Toy'"),
        ("../x:Toy", "no environment"),
        ("surely_missing:Toy", "cannot import environment module 'surely_missing': no such module"),
        ("toy_env.inner:Toy", "cannot import environment module 'toy_env.inner'"),
        ("toy_env:Tyo", "module 'toy_env' has no 'Tyo'; did you mean 'Toy'"),
        ("toy_env:number", "toy_env:number is int, not a class or function"),
        ("toy_broken:Toy", r"it raised RuntimeError\('no server'\) when imported"),
        ("toy_needs:Toy", "it raised ModuleNotFoundError"),
    ],
)
def test_names_that_lead_nowhere(folder: Path, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        spec(name)


def test_a_class_that_is_no_environment(folder: Path) -> None:
    (folder / "toy_env.py").write_text("class Toy:\n    def __init__(self, task): pass\n")
    with pytest.raises(EnvironmentFault, match=r"toy_env:Toy made Toy, which lacks observe\(\)"):
        make(Task("t", "toy_env:Toy", "g"))


def test_registering_in_code(folder: Path) -> None:
    class Here:
        max_steps = 2

        def __init__(self, task: Task) -> None:
            self.task = task

        def observe(self) -> str:
            return self.task.goal

        def step(self, action: str) -> tuple[str, float, bool]:
            return "done", 1.0, True

        def score(self) -> float:
            return 1.0

    register(spec_of("here", Here))
    task = Task("t", "here", "go")
    assert make(task).observe() == Observation("go")
    assert make(task).step("x") == Transition(Observation("done"), 1.0, True)
    assert spec("here").max_steps(task) == 2
    assert "here" in known()
    register(EnvSpec("here", Household, lambda task: 5))
    assert spec("here").max_steps(task) == 5


def test_each_world_is_asked_once_whether_it_is_ready(folder: Path) -> None:
    asked = []
    for name in ("one", "two"):
        register(EnvSpec(name, Household, lambda task: 1, ready=lambda name=name: asked.append(name)))  # type: ignore[misc]
    tasks = [Task(str(n), name, "g") for n, name in enumerate(("two", "one", "two", "toy_env:Toy"))]
    registry.ready(tasks)
    assert asked == ["two", "one"]
    with pytest.raises(ConfigError, match="no environment 'nowhere'"):
        registry.ready([*tasks, Task("t", "nowhere", "g")])


def test_tasks_are_checked_by_our_worlds_alone(folder: Path) -> None:
    registry.check(load_tasks("household-easy")[0])
    with pytest.raises(ConfigError, match=r"params\.type is 'nope'"):
        registry.check(Task("t", "shell", "g", params={"type": "nope"}))
    with pytest.raises(ConfigError, match=r"params\.max_steps"):
        registry.check(Task("t", "shell", "g", params={"max_steps": 0}))
    for name in ("toy_broken:Toy", "nowhere"):  # told later: nothing of a stranger's is imported for this
        registry.check(Task("t", name, "g"))
    assert "toy_broken" not in sys.modules


def test_every_world_has_a_page() -> None:
    pages = Path(__file__).parents[2] / "docs" / "worlds"
    table = (pages / "README.md").read_text(encoding="utf-8")
    for name in (*registry._OWN, *registry._FAMILIES):
        assert f"`{name}" in table, name
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", table))
    assert linked == {path.name for path in pages.glob("*.md")} - {"README.md"}


def test_which_worlds_list_actions() -> None:
    free = {"search", "shell", "scienceworld", "appworld", "mcp:http://127.0.0.1:1/mcp", "verifiers:x"}
    for name in {*registry._OWN, *free}:
        assert registry.listed([Task("t", name, "g")]) == (name not in free), name
    assert registry.listed([]) and registry.listed([Task("t", "no_such_module:Class", "g")])


def test_what_a_step_shows_is_known_by_world() -> None:
    """Roughly, for estimates: the functions of `tools` take some 1,900 tokens, a house few."""
    house, calls = Task("a", "household", "g"), Task("b", "tools", "g")
    assert registry.shown([house]) == 200
    assert registry.shown([calls]) > 5 * registry.shown([house])
    assert registry.shown([house, calls]) == (200 + registry.shown([calls])) / 2
    assert registry.shown([]) == 0


def test_our_names_are_taken(folder: Path) -> None:
    with pytest.raises(ConfigError, match="'household' is taken"):
        register(EnvSpec("household", Household, lambda task: 1))


def test_entry_points(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = metadata.EntryPoint("toyland", "toy_env:Sized", registry.GROUP)
    asked = []

    def points(group: str) -> list[metadata.EntryPoint]:
        asked.append(group)
        return [point]

    monkeypatch.setattr(metadata, "entry_points", points)
    assert "toyland" in known()
    assert spec("toyland").max_steps(Task("t", "toyland", "g")) == 7
    assert make(Task("t", "toyland", "g")).observe().text == "a key"
    assert set(asked) == {"roleagent_lite.environments"}
    with pytest.raises(ConfigError, match="did you mean 'toyland'"):
        spec("toylnad")
