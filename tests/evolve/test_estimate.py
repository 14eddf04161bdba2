"""The estimate: upper bounds by hand, and never less than what a run then buys."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.ask import load_prompts
from roleagent_lite.evolve.estimate import planned, planned_evaluation
from roleagent_lite.evolve.tasks import task_sets
from roleagent_lite.store import Run
from roleagent_lite.types import Task
from tests.evolve.kitchen import SMALL, run_kitchen, settings

PROMPTS = load_prompts()


def counts(folder: Path, *over: dict[str, Any]) -> dict[str, int]:
    config = settings(folder, *over)
    sets = task_sets(config.tasks, dev=config.evolve.dev, test=config.evolve.test)
    total: Counter[str] = Counter()
    for row in planned(config, PROMPTS, PROMPTS.seed_set(), sets):
        total[row.module] += row.calls
    return dict(total)


def test_counts_by_hand(tmp_path: Path) -> None:
    found = counts(tmp_path, SMALL, {"aiw": {"retrieve": "llm"}})
    episodes = 2 * 4 * 2 * 2  # rounds, tasks, group, parent and child
    assert found["act"] == episodes * 6 + 3 * 5 * 6 + 2 * 5 * 6
    assert found["diagnose"] == episodes
    assert found["retrieve"] == 2 * 4 and found["reflect"] == 2 and found["predict"] == 0


@pytest.mark.parametrize(
    ("over", "module", "calls"),
    [
        ({"aiw": {"diagnose": "none"}}, "diagnose", 0),
        ({"aiw": {"diagnose": "none", "retrieve": "llm"}}, "retrieve", 0),
        ({"aiw": {"retrieve": "random"}}, "retrieve", 0),
        ({"wia": {"predict": "separate"}}, "predict", 192),
        ({"evolve": {"components": ["act.demonstrations"]}}, "reflect", 0),
    ],
    ids=str,
)
def test_what_is_switched_off_costs_nothing(
    tmp_path: Path, over: dict[str, Any], module: str, calls: int
) -> None:
    assert counts(tmp_path, SMALL, over)[module] == calls


def test_more_tasks_asked_for_than_there_are_count_once(tmp_path: Path) -> None:
    assert counts(tmp_path, {"evolve": {"tasks_per_round": 99}}) == counts(
        tmp_path, {"evolve": {"tasks_per_round": 20}}
    )


def test_a_run_never_buys_more_than_was_planned(tmp_path: Path) -> None:
    plan = counts(tmp_path, SMALL)
    result = run_kitchen(tmp_path, SMALL)
    with Run.open(result.run_dir) as run:
        bought = Counter(call.request.module for call in run.calls)
        told = run.events.get("estimate")
    assert all(bought[module] <= plan[module] for module in bought)
    assert told is not None and told.data["calls"] == sum(plan.values()) and told.data["dollars"] == 0


@pytest.mark.parametrize(("predict", "foretold"), [("together", 192), ("separate", 192), ("off", 0)])
def test_the_embedded_agent_foretells_in_calls_of_its_own(
    tmp_path: Path, predict: str, foretold: int
) -> None:
    prompts = load_prompts("embedded")
    config = settings(tmp_path, SMALL, {"model": "embedded", "agent": "auto", "wia": {"predict": predict}})
    sets = task_sets(config.tasks, dev=config.evolve.dev, test=config.evolve.test)
    rows = planned(config, prompts, prompts.seed_set(), sets)
    agent = [(row.module, row.calls) for row in rows if row.role == "agent"]
    assert agent == [("choose", 192), ("choose", 150), ("foretell", foretold)]


def test_only_the_demonstrations_that_are_shown_are_planned(tmp_path: Path) -> None:
    prompts = load_prompts("embedded")
    config = settings(tmp_path, SMALL, {"model": "embedded", "agent": "auto"})
    sets = task_sets(config.tasks, dev=config.evolve.dev, test=config.evolve.test)
    more = replace(prompts.module("choose"), shown=9)
    many = replace(prompts, modules={**prompts.modules, "choose": more})
    few_, many_ = (planned(config, p, p.seed_set(), sets)[0].input_tokens for p in (prompts, many))
    assert many_ > 2 * few_
    (row,) = planned_evaluation(config, prompts, prompts.seed_set(), sets.test)
    assert row.module == "choose" and row.input_tokens < many_ / 2


def test_an_evaluation_plays_each_task_once(tmp_path: Path) -> None:
    config = settings(tmp_path)
    tasks = task_sets(config.tasks, dev=4, test=7).test
    (row,) = planned_evaluation(config, PROMPTS, PROMPTS.seed_set(), tasks)
    assert (row.role, row.calls) == ("agent", 7 * 6)


def test_tokens_are_those_of_the_world_that_is_played(tmp_path: Path) -> None:
    config = settings(tmp_path)

    def sent(world: str) -> int:
        rows = planned_evaluation(config, PROMPTS, PROMPTS.seed_set(), [Task("t", world, "g")])
        return rows[0].input_tokens

    assert sent("tools") - sent("household") == 1700
