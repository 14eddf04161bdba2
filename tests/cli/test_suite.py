"""Suites on the command line: which name is taken, flags that clash, caps, resume, replay, and the table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.cli import suite
from roleagent_lite.config import from_mapping
from roleagent_lite.errors import ConfigError
from roleagent_lite.store import Event, Run
from tests.cli.conftest import Inside
from tests.cli.make import clear, toy_tasks
from tests.fake_server import Answer, FakeServer, Say, Seen, fail

NOBODY = "http://127.0.0.1:9/v1"


def winner(seen: Seen) -> Answer:
    """Plays the toy world well: the key first, then the door."""
    text = json.dumps(seen.body)
    action = "open door" if "You take the key." in text else "take key"
    return Say(json.dumps({"thought": "on", "action": action, "predictions": ["You take the key."]}))


def words(fake: FakeServer, *more: str) -> list[str]:
    return ["eval", "--tasks", "t.jsonl", "--systems", "random,prompt", "--model", "fake",
            "--base-url", fake.url, *more]  # fmt: skip


def without_times(path: Path) -> dict[str, Any]:
    """report.json but for times, sessions, names and workers."""
    data: dict[str, Any] = json.loads((path / "report.json").read_text())
    for name in ("run", "sessions", "config", "notes"):
        del data[name]
    for row in [*data["spend"], *data["suite"]["systems"], *data["results"]]:
        row.pop("seconds", None)
    return data


def test_systems_on_ones_own_tasks(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 4)
    with FakeServer(winner) as fake:
        done = inside(*words(fake, "--price", "1/2"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split("  ")[0] == "system" and lines[1].startswith("random")
    row = lines[2].split()
    assert row[:4] == ["prompt", "4", "of", "4"] and "100 % (51-100 %)" in lines[2]
    assert "8      2.0" in lines[2] and "880" in lines[2] and "$0.0010" in lines[2]
    assert "planned at most" in done.stderr and "playing prompt · 4/4 · solved 100 %" in done.stderr
    with Run.open(tmp_path / "runs" / "eval-1") as run:
        assert [r.system for r in run.results] == ["random", "prompt"]


def test_a_suite_and_a_run_of_one_name_are_told_apart(inside: Inside, tmp_path: Path) -> None:
    done = inside(
        "eval", "quick", "--systems", "random", "--model", "m", "--base-url", NOBODY, "--run", "quick"
    )
    assert done.returncode == 0 and "suite 'quick'\n" in done.stderr
    again = inside("eval", "quick", "--systems", "oracle", "--model", "m", "--base-url", NOBODY)
    assert again.returncode == 0, again.stderr
    assert f"suite 'quick'; the run of this name is {Path('runs') / 'quick'}" in again.stderr
    assert "oracle  3 of 3" in again.stdout


def test_repetitions_show_their_spread_and_pass_at_k(inside: Inside) -> None:
    line = [
        "eval",
        "quick",
        "--systems",
        "oracle",
        "--model",
        "m",
        "--base-url",
        NOBODY,
        "--repetitions",
        "2",
    ]
    done = inside(*line, "--temperature", "0.9")
    assert "oracle: run-to-run standard deviation 0.0 points" in done.stdout
    assert "oracle: pass@2 1.0000, pass^2 1.0000 over 3 tasks" in done.stdout
    assert "not computed: played at temperature 0" in inside(*line).stdout


def test_json_holds_the_suite_and_nothing_else_is_printed(inside: Inside, tmp_path: Path) -> None:
    done = inside(
        "eval", "quick", "--systems", "random,oracle", "--repetitions", "2", "--temperature", "0.9",
        "--budget", "calls=9", "--limit", "2", "--model", "m", "--base-url", NOBODY, "--json",
    )  # fmt: skip
    data = json.loads(done.stdout)
    assert data["suite"]["suite"]["name"] == "quick" and data["suite"]["suite"]["repetitions"] == 2
    assert [one["rate"]["n"] for one in data["suite"]["systems"]] == [4, 4]
    assert data["suite"]["systems"][0]["budget"] == "9 calls a task"
    assert data["suite"]["published"]["tables"][0]["name"] == "alfworld"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["quick", "--tasks", "t.jsonl"], "leave out --tasks"),
        (["quick", "--split", "dev"], "leave out --split"),
        (["quick", "--systems", "raect"], "did you mean 'react'"),
        (["quick", "--systems", "random,,oracle"], "names with commas"),
        (["quick", "--budget", "calls"], "for example calls=30"),
        (["--repetitions", "2"], "give --systems too"),
        (["--budget", "calls=3"], "belongs to a comparison"),
        (["qiuck"], "no suite and no run 'qiuck'"),
        (["quick", "--prompt", "a", "--prompts", "v1"], "give one of them"),
        (["--replay", "x", "--resume"], "leave out --resume"),
        (["quick", "--replay", "x"], "leave out SUITE or RUN"),
        (["--resume", "--systems", "random"], "leave it out with --resume"),
    ],
)
def test_what_clashes_is_refused(more: list[str], said: str, inside: Inside, tmp_path: Path) -> None:
    clear(inside("eval", *more, "--model", "m") if "--replay" not in more else inside("eval", *more), 2, said)
    assert not (tmp_path / "runs").exists()


def test_a_cap_stops_resume_goes_on_replay_buys_nothing(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 4)
    with FakeServer(winner) as fake:
        stopped = inside(*words(fake, "--workers", "1", "--max-calls", "3", "--run", "a"))
        assert stopped.returncode == 3 and fake.count == 3
        assert "roleagent-lite eval --resume --run a --max-calls 6\n" in stopped.stderr
        assert "Not finished: prompt." in (tmp_path / "runs" / "a" / "report.md").read_text()
        done = inside("eval", "--resume", "--max-calls", "100")
        assert done.returncode == 0, done.stderr
        assert fake.count == 8
        whole = inside(*words(fake, "--run", "b", "--workers", "8"))
        assert whole.returncode == 0 and fake.count == 16
    assert without_times(tmp_path / "runs" / "a") == without_times(tmp_path / "runs" / "b")
    replayed = inside("eval", "--replay", "b")  # the server is gone
    assert replayed.returncode == 0, replayed.stderr
    assert without_times(tmp_path / "runs" / "b-replay-1") == without_times(tmp_path / "runs" / "b")


def test_a_plain_evaluation_replays_as_well(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 3)
    with FakeServer(winner) as fake:
        inside(
            "eval",
            "--tasks",
            "t.jsonl",
            "--model",
            "fake",
            "--base-url",
            fake.url,
            "--run",
            "a",
            "--limit",
            "2",
        )
    done = inside("eval", "--replay", "a", "--json")
    assert done.returncode == 0, done.stderr
    (system,) = json.loads(done.stdout)["systems"]
    assert (system["success"]["k"], system["success"]["n"]) == (2, 2)
    (tmp_path / "runs" / "e").mkdir()
    shutil.copy(tmp_path / "runs" / "a" / "config.toml", tmp_path / "runs" / "e")
    clear(inside("eval", "--replay", "e"), 2, "is another job")


def test_systems_that_ask_no_model_replay_as_well(inside: Inside, tmp_path: Path) -> None:
    line = ["eval", "quick", "--systems", "random,oracle", "--model", "m", "--base-url", NOBODY, "--run", "a"]
    first, again = inside(*line), inside("eval", "--replay", "a")
    assert first.returncode == again.returncode == 0, again.stderr
    assert without_times(tmp_path / "runs" / "a") == without_times(tmp_path / "runs" / "a-replay-1")
    compared = inside("compare", "a:random", "a-replay-1:random")
    assert "a-replay-1:random and a:random ended alike on every task" in compared.stdout


def test_errors_of_the_server_have_an_exit_code_of_their_own(inside: Inside, tmp_path: Path) -> None:
    rows = [
        json.dumps({"id": f"t{i}", "env": "tests.toy:Faulty", "goal": f"Out {i}.", "split": "test",
                    "params": {"raise": i == 1}})
        for i in range(3)
    ]  # fmt: skip
    (tmp_path / "t.jsonl").write_text("\n".join(rows))

    def slow(seen: Seen) -> Answer:
        if "Nothing happens." not in json.dumps(seen.body):
            return Say(json.dumps({"thought": "", "action": "look around", "predictions": []}))
        return winner(seen)

    with FakeServer(slow) as fake:
        done = inside(
            "eval", "--tasks", "t.jsonl", "--systems", "prompt", "--model", "fake", "--base-url", fake.url
        )
    assert done.returncode == 5, done.stderr
    assert "2 of 2" in done.stdout


def test_a_refused_key_stops_all_systems(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 4)
    with FakeServer(lambda seen: fail(401, "Incorrect API key", "invalid_api_key")) as fake:
        clear(inside(*words(fake, "--workers", "1")), 4, "key")
        assert fake.count == 1


def test_a_seed_reaches_the_systems(inside: Inside, tmp_path: Path) -> None:
    moves = []
    for name, seed in (("a", "1"), ("b", "2"), ("c", "1")):
        line = ["eval", "quick", "--systems", "random", "--model", "m", "--base-url", NOBODY, "--run", name]
        assert inside(*line, "--seed", seed).returncode == 0
        with Run.open(tmp_path / "runs" / name) as run:
            moves.append([s.action for t in run.trajectories for s in t.steps])
            assert run.events.get("suite").data["seeds"] == [int(seed)]  # type: ignore[union-attr]
    assert moves[0] == moves[2] != moves[1]


def test_names_of_systems() -> None:
    assert suite.names(None) is None and suite.names(" a, b:c ") == ["a", "b:c"]
    with pytest.raises(ConfigError):
        suite.names("a,")


def test_words_of_a_suite_name_no_winner_in_the_noise_and_no_unknown_as_nothing() -> None:
    one = {
        "system": "a", "solved": 1, "rate": {"n": 2, "mean": None, "low": None, "high": None}, "score": None,
        "calls": None, "calls_a_task": None, "seconds": None,
        "usage": {"input": None, "output": 3, "dollars": None}, "spread": None, "passes": [],
    }  # fmt: skip
    pair = {"first": "a", "second": "b", "words": "said.", "within_noise": True}
    data: dict[str, Any] = {"systems": [one], "unfinished": ["b"], "pairs": [pair]}
    text = suite.words(data)
    assert text.splitlines()[1].split() == ["a", "1", "of", "2", *["unknown"] * 7]
    assert "not finished: b" in text and "within noise: all pairs" in text and "said." not in text
    data["pairs"] = [pair, {**pair, "within_noise": False}]
    assert "b against a: said." in suite.words(data) and "the other 1 of 2" in suite.words(data)


@pytest.mark.parametrize("words", [("--resume", "--run", "theirs"), ("--replay", "theirs")])
def test_a_suite_from_elsewhere_may_not_bring_code(
    words: tuple[str, ...], inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    (tmp_path / "evil.jsonl").write_text('{"env": "evil:Env", "goal": "g", "split": "test"}\n')
    with Run.create(
        tmp_path / "runs" / "theirs", from_mapping({"model": "openai/gpt-x", "tasks": "a + b"})
    ) as run:
        sets = [{"tasks": "household-easy"}, {"tasks": "evil.jsonl"}]
        data = {"name": "s", "sets": sets, "systems": ["random", "evil:agent", "role-agent:x"]}
        run.record("suite", "suite", data)
        run.dispatched.put(Event("k", "call", {}))
    done = inside("eval", *words)
    clear(
        done,
        2,
        "was not begun by you",
        "the system evil:agent",
        "the environment evil:Env (named in evil.jsonl)",
    )
    assert "role-agent:x" not in done.stderr and not (tmp_path / "imported").exists()


def test_code_of_ones_own_is_told_before_it_runs(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 2)
    (tmp_path / "mine.py").write_text("def agent(view, prompts, ask): return 'take key'\n")
    done = inside("eval", "--tasks", "t.jsonl", "--systems", "random,mine:agent", "--model", "m",
                  "--base-url", NOBODY)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "runs Python code: the system mine:agent; the environment tests.toy:Toy" in done.stderr
    assert "mine:agent  0 of 2" in done.stdout
