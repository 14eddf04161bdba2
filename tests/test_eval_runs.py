"""Evaluations as runs, in processes of their own: killed and resumed, 1 and 8 workers, a moody server."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.evals import compare, evaluate
from roleagent_lite.evals.suite import adjusted, suite_of
from roleagent_lite.store import Run
from tests.cli.make import cli, toy_tasks
from tests.cli.test_suite import winner, without_times
from tests.evolve.kitchen import run_kitchen
from tests.fake_server import Answer, FakeServer, Say, Seen
from tests.kill_runner import begin, command, finish
from tests.scripted_world import provider

TASKS, WORKERS = 12, 4
SYSTEMS = "random,prompt,react"


def asked(fake: FakeServer) -> Counter[str]:
    """How often each request was sent, by what it said."""
    return Counter(json.dumps(seen.body, sort_keys=True) for seen in fake.requests)


def words(fake: FakeServer, run: str, *more: str) -> list[str]:
    return ["eval", "--tasks", "t.jsonl", "--systems", SYSTEMS, "--model", "fake", "--base-url", fake.url,
            "--run", run, *more]  # fmt: skip


class Deadly:
    """A server's script that kills a process with SIGKILL at its `at`-th request."""

    def __init__(self, script: Callable[[Seen], Answer]) -> None:
        self._script = script
        self._lock = threading.Lock()
        self.victim: int | None = None
        self.left = 0

    def __call__(self, seen: Seen) -> Answer:
        with self._lock:
            self.left -= 1
            if self.left == 0 and self.victim is not None:
                os.kill(self.victim, signal.SIGKILL)
        return self._script(seen)


def rows(path: Path, name: str) -> list[str]:
    return [json.loads(line)["key"] for line in (path / f"{name}.jsonl").read_text().splitlines()]


def test_res_a_killed_evaluation_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", TASKS)
    with FakeServer(winner) as fake:
        code, _, err = command(*words(fake, "whole", "--workers", str(WORKERS)), cwd=tmp_path)
        assert code == 0, err
        undisturbed = asked(fake)
    rng = random.Random(5)
    deadly = Deadly(winner)
    with FakeServer(deadly) as fake:
        line = words(fake, "killed", "--workers", str(WORKERS))
        for kill in range(3):
            process = begin(*line, cwd=tmp_path)
            deadly.victim, deadly.left = process.pid, rng.randint(3, 12)
            assert finish(process) == -signal.SIGKILL
            line = ["eval", "--resume", "--run", "killed"]
            with Run.open(tmp_path / "runs" / "killed") as run:
                assert run.status == "interrupted", f"after kill {kill}"
        deadly.victim = None
        code, _, err = command(*line, cwd=tmp_path)
        assert code == 0, err
        sent = asked(fake)
    assert without_calls(tmp_path / "runs" / "killed") == without_calls(tmp_path / "runs" / "whole")
    assert set(sent) == set(undisturbed)
    again = sum(sent.values()) - sum(undisturbed.values())
    assert 0 <= again <= 3 * WORKERS, "only what was in flight is asked again"
    keys = rows(tmp_path / "runs" / "killed", "calls")
    assert len(keys) == len(set(keys))


def without_calls(path: Path) -> dict[str, Any]:
    """The report but for times and for calls that a kill lost."""
    data = without_times(path)
    for row in data["spend"]:
        for name in ("calls", "lost", "unknown_tokens", "unknown_dollars"):
            del row[name]
    return data


def test_evl_01_one_worker_and_eight_write_the_same_report(tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 5)
    with FakeServer(winner, latency=(0.0, 0.01)) as fake:
        for workers in ("1", "8"):
            code, _, err = command(*words(fake, f"w{workers}", "--workers", workers), cwd=tmp_path)
            assert code == 0, err
    one, eight = (tmp_path / "runs" / f"w{n}" for n in ("1", "8"))
    assert without_times(one) == without_times(eight)
    with Run.open(eight) as run:
        for result in run.results:
            assert list(result.scores) == [f"test{i}" for i in range(5)], "rows in task order"


class Moody:
    """Plays a task well or badly as a coin says, which is thrown anew for each run."""

    run = 0

    def __call__(self, seen: Seen) -> Answer:
        number = int(json.dumps(seen.body).partition("number ")[2].partition(" ")[0])
        if random.Random(f"{self.run}/{number}").random() < 0.5:
            return winner(seen)
        return Say(json.dumps({"thought": "", "action": "look around", "predictions": [""]}))


def test_evl_01_a_server_that_answers_differently_each_time_is_within_noise(tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 30)
    moody = Moody()
    with FakeServer(moody) as fake:
        for moody.run, name in ((1, "one"), (6, "two")):
            line = words(fake, name, "--seed", "1", "--systems", "prompt")
            code, _, err = command(*line, cwd=tmp_path)
            assert code == 0, err
    code, out, err = command("compare", "one", "two", cwd=tmp_path)
    assert code == 0, err
    with Run.open(tmp_path / "runs/one") as one, Run.open(tmp_path / "runs/two") as two:
        means = [next(iter(run.results)).mean for run in (one, two)]
    assert means == [12 / 30, 15 / 30]
    assert "within noise" in out and "solved more" not in out and "solved fewer" not in out
    assert "the same system (prompt) in 2 runs: 40 %, 50 %; standard deviation 7.1 points" in out


def test_what_an_evolution_found_is_measured_as_a_system(tmp_path: Path) -> None:
    """The scripted kitchen learns to open the microwave; its final prompt beats the seed on sealed tasks."""
    (tmp_path / "evolved").mkdir()
    run_kitchen(tmp_path / "evolved")
    tasks = str(tmp_path / "evolved" / "kitchen.jsonl")
    suite = adjusted(suite_of(tasks), systems=["role-agent", "role-agent:run"])
    found = evaluate(
        suite, {"model": "scripted", "agent": "generate"}, run_dir=tmp_path / "e", models=provider(),
        runs=tmp_path / "evolved",
    )  # fmt: skip
    seed, final = found.summaries
    assert (seed.rate.n, seed.rate.mean, final.rate.mean) == (20, 0.8, 1.0)
    assert {k: r.mean for k, r in seed.by_type.items()}["heat"] == 0.0 and final.macro == 1.0
    (pair,) = compare(found, runs=tmp_path).pairs
    assert pair.second == "e:role-agent:run" and len(pair.gained) == 4 and not pair.lost
    assert "within noise" in pair.words, "four tasks are not enough to say so"


@pytest.mark.embedded
@pytest.mark.slow
def test_quick_on_the_embedded_model(tmp_path: Path) -> None:
    """The shipped suite as a newcomer plays it: a table of four systems, a report, at most 120 calls."""
    done = cli("eval", "quick", "--run", "q", cwd=tmp_path, timeout=1800)
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "runs" / "q" / "report.json").read_text())["suite"]
    assert [one["system"] for one in data["systems"]] == ["random", "prompt", "react", "role-agent"]
    assert all(one["rate"]["n"] == 3 and one["rate"]["low"] is not None for one in data["systems"])
    assert 0 < sum(one["calls"] for one in data["systems"]) <= 120
    for one in data["systems"]:
        assert one["system"] in done.stdout and (one["calls"] > 0) == (one["system"] != "random")
    assert (tmp_path / "runs" / "q" / "report.html").is_file()
