"""`env`: the list, an example written, one's own environment tried."""

from __future__ import annotations

import itertools
import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from roleagent_lite.cli import env
from roleagent_lite.envs import checker, registry
from roleagent_lite.envs.checker import Limit
from roleagent_lite.envs.registry import spec_of
from roleagent_lite.errors import ConfigError, EnvironmentFault
from roleagent_lite.types import Observation, Task, Transition
from tests.cli.make import cli
from tests.toy import Toy


class Guess:
    """Hides a number; `fair` False ignores the seed."""

    fair = True

    def __init__(self, task: Task) -> None:
        self.number = random.Random(task.seed).choice("123456") if self.fair else "3"
        self.done = False

    def observe(self) -> Observation:
        return Observation("Guess.", tuple("123456"))

    def step(self, action: str) -> Transition:
        self.done = action == self.number
        return Transition(self.observe(), float(self.done), self.done)

    def score(self) -> float:
        return float(self.done)


def checked(kind: type, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], int]:
    """The JSON that `env check` prints for a class, and the exit code."""
    registry.register(spec_of("cli-own", kind))
    code = 0
    try:
        env.command("check", "cli-own", json=True)
    except typer.Exit as left:
        code = left.exit_code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found, code


def test_a_sound_one(capsys: pytest.CaptureFixture[str]) -> None:
    found, code = checked(Guess, capsys)
    assert (found["problems"], code) == ([], 0)
    assert found["tried"] == {"train": 3, "dev": 3, "test": 3}
    assert found["example"]["env"] == "cli-own"


def test_an_ignored_seed_is_a_note_where_the_tasks_are_made_by_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unfair = type("Unfair", (Guess,), {"fair": False})
    found, code = checked(unfair, capsys)
    assert (found["problems"], code) == ([], 0)
    assert [p.split(":")[0] for p in found["notes"]] == ["the seed is ignored"]
    env.command("check", "cli-own")
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "no problems found" and said[2].startswith("note: the seed is ignored: 8 tasks")


def test_an_ignored_seed_is_a_problem_where_the_tasks_are_the_users_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.register(spec_of("cli-own", type("Unfair", (Guess,), {"fair": False})))
    file = tmp_path / "t.jsonl"
    file.write_text("".join(json.dumps({"goal": "guess", "seed": n}) + "\n" for n in range(5)))
    with pytest.raises(typer.Exit) as left:
        env.command("check", "cli-own", str(file), json=True)
    found = json.loads(capsys.readouterr().out)
    assert left.value.exit_code == 1 and found["notes"] == []
    assert [p.split(":")[0] for p in found["problems"]] == ["the seed is ignored"]


def test_a_check_that_takes_too_long_says_how_far_it_came(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(checker, "Limit", lambda: Limit(clock=lambda: float(next(seconds))))
    found, code = checked(Guess, capsys)
    assert (found["problems"], code) == ([], 0), "what was not looked at is no problem"
    (note,) = found["notes"]
    assert note.startswith("the check stopped after 30 s: ") and " of 9 tasks were tried" in note
    assert 1 <= sum(found["tried"].values()) < 9 and str(sum(found["tried"].values())) in note


class Hangs(Guess):
    def step(self, action: str) -> Transition:
        time.sleep(600)
        return super().step(action)


def test_a_step_that_never_comes_back_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checker, "Limit", lambda: Limit(0.2))
    monkeypatch.setattr(env, "GRACE", 0.2)
    before = signal.getsignal(signal.SIGALRM)
    found, code = checked(Hangs, capsys)
    assert code == 1 and len(found["problems"]) == 1
    assert found["problems"][0].startswith("task seed-0: step('") and "does not come back" in str(found)
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL) == (0, 0)


LOUD = """
import os, subprocess, sys
from tests.toy import Toy
print("imported")
class Loud(Toy):
    def __init__(self, task):
        super().__init__(task)
        print("a print")
        os.write(1, b"past Python\\n")
        print("to the first standard output", file=sys.__stdout__)
        subprocess.run(["echo", "of a program"], check=True)
"""


@pytest.mark.parametrize("what", ["env", "tasks"])
def test_what_an_environment_writes_does_not_reach_standard_output(what: str, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(LOUD, encoding="utf-8")
    row = {"env": "loud:Loud", "goal": "get out"}
    (tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    done = cli(what, "check", "loud:Loud" if what == "env" else "t.jsonl", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["problems"] == [], done.stdout
    for said in ("imported", "a print", "past Python", "to the first standard output", "of a program"):
        assert said in done.stderr


class Raises(Guess):
    def step(self, action: str) -> Transition:
        raise KeyError("lamp")


class Unlike(Guess):
    def observe(self) -> Observation:
        return Observation(str(random.random()))


class Empty(Guess):
    def observe(self) -> Observation:
        return Observation("")


class Endless(Guess):
    def step(self, action: str) -> Transition:
        return Transition(self.observe(), 0.0, False)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Raises, "raised KeyError"),
        (Unlike, "observe() called twice gives two things"),
        (Empty, "gives an empty text"),
        (Endless, "done was never True"),
    ],
)
def test_what_is_wrong_is_said(kind: type, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, code = checked(kind, capsys)
    assert code == 1
    assert any(said in problem for problem in found["problems"]), found["problems"]


def test_the_same_complaint_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = checked(Empty, capsys)
    assert len(found["problems"]) == 1


def test_new_and_its_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env.command("new", "cellar", to=tmp_path)
    assert "try it: roleagent-lite env check cellar:Cellar" in capsys.readouterr().out
    assert (tmp_path / "cellar.py").is_file() and (tmp_path / "test_cellar.py").is_file()


def test_the_list_names_ours_and_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    env.command(json=True)
    found = {e["name"]: e for e in json.loads(capsys.readouterr().out)}
    assert found["household"]["facts"] and found["household"]["snapshots"]
    env.command()
    assert "household" in capsys.readouterr().out


def test_a_file_of_tasks_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    registry.register(spec_of("cli-own", Toy))
    file = tmp_path / "t.jsonl"
    file.write_text("".join(json.dumps({"goal": f"task {n}"}) + "\n" for n in range(5)))
    env.command("check", "cli-own", str(file), json=True)
    assert json.loads(capsys.readouterr().out)["splits"] == {"train": 3, "dev": 1, "test": 1}


def test_other_words_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'check'"):
        env.command("chek", "x")
    with pytest.raises(ConfigError, match="env new needs a name"):
        env.command("new")
    with pytest.raises(ConfigError, match="did you mean 'household'"):
        env.command("check", "househld")
    with pytest.raises(ConfigError, match=r"no environment 'nosuch'; known: .*household") as refused:
        env.command("check", "nosuch")
    assert "did you mean" not in str(refused.value)


def test_a_world_that_cannot_begin_says_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    rows = [{"question": f"Who {n}?", "golden_answers": ["Ada"]} for n in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(
        EnvironmentFault, match="does not answer; roleagent-lite search-server FILE starts one"
    ):
        env.check("search:http://127.0.0.1:9/retrieve", str(path))
    found = env.check(
        "search", str(path)
    )  # only an answer in its tags ends an episode, which chance never says
    assert found["problems"] == [] and found["tried"] == {"train": 1, "dev": 1, "test": 1}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_steps": 0}, "max_steps must be a positive whole number, found 0"),
        ({"max_steps": "5"}, "max_steps must be a positive whole number, found '5'"),
        ({"failure_modes": ["a"]}, 'failure_modes: {name: "when it applies"} is needed, found list'),
    ],
)
def test_attributes_that_would_end_a_run_are_told(given: dict[str, Any], said: str) -> None:
    registry.register(spec_of("attributes", type("Odd", (Toy,), given)))
    assert [p for p in env.check("attributes", None)["problems"] if p.endswith(said)]
