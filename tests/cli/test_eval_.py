"""`eval` as a user runs it, in a process of its own: a fake server, a toy world, and each way to go wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from roleagent_lite.tasksets import load_tasks
from tests.cli.conftest import Inside
from tests.cli.make import clear, cli, toy_tasks
from tests.fake_server import Answer, FakeServer, Say, Seen, fail

NOBODY = "http://127.0.0.1:9/v1"
KEY = "sk-test-abcdefghijklmnop1234"


def winner(seen: Seen) -> Answer:
    """Plays the toy world well: the key first, then the door."""
    text = json.dumps(seen.body)
    action = "open door" if "You take the key." in text else "take key"
    return Say(json.dumps({"thought": "on", "action": action, "predictions": ["You take the key."]}))


def files(root: Path) -> str:
    return "\n".join(p.read_text(errors="replace") for p in root.rglob("*") if p.is_file())


def test_success_with_interval_steps_tokens_and_money(tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 3)
    with FakeServer(winner) as fake:
        done = cli(
            "eval", "--tasks", "t.jsonl", "--model", "fake", "--base-url", fake.url, "--price", "1/2",
            cwd=tmp_path, env={"OPENAI_API_KEY": KEY, "LC_ALL": "C"},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "3 of 3  100 % (44-100 %)  2.0" in done.stdout
    assert "6 calls, 600 tokens in (0 cached), 60 out, $0.0007" in done.stdout
    plan, moves = done.stderr.index("planned at most"), done.stderr.index("3/3")
    assert plan < moves, "the plan comes before the first call"
    assert (tmp_path / "runs" / "eval-1" / "report.md").is_file()
    assert KEY not in files(tmp_path) + done.stdout + done.stderr


def test_json_is_the_only_thing_on_standard_output(tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl")
    with FakeServer(winner) as fake:
        words = ["eval", "--tasks", "t.jsonl", "--model", "fake", "--base-url", fake.url, "--split", "dev"]
        done = cli(*words, "--limit", "1", "--json", "--run", "mine", cwd=tmp_path)
        data = json.loads(done.stdout)
        again = cli(*words, "--limit", "1", "--json", "--run", "mine", cwd=tmp_path)
        asked = fake.count
    assert data["status"] == "finished" and data["systems"][0]["success"]["k"] == 1
    assert data["systems"][0]["split"] == "dev" and data["dir"] == "runs/mine"
    assert asked == 2 and json.loads(again.stdout)["systems"] == data["systems"]  # resumed: nothing bought


def test_net_07_a_refused_key_stops_the_run_at_once(tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 50)
    with FakeServer(lambda seen: fail(401, f"Incorrect API key provided: {KEY}", "invalid_api_key")) as fake:
        done = cli(
            "eval", "--tasks", "t.jsonl", "--model", "openai/fake", "--base-url", fake.url, "--workers", "8",
            cwd=tmp_path, env={"OPENAI_API_KEY": KEY},
        )  # fmt: skip
        assert fake.count <= 8
    clear(done, 4, "OPENAI_API_KEY")
    assert KEY not in done.stderr + files(tmp_path)


def test_no_key_at_all_is_said_before_any_request(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl")
    done = inside("eval", "--tasks", "t.jsonl", "--model", "openai/gpt-x")
    clear(done, 2, "OPENAI_API_KEY")


def test_unknown_model(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl")
    missing = fail(404, "The model `fakee` does not exist", "model_not_found")
    with FakeServer(lambda seen: missing) as fake:
        done = inside("eval", "--tasks", "t.jsonl", "--model", "fakee", "--base-url", fake.url)
        assert fake.count <= 8
    clear(done, 4, "fakee")


@pytest.mark.slow  # LiteLLM is asked, and takes seconds to import
def test_unknown_provider(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl")
    clear(inside("eval", "--tasks", "t.jsonl", "--model", "opneai/x"), 2, "opneai", "did you mean 'openai'")


def test_unreachable_server(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl")
    done = inside("eval", "--tasks", "t.jsonl", "--model", "m", "--base-url", NOBODY)
    clear(done, 4, "127.0.0.1:9")


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "holds no tasks"), ('{"env":"x"}\n', "needs goal"), ("[]\n", "line 1"), ("{\n", "line 1")],
    ids=["empty", "no goal", "list", "no json"],
)
def test_a_task_file_that_cannot_be_used(content: str, words: str, inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(content)
    clear(inside("eval", "--tasks", "t.jsonl", "--model", "m"), 2, "t.jsonl", words)
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_unknown_task_set_names_the_nearest(inside: Inside, tmp_path: Path) -> None:
    clear(inside("eval", "--tasks", "houshold-easy"), 2, "did you mean 'household-easy'")


def test_unknown_config_key(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[wia]\ngama = 1\n")
    clear(inside("eval", "--config", "c.toml"), 2, "c.toml", "wia.gama", "did you mean 'gamma'")
    clear(inside("eval", "--set", "wia.gama=1"), 2, "wia.gama", "did you mean 'gamma'")
    (tmp_path / "c.toml").write_text("a = [\n")
    clear(inside("eval", "--config", "c.toml"), 2, "c.toml", "TOML")
    clear(inside("eval", "--config", "none.toml"), 2, "none.toml")


def test_broken_prompt_file(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl")
    file = tmp_path / "p.toml"
    for content, words in (("act = [", "TOML"), ('"act.instrctions" = "x"', "act.instructions")):
        file.write_text(content)
        clear(inside("eval", "--tasks", "t.jsonl", "--prompt", "p.toml"), 2, "p.toml", words)
    clear(inside("eval", "--tasks", "t.jsonl", "--prompt", "no.toml"), 2, "no.toml")


def test_missing_extra(inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("alfworld", "textworld"):
        monkeypatch.setitem(sys.modules, name, None)
    row = next(
        task for task in load_tasks("household-easy") if task.split == "test"
    )  # one that can be played
    line = {"env": "household:alfworld", "goal": row.goal, "split": "test", "params": dict(row.params)}
    (tmp_path / "t.jsonl").write_text(json.dumps(line))
    done = inside("eval", "--tasks", "t.jsonl", "--agent", "random", "--model", "m", "--base-url", NOBODY)
    clear(done, 2, "alfworld", "pip install")


def test_env_05_partial_success_has_an_exit_code_of_its_own(inside: Inside, tmp_path: Path) -> None:
    rows = [
        json.dumps(
            {"env": "tests.toy:Faulty", "goal": f"Out {i}.", "split": "test", "params": {"raise": i == 1}}
        )
        for i in range(4)
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))

    def slow(seen: Seen) -> Answer:  # looks round once, so that the world gets to its third step
        if "Nothing happens." not in json.dumps(seen.body):
            return Say(json.dumps({"thought": "", "action": "look around", "predictions": []}))
        return winner(seen)

    with FakeServer(slow) as fake:
        done = inside("eval", "--tasks", "t.jsonl", "--model", "fake", "--base-url", fake.url)
    assert done.returncode == 5, done.stderr
    assert "1 episodes ended in infrastructure errors" in done.stderr and "of 3" in done.stdout
    assert "sk-abcdefghijklmnopqrstuvwx" not in files(tmp_path)


def test_unknown_split_and_a_run_without_a_final_prompt(inside: Inside, tmp_path: Path) -> None:
    clear(inside("eval", "--split", "tset"), 2, "did you mean 'test'")
    clear(inside("eval", "nothing"), 2, "no run 'nothing'")
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "config.toml").write_text("")
    clear(inside("eval", "r", "--prompt", "x"), 2, "leave out --prompt")


def test_resume_plays_the_same_tasks_with_the_same_prompt(inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 4)
    (tmp_path / "mine.txt").write_text("Never hurry.")
    with FakeServer(winner) as fake:
        words = [
            "eval",
            "--tasks",
            "t.jsonl",
            "--model",
            "fake",
            "--base-url",
            fake.url,
            "--prompt",
            "mine.txt",
        ]
        words += ["--split", "dev", "--limit", "3", "--workers", "1"]
        stopped = inside(*words, "--max-calls", "3")
        assert stopped.returncode == 3 and fake.count == 3
        done = inside("eval", "--resume", "--max-calls", "100", "--json")
        assert done.returncode == 0, done.stderr
        assert all("Never hurry." in json.dumps(seen.body) for seen in fake.requests)
        assert fake.count == 6
    (system,) = json.loads(done.stdout)["systems"]
    assert (system["split"], system["success"]["n"]) == ("dev", 3)
    clear(inside("eval", "--resume"), 2, "no interrupted eval")
    clear(inside("eval", "r", "--resume"), 2, "leave out RUN")


def test_an_environment_of_ones_own(inside: Inside, tmp_path: Path) -> None:
    assert inside("env", "new", "vault").returncode == 0

    def opens(seen: Seen) -> Answer:
        text = json.dumps(seen.body)
        action = "open chest" if "find a key and take it" in text else "search basket"
        return Say(json.dumps({"thought": "", "action": action, "predictions": [""]}))

    with FakeServer(opens) as fake:
        words = ["eval", "--env", "vault:Vault", "--model", "fake", "--base-url", fake.url, "--json"]
        done = inside(*words)
    assert done.returncode == 0, done.stderr
    (system,) = json.loads(done.stdout)["systems"]
    assert (system["success"]["n"], system["split"]) == (12, "test")
    assert 0 < system["success"]["k"] < 12  # the baskets among the twelve
    clear(inside("eval", "--resume", "--env", "vault:Vault"), 2, "leave out --env")


def test_flags_that_clash_are_refused(inside: Inside, tmp_path: Path) -> None:
    clear(inside("eval", "--prompt", "a.txt", "--prompts", "v1"), 2, "give one of them")
