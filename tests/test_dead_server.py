"""A server that never answers, in all its ways: what is counted, what is said, and when a run is stopped."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from roleagent_lite.store import Run
from tests.cases.kit import Said, command, command_line, goal, won
from tests.cli.make import toy_tasks
from tests.fake_server import Answer, FakeServer, Raw, Seen, fail

BAD_GZIP = Raw(200, gzip.compress(b'{"choices": []}')[:-9] + b"123456789", {"Content-Encoding": "gzip"})
# How it does not answer, and whether that may have been charged.
SILENT: dict[str, tuple[Answer, bool]] = {
    "500": (fail(500, "the backend is down"), False),
    "a list": (Raw(200, [1, 2]), True),
    "no choice": (Raw(200, {"choices": []}), True),
    "HTML called JSON": (Raw(200, "<html><h1>Welcome</h1></html>"), True),
    "bad gzip": (BAD_GZIP, True),
}
FAST = ("--set", "limits.retries=1", "--workers", "4")


@pytest.mark.parametrize("name", SILENT)
def test_requests_that_brought_no_answer_are_counted_and_told(name: str, tmp_path: Path) -> None:
    answer, charged = SILENT[name]
    with FakeServer(lambda seen: answer) as fake:
        said = command_line(fake, tmp_path, *FAST, tasks=3)
        sent = fake.count
    assert said.code == 5 and sent == 6, said.err
    assert f"{sent} requests sent, none answered" in said.out and "no call was made" not in said.out
    assert (f"{sent} of them may have been charged" in said.out) is charged
    run = tmp_path / "runs" / "run"
    (spend,) = json.loads((run / "report.json").read_text(encoding="utf-8"))["spend"]
    assert (spend["role"], spend["failed"]) == ("agent", sent)
    assert (spend["calls"], spend["lost"], spend["unread"]) == ((sent, sent, sent) if charged else (0, 0, 0))
    for page in ("report.md", "report.html"):
        text = (run / page).read_text(encoding="utf-8")
        assert "none answered" in text and "No call was made" not in text, page


def test_a_resume_remembers_what_may_have_been_charged(tmp_path: Path) -> None:
    """So that a cap on calls means the same before and after."""
    with FakeServer(lambda seen: Raw(200, [1, 2])) as fake:
        first = command_line(fake, tmp_path, *FAST, "--max-calls", "3", tasks=3)
        sent = fake.count
        again = command_line(fake, tmp_path, *FAST, "--max-calls", "3", tasks=3)
    assert (first.code, again.code, sent, fake.count) == (3, 3, 3, 3), (first.err, again.err)


def ends(folder: Path) -> list[str]:
    """Outcomes of the episodes that the run holds."""
    with Run.open(folder / "runs" / "run") as run:
        return [t.outcome.kind for t in run.trajectories]


@pytest.mark.parametrize("name", ["500", "bad gzip"])
def test_a_server_that_never_answers_stops_the_run_early_and_a_resume_plays_all(
    name: str, tmp_path: Path
) -> None:
    answer, _ = SILENT[name]
    mended: list[bool] = []
    with FakeServer(lambda seen: won(seen) if mended else answer) as fake:
        dead = command_line(fake, tmp_path, *FAST, tasks=30)
        line = dead.message(4, "not one of the first 8 episodes got an answer", "resume it")
        assert ("the backend is down" in line) is (name == "500")
        assert fake.count <= 2 * (8 + 4), "each worker ends with the call that it is at"
        assert ends(tmp_path) == [], "nothing was played, so a resume plays it"
        mended.append(True)
        again = command_line(fake, tmp_path, *FAST, tasks=30)
    assert again.code == 0 and "30 of 30" in again.out, again.err


def test_evolve_too_stops_where_nothing_is_answered(tmp_path: Path) -> None:
    toy_tasks(tmp_path / "e.jsonl", 20)
    with FakeServer(lambda seen: fail(500, "the backend is down")) as fake:
        words = ["evolve", "--tasks", "e.jsonl", "--model", "fake", "--base-url", fake.url, "--run", "run"]
        said = Said(*command(*words, *FAST, cwd=tmp_path), tmp_path)
    said.message(4, "the backend is down")
    assert "no usable answer" in (tmp_path / "runs/run/report.md").read_text(encoding="utf-8")


def test_a_few_episodes_that_nobody_answered_end_as_before_with_the_reason_on_the_screen(
    tmp_path: Path,
) -> None:
    with FakeServer(lambda seen: fail(500, "the backend is down")) as fake:
        said = command_line(fake, tmp_path, *FAST, tasks=7)
    assert said.code == 5 and ends(tmp_path) == ["infrastructure_error"] * 7
    assert "7 episodes ended in infrastructure errors" in said.err and "the backend is down" in said.err
    assert "No episode could be scored" in said.out


def test_a_server_that_recovers_in_time_does_not_end_the_run(tmp_path: Path) -> None:
    """Seven episodes fail, the eighth is answered: the rest may fail again, and none of it ends the run."""

    def script(seen: Seen) -> Answer:
        return won(seen) if goal(seen) == "8" else fail(500, "the backend is down")

    with FakeServer(script) as fake:
        said = command_line(fake, tmp_path, "--set", "limits.retries=0", "--workers", "1", tasks=20)
    assert said.code == 5 and "1 of 1" in said.out, said.err
    assert sorted(ends(tmp_path)) == ["infrastructure_error"] * 19 + ["solved"]


def test_a_word_on_a_prompt_is_an_answer(tmp_path: Path) -> None:
    """A filter that refuses one task, or all of them, says that the server is there."""

    def script(seen: Seen) -> Answer:
        return fail(400, "no", "content_filter") if goal(seen) == "1" else fail(500, "the backend is down")

    with FakeServer(script) as fake:
        said = command_line(fake, tmp_path, "--set", "limits.retries=0", "--workers", "1", tasks=12)
    assert said.code == 5, said.err
    assert sorted(ends(tmp_path)) == ["cut_off"] + ["infrastructure_error"] * 11
