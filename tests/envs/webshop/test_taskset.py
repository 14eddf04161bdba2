"""The shipped set is what the rows say, and each of its wishes can be granted."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

from roleagent_lite.envs import registry
from roleagent_lite.envs.webshop.taskset import rows
from roleagent_lite.tasksets import load_tasks

TASKS = load_tasks("webshop")


def test_the_file_is_what_is_made() -> None:
    assert [(t.goal, t.params, t.split) for t in TASKS] == [
        (r["goal"], r["params"], r["split"]) for r in rows()
    ]


def test_no_family_is_in_two_splits() -> None:
    where = defaultdict(set)
    for task in TASKS:
        where[task.params["goal"]["name"]].add(task.split)
    assert all(len(splits) == 1 for splits in where.values())
    assert Counter(t.split for t in TASKS) == {"train": 442, "test": 204, "dev": 74}


def test_plans_of_some_tasks_score_full_marks() -> None:
    for task in TASKS[::60]:
        env = registry.make(task)
        for action in env.walkthrough():  # type: ignore[attr-defined]
            last = env.step(action)
        assert (env.score(), last.done, last.reward) == (1.0, True, 1.0)


def test_chance_is_far_from_full_marks() -> None:
    rng, scores = random.Random(0), []
    for task in TASKS[:100]:
        env = registry.make(task)
        for _ in range(15):
            if env.step(rng.choice(env.observe().admissible)).done:
                break
        scores.append(env.score())
    assert 0 < sum(scores) / len(scores) < 0.5
    assert sum(score == 1.0 for score in scores) < 20
