"""store: a run's directory survives a kill, a full disk and a second process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite import redact
from roleagent_lite.config import RunConfig, from_mapping
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.store import Event, Run
from roleagent_lite.types import Call, Message, Outcome, Reply, Request, Step, Trajectory


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(redact, "_secrets", set())
    yield


def trajectory(number: int, text: str = "You see a key.") -> Trajectory:
    steps = tuple(
        Step(observation=f"{text} {i}", action="take key", outcome=text, predictions=(text, None))
        for i in range(3)
    )
    return Trajectory(
        id=f"0/abcdefgh/t#{number}", task="t", prompt_set="abcdefgh", model="m", round=0, rollout=number,
        split="train", steps=steps, score=1.0, outcome=Outcome("solved"),
    )  # fmt: skip


def lines(path: Path) -> list[Any]:
    """Every line parsed; fails on half a line."""
    data = path.read_bytes()
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def test_res_05_a_run_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RoleAgentError, match=r"cannot write run directory .*/file/run: "):
        Run.create(tmp_path / "file" / "run", RunConfig())


def test_res_05_a_config_that_cannot_be_written_leaves_no_empty_one(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from roleagent_lite.config import RunConfig; from roleagent_lite.store import Run\n"
        "from roleagent_lite.errors import RoleAgentError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "try: Run.create(Path(sys.argv[1]), RunConfig())\n"
        "except RoleAgentError as error: print(error)"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "run")]
    found = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "cannot write " in found.stdout
    assert "config.toml" in found.stdout
    assert not (tmp_path / "run" / "config.toml").exists()
    Run.create(tmp_path / "run", RunConfig()).close()
    assert Run.open(tmp_path / "run").config == RunConfig()


def test_the_file_size_limit_of_this_process_is_untouched() -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_acc_07_no_key_reaches_a_file(tmp_path: Path) -> None:
    secrets = ["flag-key-123456", 'quo"ted-key\\1', "urlpass99", "100000"]
    for secret in secrets:
        redact.register(secret)
    config = from_mapping({"limits": {"base_url": "http://u:urlpass99@127.0.0.1/v1"}})
    shapes = "sk-live-abcdefghijklmnop\tAIzaabcdefghijklmnopqrstuvwxyz01234"
    echoed = f"401: Authorization: Bearer flag-key-123456\n{shapes}"
    request = Request("agent", "act", (Message("user", 'quo"ted-key\\1'),), max_tokens=100000)
    with Run.create(tmp_path / "run", config) as run:
        run.calls.put(Call("c", "m", "http://u:urlpass99@h", request, Reply(echoed)))
        run.trajectories.put(replace(trajectory(0), error=echoed))
        run.record("urlpass99", "note", {"urlpass99": [echoed]})
    for file in (tmp_path / "run").iterdir():
        text = file.read_text(encoding="utf-8")
        for secret in ["flag-key", "urlpass99", "sk-live", "AIza", "ted-key"]:
            assert secret not in text, file
    with Run.open(tmp_path / "run") as run:
        found = run.calls.get("c")
        assert found is not None
        assert found.request.max_tokens == 100000
        assert found.request.messages[0].content == "[key]"
        assert found.reply.text == "401: Authorization: Bearer [key]\n[key]\t[key]"
    with Run.create(tmp_path / "run", config):  # the same settings resume
        pass


# --- the run ------------------------------------------------------------------------------------------


def test_a_run_is_created_saved_and_opened(tmp_path: Path) -> None:
    config = from_mapping({"seed": 7, "tasks": "mine 🔑.jsonl"})
    with Run.create(tmp_path / "r1", config) as run:
        assert (run.name, run.status, run.torn) == ("r1", "new", {})
        assert run.record("draw/0", "draw", {"p": [0.5, 0.5]})
        assert not run.record("draw/0", "draw", {"p": [1.0]})
        run.trajectories.put(trajectory(0))
        assert run.status == "interrupted"
        run.record("finished", "finished", {})
        assert run.status == "finished"
    with Run.open(tmp_path / "r1") as run:
        assert run.config == config
        assert run.status == "finished"
        assert run.events.get("draw/0") == Event("draw/0", "draw", {"p": [0.5, 0.5]})
        assert list(run.trajectories) == [trajectory(0)]


def test_a_dispatched_episode_makes_a_run_interrupted(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", RunConfig()) as run:
        run.dispatched.put(Event("t#0", "dispatched", {}))
        assert run.status == "interrupted"


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no run at .*nowhere .no config.toml there.*roleagent-lite runs"):
        Run.open(tmp_path / "nowhere")


def test_torn_tables_are_reported_by_name(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", RunConfig()) as run:
        run.trajectories.put(trajectory(0))
    with (tmp_path / "r" / "trajectories.jsonl").open("ab") as out:
        out.write(b'{"v":')
    with Run.create(tmp_path / "r", RunConfig()) as run:
        assert run.torn == {"trajectories": 5}


def test_a_reader_opens_the_tables_that_it_asks_for(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RunConfig()) as run:
        run.trajectories.put(trajectory(0))
    (tmp_path / "run" / "calls.jsonl").write_bytes(b'{"v":1,"key"\n{"v":1,"ke')
    with Run.open(tmp_path / "run") as run:
        assert (run.status, run.torn) == ("interrupted", {"calls": 10})
        assert list(run.trajectories) == [trajectory(0)]
        assert run.trajectories is run.trajectories
        with pytest.raises(RoleAgentError, match=r"calls\.jsonl line 1 is damaged"):
            len(run.calls)
        with pytest.raises(AttributeError, match="a run has no 'steps'"):
            run.steps  # noqa: B018
    with pytest.raises(RoleAgentError, match=r"calls\.jsonl line 1 is damaged"):  # before the first call
        Run.create(tmp_path / "run", RunConfig())


def test_threads_that_ask_for_a_table_get_the_same(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RunConfig()) as run:
        for number in range(50):
            run.events.put(Event(f"k{number}", "note", {}))
    with Run.open(tmp_path / "run") as run, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: run.events, range(8)))
        assert all(one is found[0] for one in found) and len(found[0]) == 50


@pytest.mark.parametrize("table", ["dispatched", "trajectories"])
def test_half_a_record_alone_is_no_beginning(tmp_path: Path, table: str) -> None:
    Run.create(tmp_path / "run", RunConfig()).close()
    (tmp_path / "run" / f"{table}.jsonl").write_bytes(b'{"v":1,"ke')
    with Run.open(tmp_path / "run") as run:
        assert run.status == "new"
        assert len(getattr(run, table)) == 0 and run.status == "new"


def test_other_settings_are_refused_with_the_difference(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", from_mapping({"model": "a/b", "evolve": {"temperature": 0.9}})) as run:
        run.dispatched.put(Event("k", "call", {}))
    other = from_mapping({"model": "c/d", "seed": 1, "evolve": {"temperature": 0.5}})
    with pytest.raises(ConfigError) as caught:
        Run.create(tmp_path / "r", other)
    text = str(caught.value)
    for part in (
        "model: 'a/b' then, 'c/d' now",
        "seed: 0 then, 1 now",
        "evolve.temperature: 0.9 then, 0.5 now",
    ):
        assert part in text
    assert "evolve.rounds" not in text
    Run.create(tmp_path / "r", from_mapping({"model": "a/b"})).close()  # a refusal keeps no lock


def test_workers_budget_and_limits_may_change_on_resume(tmp_path: Path) -> None:
    Run.create(tmp_path / "r", RunConfig()).close()
    limits = {"replay": True, "timeout": 3.0, "rpm": 5, "tpm": 5, "retries": 0, "api_key_env": "X"}
    budget = {"max_usd": 1.0, "max_calls": 3, "price": "1/1"}
    changed = {"workers": 2, "budget": budget, "limits": limits}
    with Run.create(tmp_path / "r", from_mapping(changed)) as run:
        assert run.config.workers == 2


@pytest.mark.parametrize(("name", "value"), [("base_url", "http://127.0.0.1:9/v1"), ("max_tokens", 99)])
def test_res_03_what_is_part_of_a_call_s_key_may_not_change(tmp_path: Path, name: str, value: object) -> None:
    with Run.create(tmp_path / "r", RunConfig()) as run:
        run.dispatched.put(Event("k", "call", {}))
    with pytest.raises(ConfigError, match=rf"limits\.{name}: .* then, .*{value}.* now"):
        Run.create(tmp_path / "r", from_mapping({"limits": {name: value}}))


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", RunConfig()):
        with pytest.raises(ConfigError, match="is being written by another process"):
            Run.create(tmp_path / "r", RunConfig())
        with Run.open(tmp_path / "r") as reader:
            assert reader.status == "new"
    Run.create(tmp_path / "r", RunConfig()).close()


def test_a_killed_writer_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from roleagent_lite.config import RunConfig; from roleagent_lite.store import Event, Run\n"
        "run = Run.create(Path(sys.argv[1]), RunConfig())\n"
        "run.dispatched.put(Event('a', 'call', {}))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    found = subprocess.run([sys.executable, "-c", code, str(tmp_path / "r")], check=False)
    assert found.returncode == -9
    with Run.create(tmp_path / "r", RunConfig()) as run:
        assert "a" in run.dispatched


def test_nothing_in_a_run_is_a_pickle(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", RunConfig()) as run:
        run.record("a", "note", {})
    assert {p.suffix for p in (tmp_path / "r").iterdir()} <= {".jsonl", ".toml", ""}
    assert (tmp_path / "r" / "lock").stat().st_size == 0


def test_a_start_that_failed_keeps_no_name(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", from_mapping({"model": "opnai/x"})) as run:
        run.record("start", "start", {"models": "opnai/x"})
    with Run.create(tmp_path / "r", from_mapping({"model": "openai/x"})) as run:
        assert run.config.model == "openai/x" and len(run.events) == 0
        run.dispatched.put(Event("k", "call", {}))
    with pytest.raises(ConfigError, match="model: 'openai/x' then"):
        Run.create(tmp_path / "r", from_mapping({"model": "openai/y"}))


@pytest.mark.parametrize("theirs", ["config.toml", "tasks.jsonl", "report.md", "report.html"])
def test_a_folder_of_the_users_own_is_not_written_over(tmp_path: Path, theirs: str) -> None:
    """A start that failed is begun anew: what is in a folder that is no run must not go with it."""
    (tmp_path / theirs).write_text('{"env": "toy"}\n')
    (tmp_path / "config.toml").write_text('model = "fake"\n')
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    for _ in range(2):
        with pytest.raises(ConfigError, match=f"is no run, but holds .*{theirs}.*; name another folder"):
            Run.create(tmp_path, RunConfig())
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_folder_of_runs_becomes_no_run(tmp_path: Path) -> None:
    Run.create(tmp_path / "r", RunConfig()).close()
    with pytest.raises(ConfigError, match=r"is a folder of runs \(r, …\)"):
        Run.create(tmp_path, RunConfig())
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_a_run_that_was_copied_without_its_lock_goes_on(tmp_path: Path) -> None:
    with Run.create(tmp_path, RunConfig()) as run:
        run.record("start", "start", {})
        run.dispatched.put(Event("c", "call", {}))
    (tmp_path / "lock").unlink()
    with Run.create(tmp_path, RunConfig()) as run:
        assert run.status == "interrupted"


@pytest.mark.parametrize("name", ["calls.jsonl", "lock", "config.toml.part", "memory", "memory/modes.lance"])
def test_a_run_with_a_link_is_refused_by_name(name: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    run = tmp_path / "run"
    Run.create(run, RunConfig()).close()
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(outside)
    for use in (Run.open, lambda path: Run.create(path, RunConfig())):
        with pytest.raises(ConfigError, match=f"holds {name}, which is a link"):
            use(run)
    assert list(outside.iterdir()) == []


def test_a_run_behind_a_link_is_the_users_own_choice(tmp_path: Path) -> None:
    Run.create(tmp_path / "real", RunConfig()).close()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with Run.open(tmp_path / "link") as run:
        assert run.status == "new"
