"""`evolve` as a user runs it against an OpenAI-compatible server, in processes of its own: a model for each
role, the key, an interrupt, the replay; and once against a real llama.cpp server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from roleagent_lite.store import Run
from tests.cli.make import cli, environment, toy_tasks
from tests.evolve.kitchen import tables
from tests.fake_server import Answer, FakeServer, Say, Seen
from tests.kill_runner import begin, command, finish
from tests.kitchen_server import config_file, module, serve
from tests.scripted_world import LESSON

KEY = "sk-test-abcdefghijklmnop1234"
ROLES = {"act": "player-7b", "diagnose": "world-7b", "retrieve": "world-7b", "reflect": "writer-70b"}
MODELS = (
    "--agent-model", "player-7b", "--world-model", "world-7b",
    "--reflector-model", "openai/writer-70b", "--judge-model", "judge-7b",
)  # fmt: skip


def files(root: Path) -> str:
    """All that lies under `root`, as text."""
    return "\n".join(p.read_bytes().decode("latin-1") for p in root.rglob("*") if p.is_file())


@dataclass(frozen=True)
class Done:
    """An evolution through the command line: its folder, what the server saw, what the screen showed."""

    folder: Path
    requests: list[Seen]
    out: str
    err: str


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    folder = tmp_path_factory.mktemp("served")
    config_file(folder, {"aiw": {"retrieve": "llm"}})
    with FakeServer(serve) as fake:
        words = ("evolve", "--config", "kitchen.toml", "--base-url", fake.url, *MODELS, "--run", "mine")
        ended = cli(*words, cwd=folder, env={"OPENAI_API_KEY": KEY})
        assert ended.returncode == 0, ended.stderr
        yield Done(folder, list(fake.requests), ended.stdout, ended.stderr)


def test_a_model_for_each_role_arrives_at_the_server(done: Done) -> None:
    asked = Counter((module(seen), seen.body["model"]) for seen in done.requests)
    assert {pair: pair in asked for pair in ROLES.items()} == dict.fromkeys(ROLES.items(), True)
    assert len(asked) == len(ROLES)
    with Run.open(done.folder / "runs" / "mine") as run:
        assert len(run.calls) == len(done.requests)
        assert {(c.request.role, c.model) for c in run.calls} == {
            ("agent", "player-7b"), ("world", "world-7b"), ("reflector", "writer-70b")
        }  # fmt: skip
        start = run.events.get("start")
        assert start is not None and start.data["models"]["judge"] == "judge-7b"
        assert any(LESSON.search(text) for p in run.prompt_sets for text in p.texts.values())
    assert f"{len(done.requests)} calls" in done.out and "sealed test" in done.out


def test_acc_07_the_key_is_sent_and_is_nowhere_else(done: Done) -> None:
    assert {seen.headers["authorization"] for seen in done.requests} == {f"Bearer {KEY}"}
    for text in (files(done.folder), done.out, done.err):
        assert KEY not in text and KEY[3:] not in text


def shorn(report: Path) -> list[str]:
    """A report without what a replay may change: the name of the run, and when and by whom it was played."""
    text = report.read_text(encoding="utf-8").replace(report.parent.name, "RUN")
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    assert sum(part.startswith("## Time\n") for part in sections) == 1
    return [part for part in sections if not part.startswith("## Time\n")]


def test_replay_needs_no_server_and_gives_the_same_report(done: Done) -> None:
    with FakeServer(serve) as other:  # at another port: nobody answers at the recorded one
        code, out, err = command(
            "evolve", "--replay", "mine", "--run", "mine-replay", cwd=done.folder, OPENAI_API_KEY=""
        )
        assert code == 0, err
        assert other.count == 0
    runs = done.folder / "runs"
    assert tables(runs / "mine-replay") == tables(runs / "mine")
    assert shorn(runs / "mine-replay" / "report.md") == shorn(runs / "mine" / "report.md")
    with Run.open(runs / "mine-replay") as run:
        session = run.events.get("session/1")
        assert session is not None and session.data["calls"] == 0
        assert session.data["replayed"] >= len(run.calls)
    assert out.replace("mine-replay", "mine") == done.out


def test_resuming_a_finished_run_buys_nothing_and_keeps_the_report(done: Done) -> None:
    report = done.folder / "runs" / "mine" / "report.md"
    before = report.read_bytes()
    code, _, err = command("evolve", "--resume", "--run", "mine", cwd=done.folder, OPENAI_API_KEY=KEY)
    assert code == 0, err
    assert report.read_bytes() == before


# --- an interrupt ---


class Stalling:
    """The scripted kitchen; in training, from the `after`-th request on, it keeps the caller waiting."""

    def __init__(self, after: int) -> None:
        self.after: int | None = after
        self.training = self.held = 0

    def __call__(self, seen: Seen) -> Answer:
        answer = serve(seen)
        assert isinstance(answer, Say)
        if self.after is None or module(seen) != "act" or seen.body["temperature"] == 0:
            return answer
        self.training += 1
        if self.training <= self.after:
            return answer
        self.held += 1
        return replace(answer, delay=300.0)


def until(holds: Callable[[], bool], process: subprocess.Popen[str] | BaseProcess) -> None:
    """Waits for what has to come about while `process` lives."""
    for _ in range(6000):
        if holds():
            return
        ended = process.poll() if isinstance(process, subprocess.Popen) else process.exitcode
        assert ended is None, f"the process ended with {ended}"
        time.sleep(0.01)
    process.kill()
    raise AssertionError("it did not come about")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_res_04_an_interrupt_with_eight_busy_workers(number: signal.Signals, tmp_path: Path) -> None:
    config_file(tmp_path)
    script = Stalling(after=10)
    with FakeServer(script) as fake:
        words = ["evolve", "--config", "kitchen.toml", "--model", "fake", "--base-url", fake.url]
        words += ["--workers", "8", "--run", "cut"]
        process = subprocess.Popen(
            [sys.executable, "-m", "roleagent_lite.cli.main", *words],
            cwd=tmp_path, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        until(lambda: script.held == 8, process)
        sent, start = fake.count, time.monotonic()
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=60)  # the server would hold them for 300 s
        took = time.monotonic() - start
        assert process.returncode == 130, err
        assert fake.count == sent, "a request was sent after the interrupt"
        assert out == "" and "Traceback" not in err
        assert "evolve --resume --run cut" in err
        assert "(partial)" in (tmp_path / "runs" / "cut" / "report.md").read_text(encoding="utf-8")
        listed = command("runs", "--json", cwd=tmp_path)[1]
        assert {one["name"]: one["status"] for one in json.loads(listed)} == {"cut": "interrupted"}

        script.after = None
        code, _, err = command("evolve", "--resume", cwd=tmp_path)
        assert code == 0, err
        rest = fake.count - sent
        whole = [*words[:-1], "whole"]
        code, _, err = command(*whole, cwd=tmp_path)
        assert code == 0, err
    assert tables(tmp_path / "runs" / "cut") == tables(tmp_path / "runs" / "whole")
    print(f"\n{number.name} with 8 calls in flight: ended after {took:.2f} s; {rest} calls at resume")


def test_res_03_kill_9_after_six_of_ten_tasks(tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 10)

    def goal(seen: Seen) -> str:
        found = re.search(r"number \d+ of test", json.dumps(seen.body))
        assert found is not None
        return found[0]

    def play(seen: Seen) -> Answer:
        goals.setdefault(goal(seen), 0)
        goals[goal(seen)] += 1
        action = "open door" if "You take the key." in json.dumps(seen.body) else "take key"
        return Say(json.dumps({"action": action}), delay=300.0 if len(goals) == stall_at else 0.0)

    goals: dict[str, int] = {}
    stall_at = 7
    words = ("eval", "--tasks", "t.jsonl", "--model", "fake", "--workers", "1", "--run", "killed")
    with FakeServer(play) as fake:
        process = begin(*words, "--base-url", fake.url, cwd=tmp_path)
        until(lambda: len(goals) == 7, process)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        assert finish(process) == -signal.SIGKILL
        (one,) = json.loads(command("runs", "--json", cwd=tmp_path)[1])
        assert (one["status"], one["episodes"], one["solved"]) == ("interrupted", 6, 6)
        done, stall_at = list(goals)[:6], 0
        assert [goals.pop(goal) for goal in done] == [2] * 6
        seventh = dict(goals)
        code, out, err = command(*words, "--base-url", fake.url, cwd=tmp_path)
        assert code == 0, err
        assert not set(done) & set(goals), "nothing is sent for the six"
        assert sum(goals.values()) - sum(seventh.values()) == 4 * 2
    assert "10 of 10" in out and "21 calls" in out  # the call in flight at the kill is counted


# --- a real server ---

LLAMA = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.api_keys = sys.argv[1], [sys.argv[2]]
params.n_ctx, params.n_parallel, params.verbosity = 8192, 2, -1
params.cpuparams.n_threads = 1
server = xllamacpp.Server(params)
server.handle_completions({"prompt": "a", "max_tokens": 1})
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.mark.embedded
@pytest.mark.slow
def test_evolve_on_a_real_llama_cpp_server_with_a_key(tmp_path: Path) -> None:
    from roleagent_lite.lm.weights import resolve_model

    small = ["evolve.rounds=1", "evolve.tasks_per_round=1", "evolve.group=2", "evolve.dev=2", "evolve.test=2"]
    small += ["limits.max_tokens=160", "aiw.embedder=none", "wia.predict=off"]
    sets = [word for one in small for word in ("--set", one)]
    server = subprocess.Popen(
        [sys.executable, "-c", LLAMA, str(resolve_model("embedded")), KEY],
        env=environment(OMP_WAIT_POLICY="PASSIVE"), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        words = ("evolve", "--tasks", "household-easy", "--agent", "generate", "--base-url", url, *MODELS)
        wrong = cli(
            *words, *sets, "--run", "wrong", cwd=tmp_path, env={"OPENAI_API_KEY": "sk-wrong-key-0000"}
        )
        done = cli(
            *words, *sets, "--run", "real", "--workers", "2",
            cwd=tmp_path, env={"OPENAI_API_KEY": KEY}, timeout=900,
        )  # fmt: skip
    assert wrong.returncode == 4 and "OPENAI_API_KEY" in wrong.stderr, wrong.stderr
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    with Run.open(tmp_path / "runs" / "real") as run:
        assert run.status == "finished"
        calls = list(run.calls)
        assert {c.model for c in calls} <= {"player-7b", "world-7b", "writer-70b"}
        assert all(c.reply.usage.input and c.reply.usage.output for c in calls)
        assert len({c.reply.text for c in calls}) > len(calls) // 4, "a real model says different things"
        assert {t.outcome.kind for t in run.trajectories} <= {"solved", "failed", "bad_format", "cut_off"}
    for text in (files(tmp_path), done.stdout, done.stderr, wrong.stderr):
        assert KEY not in text and "sk-wrong-key-0000" not in text
