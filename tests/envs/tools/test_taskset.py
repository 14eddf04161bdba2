"""The shipped set: made by rule, without a text of BFCL, no world in two splits, every entry is served."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.envs.own import write_tasks
from roleagent_lite.envs.tools import data
from roleagent_lite.envs.tools.taskset import DEALT, SUBJECTS, families, goal, rows
from roleagent_lite.tasksets import load_tasks
from tests.envs.tools.here import needs_bfcl

TASKS = load_tasks("tools")


@needs_bfcl
def test_the_file_is_what_is_made() -> None:
    made = [(r["id"], r["env"], r["goal"], r["params"], r["split"]) for r in rows()]
    assert [(t.id, t.env, t.goal, t.params, t.split) for t in TASKS] == made


@needs_bfcl
def test_without_a_task_file_the_tasks_are_the_same(tmp_path: Path) -> None:
    own = load_tasks(write_tasks("tools", tmp_path / "own.jsonl"))
    assert [(t.id, t.goal, t.params, t.split) for t in own] == [
        (t.id, t.goal, t.params, t.split) for t in TASKS
    ]


def test_what_a_row_says() -> None:
    goals = {task.goal for task in TASKS}
    assert len(TASKS) == 800 and len(goals) == 20
    for task in TASKS:
        variant = task.id.removeprefix("multi_turn_").rpartition("_")[0]
        assert task.params == {"entry": task.id, "type": variant, "turns": task.params["turns"]}
        assert 1 <= task.params["turns"] <= 8
    assert goal(["TwitterAPI", "GorillaFileSystem"]) == (
        "Serve the user's requests one after another by calling functions about files and posts."
    )
    assert set(SUBJECTS) == set(data.CLASSES)


def test_every_variant_is_dealt_alike() -> None:
    dealt = Counter((task.params["type"], task.split) for task in TASKS)
    expected = {"train": 119, "test": 60, "dev": 21}
    assert dealt == {(v, s): n for v in data.VARIANTS for s, n in expected.items()}
    assert Counter(DEALT) == {"train": 6, "test": 3, "dev": 1}
    where = defaultdict(set)
    for task in TASKS:
        where[task.id.rpartition("_")[2]].add(task.split)
    assert len(where) == 200 and all(len(splits) == 1 for splits in where.values())


@needs_bfcl
def test_no_world_is_in_two_splits() -> None:
    where = defaultdict(set)
    for task in TASKS:
        where[json.dumps(data.entry(task.id).config, sort_keys=True)].add(task.split)
    assert all(len(splits) == 1 for splits in where.values())


def test_what_shares_its_data_is_one_family() -> None:
    def entry(number: int, world: str) -> data.Entry:
        return data.Entry(f"multi_turn_base_{number}", (), {"w": world}, (), (), {})

    one = [entry(n, w) for n, w in enumerate("abcbe")]
    other = [entry(n, w) for n, w in enumerate("vwxyx")]
    assert families([one]) == {0: 0, 1: 1, 2: 2, 3: 1, 4: 4}
    assert families([one, other]) == {0: 0, 1: 1, 2: 2, 3: 1, 4: 2}
    third = [entry(n, w) for n, w in enumerate("qrstt")]
    assert families([one, other, third]) == {0: 0, 1: 1, 2: 1, 3: 1, 4: 1}


@needs_bfcl
@pytest.mark.parametrize("variant", data.VARIANTS)
def test_the_plan_of_every_entry_scores_full_marks(variant: str) -> None:
    limit = registry.spec("tools").max_steps
    for task in TASKS:
        if task.params["type"] != variant:
            continue
        env = registry.make(task)
        came = [env.step(action) for action in env.walkthrough()]  # type: ignore[attr-defined]
        assert all(one.valid for one in came), task.id
        assert (env.score(), came[-1].done) == (1.0, True), task.id
        assert sum(one.reward for one in came) == pytest.approx(1.0)
        assert len(came) <= limit(task), task.id


@needs_bfcl
def test_chance_is_far_from_full_marks() -> None:
    rng, scores = random.Random(0), []
    for task in TASKS[::8]:
        env = registry.make(task)
        for _ in range(registry.spec("tools").max_steps(task)):
            if env.step(rng.choice(env.observe().admissible)).done:
                break
        scores.append(env.score())
    assert len(scores) == 100 and sum(scores) / len(scores) < 0.05 and 1.0 not in scores
