"""The shipped set is what the rows say, and each of its machines can be mended."""

from __future__ import annotations

from collections import Counter

import pytest

from roleagent_lite.aiw.vocabulary import load_vocabulary
from roleagent_lite.envs import registry
from roleagent_lite.envs.shell.faults import FAMILIES
from roleagent_lite.envs.shell.taskset import rows
from roleagent_lite.tasksets import load_tasks

TASKS = load_tasks("shell")


def test_the_file_is_what_is_made() -> None:
    assert [(t.env, t.goal, t.seed, dict(t.params), t.split) for t in TASKS] == [
        (r["env"], r["goal"], r["seed"], r["params"], r["split"]) for r in rows()
    ]


def test_every_family_is_in_every_split_and_no_seed_twice() -> None:
    assert Counter(t.split for t in TASKS) == {"train": 144, "test": 72, "dev": 24}
    assert Counter((t.split, t.params["type"]) for t in TASKS) == {
        (split, family): number
        for split, number in (("train", 12), ("dev", 2), ("test", 6))
        for family in FAMILIES
    }
    assert len({t.seed for t in TASKS}) == len({t.id for t in TASKS}) == len(TASKS)
    assert Counter((t.split, t.params["difficulty"]) for t in TASKS if t.split == "test") == {
        ("test", d): 24 for d in ("easy", "medium", "hard")
    }


def test_rows_hold_the_family_and_the_difficulty_alone() -> None:
    assert {tuple(t.params) for t in TASKS} == {("type", "difficulty")}
    assert not any(word in t.goal for t in TASKS for word in FAMILIES)


def test_the_vocabulary_of_failures_is_the_worlds_own() -> None:
    assert {"restart_missing", "old_fault_for_new", "no_report"} <= set(load_vocabulary("shell").modes)


def test_plans_are_short_and_begin_at_nothing() -> None:
    pytest.importorskip("bashkit", reason="bashkit is not installed: pip install 'roleagent-lite[shell]'")
    for task in TASKS[::12]:
        env = registry.make(task)
        assert env.score() == 0.0
        moves = [env.step(action) for action in env.walkthrough()]  # type: ignore[attr-defined]
        assert (env.score(), moves[-1].done, round(sum(m.reward for m in moves), 6)) == (1.0, True, 1.0), task
        assert len(moves) <= 12
