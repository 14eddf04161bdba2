"""Sections on cost and time, and the plain words about the embedded model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.config import from_mapping
from roleagent_lite.report import means
from roleagent_lite.report.gather import Spend, gather
from roleagent_lite.types import PromptSet, Usage
from tests.report import make


def test_spending_by_role_with_unknown_apart(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        text = means.spend_table(gather(run))
    assert "| agent | `toy-model` | 3 | 300 | 60 | 30 | $0.0030 |" in text
    assert "| reflector | `toy-model` | 1 | unknown | unknown | unknown | unknown |" in text
    assert "| all |  | 4 | 300 (unknown for 1 calls) | 60 (unknown for 1 calls) |" in text


def test_one_role_needs_no_sum(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        assert means.spend_table(gather(run)) == ""
        run.calls.put(make.call(1, usage=Usage(1, 1, 0, 0, 0.0)))
        text = means.spend_table(gather(run))
    assert "| all |" not in text and "$0.00" in text


def test_lost_and_failed_requests_are_shown() -> None:
    spend = Spend("agent", "m", 1200, 2, 1, 0, 0, 0, 0.0, 0.0, 0, 0)
    assert means.calls_words(spend) == "1,200 (2 lost, 1 requests failed)"


def test_sessions_tell_what_came_from_the_record(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        run.record("session/2", "session", {"calls": 0, "replayed": 4, "stopped": "cost cap"})
        facts = gather(run)
    text = means.time_words(facts, facts.spend)
    assert "| 1 | 1 min 15 s | 4 | 0 | finished |" in text
    assert "| 2 | unknown | 0 | 4 | cost cap |" in text


@pytest.mark.parametrize("raised", ["CancelledError: ", "KeyboardInterrupt: "])
def test_an_interrupted_session_is_called_so(tmp_path: Path, raised: str) -> None:
    with make.whole_run(tmp_path / "r") as run:
        run.record("session/2", "session", {"seconds": 5.0, "calls": 0, "replayed": 4, "stopped": raised})
        facts = gather(run)
    assert "| 2 | 5 s | 0 | 4 | interrupted |" in means.time_words(facts, facts.spend)


def test_only_the_default_model_gets_the_plain_words(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r", config=from_mapping({"tasks": "household-easy"})) as run:
        facts = gather(run)
        text = means.embedded_words(run.config, "first", facts)
    assert "135 million parameters" in text
    assert f"it solved {3 + 9 + 4 + 4} of {12 + 12 + 4 + 4 + 8} scored episodes" in text
    assert "rewritten by the reflector: 1 tried, 1 played, 1 entered the pool" in text
    assert "swaps of demonstrations: 0 tried" in text
    assert "roleagent-lite evolve --run first-own --model openai/MODEL --tasks household-easy" in text
    for model in ("openai/gpt-5-mini", "embedded:other.gguf"):
        assert means.embedded_words(from_mapping({"model": model}), "x", facts) == ""


def test_a_swap_of_demonstrations_is_no_work_of_the_reflector(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r", from_mapping({"tasks": "household-easy"})) as run:
        for number, (component, child, accepted) in enumerate(
            [("act.demonstrations", "c1", True), ("act.demonstrations", None, False), ("", None, False)]
        ):
            data = {"round": number, "component": component, "child": child, "accepted": accepted}
            run.record(f"candidate/{number}/x", "candidate", data)
        text = means.embedded_words(run.config, "x", gather(run))
    assert "reflector: 0 tried, 0 played, 0 entered" in text
    assert "swaps of demonstrations: 2 tried, 1 played, 1 entered the pool (a swap asks no model)" in text


def test_what_plays_without_a_model_is_no_feat_of_the_model(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r", from_mapping({"tasks": "household-easy"})) as run:
        run.record("suite", "suite", {"name": "quick", "systems": ["random", "prompt"]})
        for name, model in (("random", ""), ("prompt", "m")):
            own = PromptSet(f"set-of-{name}", {})
            run.record(f"system/{name}", "system", {"system": name, "prompt_set": own.id, "model": model})
            for i in range(3):
                run.trajectories.put(replace(make.episode(make.task(i), own, make.SOLVED), model=model))
        facts = gather(run)
        text = means.embedded_words(run.config, "e", facts)
    steps = facts.model_moves.steps
    assert steps > 0 and sum(m.steps for m in facts.moves.values()) == 2 * steps
    assert "it solved 3 of 3 scored episodes" in text and f"of its {steps} actions" in text
    assert "Proposals" not in text, "an evaluation proposes nothing"
    assert "roleagent-lite eval quick --systems random,prompt --run e-own --model openai/MODEL" in text
    facts.suite = {"name": "mine", "systems": ["random", "prompt"]}
    line = means.own_model_line(from_mapping({"tasks": "my.jsonl"}), "e", facts)
    assert line.startswith("roleagent-lite eval --tasks my.jsonl --systems random,prompt --run e-own")


def test_the_same_on_another_model_is_what_was_played(tmp_path: Path) -> None:
    """Not the whole suite, which may be a thousand times dearer."""
    with make.new_run(tmp_path / "r", from_mapping({"tasks": "shell"})) as run:
        facts = gather(run)

    def line(**suite: Any) -> str:
        facts.suite = suite
        return means.own_model_line(from_mapping({"tasks": "mine.jsonl"}), "e", facts).partition(" --run")[0]

    shell = {
        "name": "shell",
        "systems": ["prompt", "react", "role-agent"],
        "repetitions": 1,
        "temperature": 0.0,
    }
    assert line(**shell, sets=[{"tasks": "shell", "limit": None}]) == "roleagent-lite eval shell"
    few = {**shell, "systems": ["prompt"], "repetitions": 3, "temperature": 0.9, "sets": [{"limit": 2}]}
    assert line(**few) == (
        "roleagent-lite eval shell --systems prompt --repetitions 3 --temperature 0.9 --limit 2"
    )
    quick = {"name": "quick", "systems": ["random", "prompt", "react", "role-agent"], "sets": [{"limit": 3}]}
    assert line(**quick) == "roleagent-lite eval quick"
    assert line(name="mine", systems=["react"], sets=[{"limit": 4}]) == (
        "roleagent-lite eval --tasks mine.jsonl --systems react --limit 4"
    )


def test_the_agents_own_model_decides(tmp_path: Path) -> None:
    assert means.is_embedded(from_mapping({"models": {"world": "openai/x"}}))
    assert not means.is_embedded(from_mapping({"models": {"agent": "openai/x"}}))


def test_requests_that_brought_no_answer_in_words() -> None:
    assert means.requests_words(5, 1, 0, 0) == ""
    assert means.requests_words(0, 0, 99, 0) == "99 requests sent, none answered"
    assert means.requests_words(99, 99, 99, 99).startswith("99 requests sent, none answered; 99 of them may")
    assert (
        means.requests_words(4, 4, 15, 0) == "19 requests sent, no usable answer"
    )  # four in flight at the stop
    assert means.requests_words(10, 2, 3, 2).startswith("3 of 11 requests brought no answer; 2 of them may")
