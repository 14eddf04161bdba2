"""What evolve and eval share on the screen: interrupts, caps, the result at the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roleagent_lite.cli import job
from roleagent_lite.config import from_mapping
from roleagent_lite.errors import BudgetStop, Interrupted
from roleagent_lite.report import write_report
from tests.cli.make import cli, environment, toy_tasks
from tests.cli.test_eval_ import winner
from tests.fake_server import Answer, FakeServer, Say, Seen
from tests.report import make


def data_of(path: Path) -> dict[str, object]:
    write_report(path)
    found: dict[str, object] = json.loads((path / "report.json").read_text())
    return found


def test_a_found_key_is_named_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert job.key_hint(from_mapping({})) is None
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-abcdefghijklmnop1234")
    hint = job.key_hint(from_mapping({}))
    assert hint is not None and "OPENAI_API_KEY" in hint and "not used" in hint and "1234" not in hint
    assert job.key_hint(from_mapping({"model": "openai/x"})) is None
    assert job.key_hint(from_mapping({"models": {"world": "anthropic/x"}})) is None


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("folder", "more"), [("runs", ""), ("other", " --runs other")])
def test_an_interrupt_says_how_to_go_on(
    folder: str,
    more: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(Interrupted, match=rf"roleagent-lite evolve --resume --run mine{more}$"),
        job.watched("evolve", Path(folder) / "mine", from_mapping({})),
    ):
        raise KeyboardInterrupt
    assert "run mine in" in capsys.readouterr().err


@pytest.mark.usefixtures("untouched")
def test_a_cap_says_how_to_go_on_and_where_the_report_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make.whole_run(tmp_path / "r", finished=False).close()
    write_report(tmp_path / "r")
    with (
        pytest.raises(BudgetStop, match="spent"),
        job.watched("evolve", tmp_path / "r", from_mapping({"budget": {"max_usd": 0.05}})),
    ):
        raise BudgetStop("spent")
    err = capsys.readouterr().err
    assert f"--resume --run r --runs {tmp_path} --max-usd 0.1\n" in err and "partial report" in err
    caps = from_mapping({"budget": {"max_usd": 0, "max_calls": 2000000}})
    assert job.twice(caps) == " --max-usd 1 --max-calls 4000000" and job.twice(from_mapping({})) == ""


def test_what_an_environment_writes_past_python_stays_off_standard_output(tmp_path: Path) -> None:
    code = "import os\nfrom tests.toy import Toy\n\nclass Loud(Toy):\n    def step(self, action):\n"
    code += "        os.write(1, b'past Python\\n')\n        return super().step(action)\n"
    (tmp_path / "loud.py").write_text(code, encoding="utf-8")
    row = {"env": "loud:Loud", "goal": "get out", "split": "test"}
    (tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    with FakeServer(winner) as fake:
        words = ("eval", "--tasks", "t.jsonl", "--model", "fake", "--base-url", fake.url, "--json")
        done = cli(*words, cwd=tmp_path)
    assert json.loads(done.stdout)["status"] == "finished", done.stderr
    assert "past Python" in done.stderr


def test_words_of_a_finished_run(tmp_path: Path) -> None:
    make.whole_run(tmp_path / "r").close()
    text = job.words(data_of(tmp_path / "r"), tmp_path / "r")
    assert text.startswith("On the 12 sealed test tasks")
    assert "sealed test  final   9 of 12  75 % (47-91 %)" in text
    assert text.index("sealed test  seed") < text.index("dev  ") < text.index("training  ")
    assert "4 calls, 300 tokens in (60 cached), 30 out, $0.0030; tokens unknown for 1 calls" in text
    assert "price unknown for 1 calls" in text and text.endswith("report.md")


def test_words_where_the_seed_stays(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        run.record("final", "final", {"seed": make.SEED.id, "best": make.SEED.id, "final": make.SEED.id,
                                      "reason": "no candidate entered"})  # fmt: skip
        make.play(run, make.episode(make.task(1), make.SEED))
        run.record("finished", "finished", {})
    text = job.words(data_of(tmp_path / "r"), tmp_path / "r")
    assert text.startswith("The seed prompt stays: no candidate entered.") and "no call was made" in text
    assert "sealed test  seed " in text


def test_summary_leaves_long_texts_out(tmp_path: Path) -> None:
    make.whole_run(tmp_path / "r").close()
    found = job.summary(data_of(tmp_path / "r"), tmp_path / "r")
    assert found["status"] == "finished" and found["report"].endswith("report.md")
    assert "prompts" not in found and "curriculum" not in found


def slow_winner(seen: Seen) -> Answer:
    said = winner(seen)
    assert isinstance(said, Say)
    return Say(said.text, delay=0.5)


def test_res_04_an_interrupt_ends_the_run_leaves_a_partial_report_and_resumes(tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 30)
    with FakeServer(slow_winner) as fake:
        words = ["eval", "--tasks", "t.jsonl", "--model", "fake", "--base-url", fake.url, "--run", "r"]
        process = subprocess.Popen(
            [sys.executable, "-m", "roleagent_lite.cli.main", *words, "--workers", "8"],
            cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while fake.count < 20 and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        seen_by_then = fake.count
        assert process.returncode == 130, err
        assert "--resume --run r" in err and "Traceback" not in err and out == ""
        assert (tmp_path / "runs/r/report.md").read_text().startswith("# Run r (partial)")
        done = (tmp_path / "runs/r/trajectories.jsonl").read_text().count("\n")
        assert done >= 1
        listed = json.loads(cli("runs", "--json", cwd=tmp_path).stdout)
        assert listed[0]["status"] == "interrupted"
        time.sleep(0.6)
        assert fake.count == seen_by_then  # nothing is sent after the end
        again = cli(*words, "--json", "--workers", "8", cwd=tmp_path)
        bought = fake.count
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["systems"][0]["success"] | {"low": 0} == {
        "k": 30, "n": 30, "mean": 1.0, "low": 0, "high": 1.0,
    }  # fmt: skip
    assert bought <= 60 + 8  # at most one call a worker is bought twice


def test_acc_03_a_cap_has_an_exit_code_of_its_own_and_resumes(tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 4)
    with FakeServer(winner) as fake:
        words = ["eval", "--tasks", "t.jsonl", "--model", "fake", "--base-url", fake.url, "--run", "r"]
        words += ["--workers", "1", "--price", "100/1000"]  # two cents a call
        stopped = cli(*words, "--max-usd", "0.05", cwd=tmp_path)
        assert fake.count <= 3
        assert stopped.returncode == 3 and "--max-usd 0.05 reached" in stopped.stderr
        assert "Traceback" not in stopped.stderr and stopped.stdout == ""
        again = cli(*words, "--max-usd", "5", cwd=tmp_path)
        assert fake.count == 8
    assert again.returncode == 0 and "4 of 4" in again.stdout, again.stderr
