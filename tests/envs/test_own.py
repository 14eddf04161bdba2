"""Tasks of an environment named on the command line: its own, a file's, or one a seed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.content import room
from roleagent_lite.envs import own, registry
from roleagent_lite.envs.registry import EnvSpec, spec_of
from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Task
from tests.toy import Toy


def known(name: str, **attributes: Any) -> str:
    """A copy of Toy under a name, with attributes of its own."""
    registry.register(spec_of(name, type("Copy", (Toy,), attributes)))
    return name


def test_a_seed_a_task_where_the_class_brings_none(tmp_path: Path) -> None:
    name = known("own-seeds", goal="Leave the hall.")
    tasks = load_tasks(own.write_tasks(name, tmp_path / "t.jsonl"))
    assert Counter(t.split for t in tasks) == {"train": 40, "dev": 12, "test": 24}
    assert len({t.seed for t in tasks}) == len(tasks) == 76
    assert {(t.env, t.goal) for t in tasks} == {(name, "Leave the hall.")}
    assert own.rows_of(known("own-nogoal"))[0]["goal"] == own.GOAL


@pytest.mark.parametrize(
    "given",
    [
        lambda: ["a", "b", "c", "d", "e"],
        lambda: [{"goal": g} for g in "abcde"],
        lambda: iter([{"goal": g, "seed": 1} for g in "abcde"]),
    ],
)
def test_its_own_tasks_are_dealt_to_the_splits(tmp_path: Path, given: Any) -> None:
    name = known("own-tasks", tasks=staticmethod(given))
    tasks = load_tasks(own.write_tasks(name, tmp_path / "t.jsonl"))
    assert [(t.goal, t.split) for t in tasks] == [
        ("a", "train"), ("b", "dev"), ("c", "test"), ("d", "train"), ("e", "train"),
    ]  # fmt: skip
    assert {t.env for t in tasks} == {name}


def test_splits_that_are_named_stay(tmp_path: Path) -> None:
    rows = [Task("x", "other", "g", split="test"), Task("y", "other", "h", 3, {"a": 1}, "dev")]
    name = known("own-split", tasks=staticmethod(lambda: rows))
    found = own.rows_of(name)
    assert [(r["id"], r["env"], r["split"]) for r in found] == [("x", name, "test"), ("y", name, "dev")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "gives none"),
        ([3, 4, 5], "entry 1 of tasks() is int"),
        (["a", "b"], "2 tasks cannot be dealt"),
        ([{"goal": "a", "split": "dev"}, {"goal": "b"}, {"goal": "c"}], "1 of 3 tasks name their split"),
    ],
)
def test_tasks_that_cannot_be_used_are_refused(given: list[Any], said: str) -> None:
    name = known("own-bad", tasks=staticmethod(lambda: given))
    with pytest.raises(ConfigError) as caught:
        own.rows_of(name)
    assert said in str(caught.value)


def test_a_file_gets_the_environments_name(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"goal": g, "params": {"n": 1}}) + "\n" for g in "abc"))
    rows = own.rows_of(known("own-file"), str(file))
    assert [(r["goal"], r["env"], r["params"]) for r in rows] == [(g, "own-file", {"n": 1}) for g in "abc"]
    file.write_text("[]\n")
    with pytest.raises(ConfigError, match="is list; expected an object"):
        own.rows_of("own-file", str(file))


def test_what_is_wrong_in_a_file_is_told_with_its_own_name_and_lines(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(
        '\ufeff{"goal": "a"}\n\n3\n{"gaol": "b"}\n\n{"goal": "c", "seed": "1"}\n', encoding="utf-8"
    )
    with pytest.raises(ConfigError) as caught:
        own.rows_of(known("own-lines"), str(file))
    said = str(caught.value).splitlines()
    assert said[0].startswith(f"task file {file} cannot be used")
    assert said[1].startswith("  line 3: it is int; expected an object with goal")
    assert said[2].startswith("  line 4: needs goal; has gaol, env")
    assert said[3].startswith("  line 6: seed must be a whole number, found")
    file.write_text('{"goal": "a"}\n\n{"goal": "a"}\n{"goal": "b"}\n')
    with pytest.raises(ConfigError, match=r"mine\.jsonl: lines 1 and 3 have the same id"):
        own.rows_of("own-lines", str(file))


def test_the_file_is_written_once(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "t.jsonl"
    own.write_tasks(known("own-once"), target)
    before = target.stat().st_mtime_ns
    own.write_tasks("own-once", target)
    assert target.stat().st_mtime_ns == before
    assert [p.name for p in target.parent.iterdir()] == ["t.jsonl"]
    with pytest.raises(ConfigError, match="holds other tasks than environment own-else gives now"):
        own.write_tasks(known("own-else", goal="Another."), target)
    assert len(load_tasks(target)) == 76


def test_no_seed_is_in_two_splits() -> None:
    seeds = [s for numbers in own.SEEDS.values() for s in numbers]
    assert len(seeds) == len(set(seeds))


def test_a_shipped_set_stands_for_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.register(EnvSpec("own-shipped", Toy, lambda task: 3, task_set="household-easy"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "household-easy").write_text("[]")  # a file of that name here is another's
    rows = own.rows_of("own-shipped")
    shipped = load_tasks(room("tasks") / "household-easy.jsonl")
    assert [(r["goal"], r["split"]) for r in rows] == [(t.goal, t.split) for t in shipped]
    assert {r["env"] for r in rows} == {"own-shipped"}


def test_where_nothing_can_be_played_without_a_file_it_is_asked_for() -> None:
    registry.register(EnvSpec("own-empty", Toy, lambda task: 3, wants="question and answer"))
    with pytest.raises(
        ConfigError, match=r"own-empty has no tasks of its own: .* --tasks FILE, .* question and"
    ):
        own.rows_of("own-empty")


def test_spec_without_tasks_is_what_registration_gave() -> None:
    spec = EnvSpec("plain", Toy, lambda task: 3)
    assert (spec.tasks, spec.goal, spec.blocking) == (None, "", False)


def _raises() -> list[str]:
    raise ValueError("no file")


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (staticmethod(_raises), "tasks\\(\\) raised ValueError: no file$"),
        (
            lambda self: ["a"],
            "tasks\\(\\) raised TypeError: .*'self'; it is called without arguments: a static",
        ),
        (staticmethod(lambda: None), "tasks\\(\\) gives NoneType; expected a list of tasks"),
        (staticmethod(lambda: "abc"), "tasks\\(\\) gives str; expected a list of tasks"),
        (staticmethod(lambda: {"goal": "a"}), "tasks\\(\\) gives dict; expected a list of tasks"),
        (
            staticmethod(lambda: [{"id": "a", "goal": g} for g in "xyz"]),
            "\\(tasks\\(\\) of own-wrong\\): lines 1 and 2 have the same id 'a'",
        ),
    ],
)
def test_tasks_that_are_none_are_told_as_the_classs_own(tasks: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        own.rows_of(known("own-wrong", tasks=tasks))
