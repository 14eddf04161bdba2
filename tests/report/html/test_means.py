"""Cost and settings in the page: every role, sums that are known, what is unknown, every setting."""

from __future__ import annotations

from pathlib import Path

from roleagent_lite.config import from_mapping
from roleagent_lite.report.html import means
from roleagent_lite.report.write import build
from tests.report import make


def test_cost_by_role_says_what_is_unknown(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        text = means.cost(build(run))
    assert 'data-s="agent">agent</th>' in text and 'data-s="reflector">' in text
    assert '<td class="num" data-s="300">300</td>' in text, "3 calls of 100 tokens"
    assert ">unknown</td>" in text, "the reflector's server said nothing"
    assert "1 min 15 s" in text and ">finished</td>" in text


def test_no_call_is_said_in_words(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        assert "No call was made." in means.cost(build(run))


def test_damaged_sessions_are_unknown(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        run.record("session/1", "session", {})
        text = means.cost(build(run))
    assert text.count(">unknown<") == 3


def test_every_setting_is_there(tmp_path: Path) -> None:
    config = from_mapping({"model": "openai/toy", "tasks": "toy", "budget": {"max_usd": 2.5}})
    with make.whole_run(tmp_path / "r", config=config) as run:
        text = means.settings(build(run))
    assert "<code>budget.max_usd</code>" in text and "<code>2.5</code>" in text
    assert "<code>models.judge</code>" in text and "<code>not set</code>" in text
    assert "What this model can and cannot do" not in text


def test_the_default_model_is_put_in_its_place(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r", config=from_mapping({"tasks": "household-easy"})) as run:
        text = means.settings(build(run))
    assert "135 million parameters" in text and "roleagent-lite evolve --run r-own" in text
