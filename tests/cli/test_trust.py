"""trust: a run from elsewhere runs no code and calls no server before the user says so."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from roleagent_lite.cli import trust
from roleagent_lite.config import RunConfig, dump_toml, from_mapping
from roleagent_lite.errors import ConfigError
from roleagent_lite.store import Event, Run
from tests.cli.conftest import Inside
from tests.cli.make import clear, toy_tasks
from tests.fake_server import FakeServer


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


EVIL = (
    "from pathlib import Path\nPath('imported').touch()\ndef agent(view, prompts, ask): return 'take key'\n"
)
ROW = '{"env": "evil:Env", "goal": "g"}\n'


def foreign(tmp_path: Path, **settings: object) -> Path:
    """An interrupted evaluation of somebody else, with a module beside it."""
    (tmp_path / "evil.py").write_text(EVIL + "Env = agent\n")
    (tmp_path / "evil.jsonl").write_text(
        "".join(ROW.replace('"g"', f'"g{i}", "split": "{s}"') for i, s in enumerate(("train", "dev", "test")))
    )
    path = tmp_path / "runs" / "theirs"
    with Run.create(path, from_mapping({"model": "openai/gpt-x", **settings})) as run:
        run.record("start", "start", {"counts": {"train": 0, "dev": 0, "test": 1}})
        run.dispatched.put(Event("k", "call", {}))
    return path


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"agent": "evil:agent"}, "the agent evil:agent"),
        ({"tasks": "evil.jsonl"}, "the environment evil:Env (named in evil.jsonl)"),
        ({"limits": {"base_url": "http://me:pw@evil.example/v1"}}, "the server http://evil.example/v1"),
        ({"models": {"judge": "x@http://evil.example"}}, "the server http://evil.example"),
        ({"limits": {"base_url": "evil.example:80"}}, "the server"),
        ({"model": "embedded:hf:evil/model"}, "the model hf:evil/model"),
        ({"aiw": {"embedder": "hf:evil/encoder"}}, "the embedder hf:evil/encoder"),
        ({"limits": {"api_key_env": "AWS_SECRET_ACCESS_KEY"}}, "the key in AWS_SECRET_ACCESS_KEY"),
    ],
)
@pytest.mark.parametrize(
    "words", [("eval", "--resume", "--run", "theirs"), ("eval", "theirs"), ("evolve", "--replay", "theirs")]
)
def test_a_run_from_elsewhere_is_refused_before_anything_is_imported(
    settings: dict[str, object], word: str, words: tuple[str, ...], inside: Inside, tmp_path: Path
) -> None:
    foreign(tmp_path, **settings)
    clear(inside(*words), 2, "was not begun by you on this machine", word, "--trust")
    assert not (tmp_path / "imported").exists()
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["theirs"]


def test_a_run_that_names_nothing_needs_no_trust(tmp_path: Path) -> None:
    trust.vet(foreign(tmp_path, tasks="household-easy"), {}, False)


def test_what_the_command_line_names_is_the_users_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = foreign(
        tmp_path, agent="evil:agent", tasks="evil.jsonl", limits={"base_url": "http://evil.example"}
    )
    with pytest.raises(ConfigError, match=r"evil:Env .*; the server"):
        trust.vet(run, {"agent": "generate", "tasks": None}, False)
    with pytest.raises(ConfigError, match="environment"):
        trust.vet(run, {"agent": "evil:agent", "base_url": "http://mine"}, False)
    trust.vet(run, {"agent": "generate", "tasks": "household-easy", "base_url": "http://mine"}, False)
    trust.vet(run, {}, True)


def test_settings_begun_here_are_known_wherever_the_run_lies(tmp_path: Path, state: Path) -> None:
    run = foreign(tmp_path, agent="evil:agent")
    assert not trust.begun_here(run)
    trust.remember(run)
    trust.remember(run)
    trust.vet(run, {}, False)
    assert len((state / "roleagent-lite" / "begun").read_text().split()) == 1
    moved = tmp_path / "moved"
    shutil.move(run, moved)
    trust.vet(moved, {}, False)
    (moved / "config.toml").write_text(
        (moved / "config.toml").read_text().replace("evil:agent", "evil:other")
    )
    with pytest.raises(ConfigError, match="evil:other"):
        trust.vet(moved, {}, False)


def test_without_a_place_for_the_list_a_run_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    run = foreign(tmp_path, agent="evil:agent")
    trust.remember(run)
    assert not trust.begun_here(run)


def test_a_home_of_its_own_without_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    trust.remember(foreign(tmp_path))
    assert (tmp_path / "home/.local/state/roleagent-lite/begun").is_file()


def test_code_is_told_before_it_runs_and_ones_own_run_resumes(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl")
    (tmp_path / "mine.py").write_text("def agent(view, prompts, ask): return 'take key'\n")
    with FakeServer() as fake:
        words = (
            "eval",
            "--tasks",
            "t.jsonl",
            "--agent",
            "mine:agent",
            "--model",
            "fake",
            "--base-url",
            fake.url,
        )
        done = inside(*words, "--run", "mine")
    assert done.returncode == 0, done.stderr
    said = "runs Python code: the agent mine:agent; the environment tests.toy:Toy (named in t.jsonl)"
    assert said in done.stderr
    assert trust.begun_here(tmp_path / "runs" / "mine")
    again = inside("eval", "--resume", "--run", "mine")
    assert again.returncode == 0, again.stderr


def test_code_of_knows_what_is_code(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"

    def code(*rows: str) -> list[str]:
        file.write_text("".join(f'{{"goal": "g", {row}}}\n' for row in rows))
        return trust.code_of(RunConfig(tasks=str(file)))

    assert code('"env": "household"') == []
    assert code('"env": "household:alfworld"') == []
    assert len(code('"env": "household:alfworld", "params": {"game": "/tmp/x"}')) == 1
    assert len(code('"env": "gym:Blackjack-v1"', '"env": "a.b:C"', '"env": "a.b:C", "seed": 1')) == 2
    assert trust.code_of(RunConfig(tasks=str(tmp_path / "none"))) == []
    assert trust.code_of(RunConfig(agent="a:b")) == ["the agent a:b"]


def test_tasks_check_tells_what_it_imports(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 1)
    told = "runs Python code: the environment tests.toy:Toy (named in t.jsonl)"
    assert told in inside("tasks", "check", "t.jsonl").stderr
    assert told not in inside("tasks", "check", "t.jsonl", "--no-env").stderr


@pytest.mark.parametrize(
    "words",
    [("runs",), ("show", "theirs"), ("show", "theirs", "list"), ("export", "theirs"), ("share", "theirs")],
)
def test_reading_a_run_imports_and_calls_nothing(
    words: tuple[str, ...], inside: Inside, tmp_path: Path
) -> None:
    with FakeServer() as fake:
        foreign(tmp_path, agent="evil:agent", tasks="evil.jsonl", limits={"base_url": fake.url})
        inside(*words)
        assert fake.count == 0 and not fake.others
    assert not (tmp_path / "imported").exists()
    assert "evil" not in sys.modules
    assert not os.path.lexists(tmp_path / "state")


def test_the_saved_settings_are_what_counts(tmp_path: Path) -> None:
    """Equal settings, equal digest: whoever writes them out again has what the user once chose."""
    run = foreign(tmp_path, agent="evil:agent")
    trust.remember(run)
    (run / "config.toml").write_text(dump_toml(Run.open(run).config))
    assert trust.begun_here(run)


def test_the_program_of_a_task_file_is_started_only_for_a_run_that_is_ones_own_or_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from roleagent_lite.envs import mcp

    monkeypatch.setattr(mcp, "_allowed", set())
    monkeypatch.chdir(tmp_path)
    path = foreign(tmp_path, tasks="evil.jsonl")
    (tmp_path / "evil.jsonl").write_text('{"env": "mcp:rm -rf things", "goal": "g", "split": "test"}\n')
    with pytest.raises(ConfigError, match="the environment mcp:rm -rf things"):
        trust.vet(path, {}, False)
    assert mcp._allowed == set()
    trust.vet(path, {}, True)
    assert mcp._allowed == {"mcp:rm -rf things"}
    mcp._allowed.clear()
    trust.remember(path)
    trust.vet(path, {}, False)
    assert mcp._allowed == {"mcp:rm -rf things"}


def test_worlds_that_read_files_or_ask_a_server_are_not_called_code(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    worlds = (
        "webshop:shop",
        "search:c.jsonl",
        "search:http://127.0.0.1:9/retrieve",
        "mcp:http://127.0.0.1:9/mcp",
    )
    file.write_text("".join(f'{{"goal": "g", "env": "{env}"}}\n' for env in worlds))
    told: list[str] = []
    trust.announce(RunConfig(tasks=str(file)), told.append)
    assert told == []
    file.write_text(file.read_text() + '{"goal": "g", "env": "mcp:python server.py"}\n')
    trust.announce(RunConfig(tasks=str(file)), told.append)
    assert told == [f"runs Python code: the environment mcp:python server.py (named in {file})"]
    assert (
        len(trust.code_of(RunConfig(tasks=str(file)))) == 5
    )  # of another's run each of them asks for --trust
