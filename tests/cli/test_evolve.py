"""`evolve`: which run directory and settings the flags ask for, and the whole job against a fake server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.cli.evolve import planned, prepare
from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import load_tasks
from tests.cli.conftest import Inside
from tests.cli.make import clear, cli, toy_tasks
from tests.fake_server import Answer, FakeServer, Say, Seen
from tests.report import make

KEY = "sk-test-abcdefghijklmnop1234"
LESSON = "Take the key before you open the door."


def learner(seen: Seen) -> Answer:
    """A stand-in that opens the door too early unless its prompt holds the lesson, which it then offers."""
    text = json.dumps(seen.body)
    if '"new_text"' in text or "rewrite" in text.lower():
        return Say(json.dumps({"thought": "t", "new_text": f"- {LESSON}", "text": f"- {LESSON}"}))
    if "critical_step" in text:
        body = {"mode": "missing_precondition", "detail": "no key", "critical_step": 1, "lesson": LESSON,
                "query": "key door"}  # fmt: skip
        return Say(json.dumps(body))
    if LESSON in text or "You take the key." in text:
        action = "open door" if "You take the key." in text else "take key"
    else:
        action = "open door"
    return Say(json.dumps({"thought": "", "action": action, "predictions": ["Nothing happens."]}))


def asked(tmp_path: Path, **how: Any) -> tuple[Path, Any]:
    plain: dict[str, Any] = {"run": None, "resume": False, "replay": None, "prompt": None}
    return prepare(
        how.pop("flags", {}), how.pop("config", None), how.pop("sets", None), tmp_path, **plain | how
    )


def test_a_new_run_gets_a_free_name(tmp_path: Path) -> None:
    assert asked(tmp_path)[0] == tmp_path / "evolve-1"
    (tmp_path / "evolve-1").mkdir()
    assert asked(tmp_path)[0] == tmp_path / "evolve-2"
    assert asked(tmp_path, run="mine")[0] == tmp_path / "mine"


def test_resume_takes_the_settings_of_the_run_and_flags_win(tmp_path: Path) -> None:
    make.new_run(tmp_path / "old").close()
    with make.new_run(tmp_path / "r") as run:
        make.play(run, make.episode(make.task(1), make.SEED))
    path, config = asked(tmp_path, resume=True, flags={"workers": 3})
    assert (path, config.model, config.workers) == (tmp_path / "r", "openai/toy", 3)
    assert asked(tmp_path, resume=True, run="old")[0] == tmp_path / "old"
    with pytest.raises(ConfigError, match="leave out --config"):
        asked(tmp_path, resume=True, config=Path("x"))


def test_the_planned_episodes_are_an_upper_bound(tmp_path: Path) -> None:
    from roleagent_lite.config import from_mapping

    config = from_mapping({
        "tasks": str(toy_tasks(tmp_path / "t.jsonl", 4)),
        "evolve": {"rounds": 3, "tasks_per_round": 6, "group": 2, "dev": 3, "test": 9},
    })  # fmt: skip
    assert planned(config) == 3 * 2 * (4 * 2) + 4 * 3 + 2 * 4


def test_an_environment_brings_its_tasks(tmp_path: Path) -> None:
    path, config = asked(tmp_path, flags={"env": "tests.toy:Toy"})
    assert config.tasks == str(path / "own_tasks.jsonl")
    assert {t.env for t in load_tasks(config.tasks)} == {"tests.toy:Toy"}
    file = toy_tasks(tmp_path / "t.jsonl", 2)
    path, config = asked(tmp_path, run="other", flags={"env": "tests.toy:Toy", "tasks": str(file)})
    assert len(load_tasks(config.tasks)) == 6
    with pytest.raises(ConfigError, match="holds other tasks"):
        asked(tmp_path, run="other", flags={"env": "tests.toy:Toy"})
    with pytest.raises(ConfigError, match="leave out --env"):
        asked(tmp_path, resume=True, run="other", flags={"env": "tests.toy:Toy"})


def test_nothing_to_resume_is_said(tmp_path: Path) -> None:
    make.whole_run(tmp_path / "done").close()
    with pytest.raises(ConfigError, match="no interrupted evolve"):
        asked(tmp_path, resume=True)


def test_an_own_prompt_is_kept_with_its_full_path(tmp_path: Path) -> None:
    assert asked(tmp_path, prompt=Path("mine.txt"))[1].prompts == str(Path("mine.txt").resolve())
    with pytest.raises(ConfigError, match="give one of them"):
        asked(tmp_path, prompt=Path("mine.txt"), flags={"prompts": "v1"})


def test_replay_copies_the_record_and_lifts_the_caps(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        run.record("model/agent/x", "model", {"role": "agent", "name": "x"})
    path, config = asked(tmp_path, replay="r")
    assert path == tmp_path / "r-replay-1" and config.limits.replay and config.budget.max_usd is None
    from roleagent_lite.store import Run

    with Run.open(path) as copy:
        assert len(copy.calls) == 4 and [e.kind for e in copy.events] == ["model"]
        assert len(copy.trajectories) == 0 and copy.config.limits.replay
    with pytest.raises(ConfigError, match="leave out --resume"):
        asked(tmp_path, replay="r", resume=True)
    with pytest.raises(ConfigError, match="no run 'q'"):
        asked(tmp_path, replay="q")


def test_wrong_flags_are_one_clear_message(inside: Inside, tmp_path: Path) -> None:
    clear(inside("evolve", "--set", "evolve.rouds=1"), 2, "did you mean 'rounds'")
    clear(inside("evolve", "--resume"), 2, "no interrupted evolve")
    clear(inside("evolve", "--prompt", "none.toml", "--tasks", "household-easy"), 2, "none.toml")
    (tmp_path / "t.jsonl").write_text('{"env":"tests.toy:Toy","goal":"x","split":"train"}\n')
    clear(inside("evolve", "--tasks", "t.jsonl", "--model", "m"), 2, "t.jsonl", "dev")
    assert not (tmp_path / "runs" / "evolve-1" / "config.toml").exists()


def without_times(report: str) -> str:
    """A report without its time section, name and plan: what a replay must give again."""
    return re.sub(r"^# Run .*$", "", report.split("\n## Time\n")[0], flags=re.MULTILINE)


@pytest.mark.slow
def test_the_whole_job_report_resume_replay_export_and_eval(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    toy_tasks(tmp_path / "t.jsonl", 8)
    words = ["evolve", "--tasks", "t.jsonl", "--model", "fake", "--rounds", "2", "--run", "first"]
    words += ["--world-model", "world", "--reflector-model", "big", "--judge-model", "judge"]
    words += ["--set", "evolve.group=2", "--set", "evolve.tasks_per_round=3", "--set", "aiw.embedder=none"]
    with FakeServer(learner) as fake:
        done = inside(*words, "--base-url", fake.url, "--json")
        bought = fake.count
        assert done.returncode == 0, done.stderr
        assert {seen.body["model"] for seen in fake.requests} == {"fake", "world", "big"}
        assert all(seen.headers["authorization"] == f"Bearer {KEY}" for seen in fake.requests)
        data = json.loads(done.stdout)
        assert data["status"] == "finished" and {s["split"] for s in data["systems"]} == {
            "train",
            "dev",
            "test",
        }
        assert done.stderr.index("planned at most") < done.stderr.index("training tasks")
        report = (tmp_path / "runs/first/report.md").read_text()
        again = inside(*words, "--base-url", fake.url, "--json")
        assert fake.count == bought and json.loads(again.stdout)["systems"] == data["systems"]
    monkeypatch.delenv("OPENAI_API_KEY")
    replay = inside("evolve", "--replay", "first")
    assert replay.returncode == 0, replay.stderr
    copied = (tmp_path / "runs/first-replay-1/report.md").read_text()
    assert without_times(copied) == without_times(report)
    assert KEY not in "".join(
        p.read_text(errors="replace") for p in tmp_path.rglob("*.[jtm]*") if p.is_file()
    )
    text = inside("export", "first")
    assert text.returncode == 0 and "act.instructions" in text.stdout
    with FakeServer(learner) as fake:
        scored = inside("eval", "first", "--split", "dev", "--base-url", fake.url, "--json")
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["systems"][0]["success"]["n"] == 8
    assert inside("show", "first").stdout == (tmp_path / "runs/first/report.md").read_text() + "\n"


def test_an_unknown_provider_is_refused_before_anything_is_sent_and_the_name_stays_free(
    tmp_path: Path,
) -> None:
    words = ("evolve", "--run", "u5", "--rounds", "1", "--tasks", str(toy_tasks(tmp_path / "t.jsonl", 1)))
    done = cli(*words, "--model", "opneai/gpt-4o", cwd=tmp_path)
    clear(done, 2, "no provider 'opneai'", "did you mean 'openai'?")
    assert "at most" not in done.stderr, "no plan of calls is shown"
    dispatched = tmp_path / "runs" / "u5" / "dispatched.jsonl"
    assert not dispatched.exists() or not dispatched.read_bytes()
    with FakeServer(learner) as fake:
        again = cli(*words, "--model", f"fake@{fake.url}", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
