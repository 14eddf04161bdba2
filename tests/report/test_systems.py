"""The section on systems: every number with n and interval, no winner in the noise, unknown stays unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.evals.harness import result_of
from roleagent_lite.report import systems
from roleagent_lite.report.write import build, render
from roleagent_lite.store import Run
from roleagent_lite.types import Outcome, PromptSet, Trajectory, Usage
from tests.report import make

TASKS = [make.task(i) for i in range(12)]
SUITE: dict[str, Any] = {
    "name": "twelve", "about": "Twelve tasks.", "systems": ["a", "b", "c"], "repetitions": 1,
    "temperature": 0.0,
    "seeds": [0], "budget": {"rule": "calls", "amount": 30.0}, "reference": ["alfworld"],
    "sets": [{"tasks": "t", "split": "test", "hash": "abc", "limit": 12, "max_steps": 5}],
}  # fmt: skip


def evaluated(
    path: Path, ends: Mapping[str, Sequence[Outcome]], usage: Usage | None = None, **suite: Any
) -> Run:
    """A run in which each system ended its tasks so, one entry a task (or a task and repetition)."""
    run = make.new_run(path)
    for task in TASKS:
        run.tasks.put(task)
    run.record("suite", "suite", {**SUITE, "systems": list(ends), **suite})
    for name, outcomes in ends.items():
        own = PromptSet(f"set-of-{name}", {})
        run.record(f"system/{name}", "system", {"system": name, "prompt_set": own.id, "model": "m"})
        if not outcomes:
            continue
        times = len(outcomes) // len(TASKS)
        played: list[Trajectory] = []
        for number, outcome in enumerate(outcomes):
            one = make.episode(TASKS[number // times], own, outcome, rollout=number % times)
            run.trajectories.put(one)
            played.append(one)
        run.results.put(
            result_of(
                "twelve", name, TASKS, played, usage or Usage(100, 10, 0, 0, 0.5),
                temperature=suite.get("temperature", 0.0), budget="30 calls a task", model="m",
            )
        )  # fmt: skip
    return run


def won(n: int, of: int = 12) -> list[Outcome]:
    return [make.SOLVED] * n + [make.LOST] * (of - n)


def test_a_table_of_systems_pairs_and_types(tmp_path: Path) -> None:
    with evaluated(tmp_path / "r", {"a": won(1), "b": won(11), "c": won(2)}) as run:
        text, data = render(build(run)), build(run).as_data()["suite"]
    assert "solved: a 1 of 12, b 11 of 12, c 2 of 12" in text
    assert "More than noise: b over a" in text and "More than noise: b over c" in text
    assert "Within noise: the other 1 of 3 pairs" in text
    assert "1 of 12: 8 % (1-35)" in text and "| b against a | 10 / 0 / 2 | 92 % |" in text
    assert "30 calls a task" in text and "5 steps at most" in text and "hash abc" in text
    assert "Role-Agent (trained)" in text and "Other models, other protocols" in text
    assert "## Success" not in text and "The prompt that was played" not in text
    assert [one["system"] for one in data["systems"]] == ["a", "b", "c"]
    assert data["pairs"][0]["success"]["wins"] == 10 and data["pairs"][0]["p"] == pytest.approx(3 * 2 / 1024)
    json.dumps(data)


def test_who_is_told_its_scores_is_said_and_what_each_system_is(tmp_path: Path) -> None:
    with evaluated(tmp_path / "r", {"a": won(1), "b": won(2)}) as run:
        assert "Told between" not in render(build(run)) and "| after |" not in render(build(run))
        facts = {"paper": "2303.11366", "keeps": "its memory", "leaves_out": "the rest", "sees_score": True}
        run.record("system/c", "system", {"system": "c", "prompt_set": "x", "model": "m", **facts})
        text, data = render(build(run)), build(run).as_data()["suite"]
    assert "Told between their tries how these were scored, the best one counting: c." in text
    assert "| c | arXiv 2303.11366 | its memory | the rest |" in text
    assert data["about"]["c"]["sees_score"] is True


def test_evl_01_no_winner_is_named_inside_the_noise(tmp_path: Path) -> None:
    with evaluated(tmp_path / "r", {"a": won(5), "b": won(7)}) as run:
        text = render(build(run))
    assert "Within noise: all pairs" in text and "More than noise" not in text
    assert "| within noise |" in text


def test_what_is_unknown_says_so_and_errors_count_both_ways(tmp_path: Path) -> None:
    ends = [*won(3, 10), make.BROKEN, make.BROKEN]
    with evaluated(
        tmp_path / "r", {"a": ends, "b": won(0)}, usage=Usage(None, None, None, None, None)
    ) as run:
        found = build(run)
        text = render(found)
        standing = found.standings
    assert standing is not None
    assert "3 of 10: 30 %" in text and "2 (25 % as 0)" in text
    assert "(lost) stand under what it cost alone, and in no budget of a task" in text
    assert systems.tokens(standing.summaries[0]) == systems.money(None) == "unknown"
    assert "nan" not in text and "± 0" not in text


def test_repetitions_bring_spread_and_pass_at_k(tmp_path: Path) -> None:
    twice = [make.SOLVED, make.LOST] * 6 + [make.LOST, make.LOST] * 6
    with evaluated(
        tmp_path / "r", {"a": twice, "b": [make.LOST] * 24}, repetitions=2, temperature=0.9
    ) as run:
        text = render(build(run))
    assert "- a: 50 %, 0 % in the single repetitions, standard deviation 35.4 points" in text
    assert "pass@2 0.5000, pass^2 0.0000 over 12 tasks" in text
    assert "played 2 times (seeds 0) at temperature 0.9" in text and "clustered by task" in text


def test_the_footer_names_the_tests_that_were_made(tmp_path: Path) -> None:
    half = [make.SOLVED, make.LOST] * 12
    with evaluated(tmp_path / "r", {"a": half, "b": won(24, 24)}, repetitions=2, temperature=0.9) as run:
        report = build(run)
    assert report.standings is not None
    assert report.standings.pairs[0].success.test == "sign-flip permutation"
    last = render(report).rstrip().splitlines()[-1]
    assert "permutation" in last and "corrected over all pairs (Holm)" in last and "exact paired" not in last


def test_a_partial_evaluation_says_who_is_missing(tmp_path: Path) -> None:
    with evaluated(tmp_path / "r", {"a": won(1), "c": won(11), "b": []}) as run:
        found = build(run)
        text = render(found)
    assert "Not finished: b." in text and "So far, episode by episode" in text
    assert found.standings is not None and found.standings.unfinished == ("b",)
    assert found.standings.pairs == () and "More than noise" not in text


def test_nothing_scored_yet(tmp_path: Path) -> None:
    with evaluated(tmp_path / "r", {"a": [], "b": []}, reference=[]) as run:
        text = render(build(run))
    assert "Not finished: a, b." in text and "Published" not in text


def test_a_table_that_this_version_lacks_is_no_fault(tmp_path: Path) -> None:
    with evaluated(tmp_path / "r", {"a": won(3), "b": won(3)}, reference=["alfworld", "of tomorrow"]) as run:
        assert "ALFWorld as published" in render(build(run))


def test_a_run_that_is_no_evaluation_has_no_standings(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        assert build(run).standings is None and build(run).as_data()["suite"] is None
