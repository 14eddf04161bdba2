"""Generated games: bounds of the tiers, disjoint rooms, and the shipped rows drawn anew."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from roleagent_lite.content import find
from roleagent_lite.envs import registry
from roleagent_lite.envs.household.engine import Engine
from roleagent_lite.envs.household.game import TASK_TYPES, class_of, game_from_row
from roleagent_lite.envs.household.generator import (
    SHIPPED,
    SHIPPED_SEED,
    SPLITS,
    TIERS,
    draw_row,
    make_rows,
    make_task_set,
)
from roleagent_lite.envs.household.oracle import search, walkthrough
from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import load_tasks, read_rows
from roleagent_lite.types import Split, Task

SHIPPED_TASKS = {tier: load_tasks(f"household-{tier}") for tier in TIERS}


@pytest.mark.parametrize("tier", TIERS)
def test_the_shipped_rows_are_drawn_anew(tier: str) -> None:
    """Equal to the file, every row: whoever changes the generator changes the rows or is told."""
    counts = SHIPPED[tier]
    fresh = make_task_set(tier, SHIPPED_SEED, counts)
    assert fresh == SHIPPED_TASKS[tier]
    rows = [row for _, row in read_rows(find("tasks", f"household-{tier}", ".jsonl"))]
    assert rows == make_rows(tier, SHIPPED_SEED, counts)


@pytest.mark.parametrize("tier", TIERS)
def test_the_shipped_sets(tier: str) -> None:
    tasks = SHIPPED_TASKS[tier]
    wanted = {"easy": (60, 36, 60), "medium": (40, 24, 50), "full": (24, 12, 48)}[tier]
    sizes = [sum(t.split == s for t in tasks) for s in SPLITS]
    assert all(n >= least for n, least in zip(sizes, wanted, strict=True))
    for split in SPLITS:
        kinds = Counter(t.params["type"] for t in tasks if t.split == split)
        assert set(kinds) == set(TASK_TYPES) and len(set(kinds.values())) == 1
    assert find("tasks", f"household-{tier}", ".jsonl").stat().st_size < 1_500_000
    assert {t.params["tier"] for t in tasks} == {tier}
    assert len({t.id for t in tasks}) == len(tasks)


@pytest.mark.parametrize("tier", TIERS)
def test_the_oracle_wins_every_shipped_task_within_its_tier(tier: str) -> None:
    bounds = TIERS[tier]
    for task in SHIPPED_TASKS[tier]:
        game = game_from_row(task.goal, task.params)
        plan = walkthrough(game)
        assert plan is not None and bounds.steps[0] <= len(plan) <= bounds.steps[1] <= bounds.limit
        env = registry.make(task)
        rewards = [env.step(command).reward for command in plan]
        assert rewards == [0.0] * (len(plan) - 1) + [1.0]
        assert env.score() == 1.0
        assert registry.spec("household").max_steps(task) == bounds.limit
        if bounds.fair:
            tried = search(game)
            assert tried is not None and len(tried) <= bounds.limit


@pytest.mark.parametrize("tier", TIERS)
def test_random_play_seldom_wins(tier: str) -> None:
    rng, won = random.Random(1), 0
    for task in SHIPPED_TASKS[tier]:
        env = registry.make(task)
        for _ in range(TIERS[tier].limit):
            if env.step(rng.choice(env.observe().admissible)).done:
                won += 1
                break
    assert won / len(SHIPPED_TASKS[tier]) < 0.1


@pytest.mark.parametrize("tier", TIERS)
def test_rooms_of_one_split_are_in_no_other(tier: str) -> None:
    rooms: dict[Split, set[tuple[str, ...]]] = {split: set() for split in SPLITS}
    for task in SHIPPED_TASKS[tier]:
        rooms[task.split].add(tuple(sorted(task.params["layout"]["room"])))
    other = make_rows(tier, 99, {"train": 12, "test": 12})  # another seed keeps the rule
    for row in other:
        rooms[row["split"]].add(tuple(sorted(row["params"]["layout"]["room"])))
    assert not rooms["train"] & rooms["test"]
    assert not rooms["train"] & rooms["dev"]
    assert not rooms["dev"] & rooms["test"]


def test_easy_prompts_stay_small() -> None:
    """A small model must read them: few commands to choose from, short texts."""
    for task in SHIPPED_TASKS["easy"]:
        env = registry.make(task)
        plan = walkthrough(game_from_row(task.goal, task.params)) or []
        for observation in [env.observe(), *(env.step(command).observation for command in plan)]:
            assert 5 <= len(observation.admissible) <= 12
            assert len(observation.text) <= 220


def test_full_rooms_have_the_original_sizes() -> None:
    sizes = [len(t.params["layout"]["room"]) for t in SHIPPED_TASKS["full"]]
    assert min(sizes) >= 6 and 30 <= max(sizes) <= 36
    things = [
        sum(len(r.get("holds", [])) for r in t.params["layout"]["room"].values())
        for t in SHIPPED_TASKS["full"]
    ]
    assert min(things) >= 8 and 40 <= max(things) <= 56
    shared = [
        t for t in SHIPPED_TASKS["full"]
        if len({r["place"] for r in t.params["layout"]["room"].values()}) < len(t.params["layout"]["room"])
    ]  # fmt: skip
    assert shared, "no room has receptacles that share a place"


@pytest.mark.parametrize("tier", TIERS)
def test_numbers_run_from_one_and_places_without_gaps(tier: str) -> None:
    """The original engine numbers so: only then can a row be written for it."""
    for task in SHIPPED_TASKS[tier]:
        layout = task.params["layout"]
        names = [*layout["room"], *(t for r in layout["room"].values() for t in r.get("holds", []))]
        for kind, count in Counter(map(class_of, names)).items():
            assert {f"{kind} {n}" for n in range(1, count + 1)} <= set(names)
        places = {layout["start"], *(r["place"] for r in layout["room"].values())}
        assert places == set(range(1, len(places) + 1))
        assert layout["start"] not in {r["place"] for r in layout["room"].values()}


def test_more_rows_keep_the_first_ones() -> None:
    few = make_rows("easy", 3, {"train": 6})
    assert make_rows("easy", 3, {"train": 12, "dev": 2})[:6] == few
    assert make_rows("easy", 4, {"train": 6}) != few
    assert make_rows("easy", 3, {}) == []


def test_rows_differ_and_goals_use_both_templates() -> None:
    goals = {(t.params["type"], t.goal.split(" ")[0] + t.goal.split(" ")[1]) for t in SHIPPED_TASKS["easy"]}
    assert len(goals) == 12
    games = {str(sorted(t.params["layout"]["room"].items())) for t in SHIPPED_TASKS["easy"]}
    assert len(games) > 0.95 * len(SHIPPED_TASKS["easy"])


@pytest.mark.parametrize("kind", TASK_TYPES)
@pytest.mark.parametrize("tier", TIERS)
def test_fresh_games_are_not_won_at_the_start(tier: str, kind: str) -> None:
    for number in range(5):
        row = draw_row(tier, "train", kind, random.Random(f"{kind}{number}"))
        engine = Engine(game_from_row(row["goal"], row["params"]))
        assert not engine.won
        assert row["params"]["object"] in row["goal"]


def test_unknown_tier() -> None:
    with pytest.raises(ConfigError, match="no household tier 'easi'; did you mean 'easy'"):
        make_rows("easi", 1, {"train": 1})


def test_tasks_have_content_ids_and_nothing_else_changes_them() -> None:
    one: Task = make_task_set("easy", 3, {"dev": 1})[0]
    assert one.id.startswith("t") and one.split == "dev" and one.env == "household"
