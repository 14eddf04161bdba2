"""A server that never answers, in all its ways: what is counted, what is said, and when a run is stopped."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cases.kit import command_line
from tests.fake_server import Answer, FakeServer, Raw, fail

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
