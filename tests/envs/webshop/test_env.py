"""webshop as an Environment: protocol, own files, what is wrong with a task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.envs.checker import check
from roleagent_lite.envs.own import write_tasks
from roleagent_lite.envs.webshop.env import WebShop, files_in
from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Task
from tests.envs.webshop.conftest import recorded

TASKS = load_tasks("webshop")


def made(task: Task) -> WebShop:
    return cast(WebShop, registry.make(task))


def changed(**params: Any) -> Task:
    return Task("t", "webshop", "g", 0, {**TASKS[0].params, **params})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The recorded files under WebShop's own names."""
    names = {
        "items": "items_shuffle.json",
        "attributes": "items_ins_v2.json",
        "human": "items_human_ins.json",
    }
    for what, name in names.items():
        (tmp_path / name).write_text(json.dumps(recorded()["files"][what]), encoding="utf-8")
    return tmp_path


def test_the_checker_finds_nothing() -> None:
    spec = registry.spec("webshop")
    made(TASKS[0]).step("search[mug]")  # the first search of all builds the index
    assert check(spec.make, TASKS[0], other=TASKS[7]) == []
    assert (spec.max_steps(TASKS[0]), spec.history) == (15, 2)


def test_what_is_offered_is_no_limit() -> None:
    env = made(TASKS[0])
    first = env.observe()
    assert first.open and first.admissible[0].startswith("search[") and "price" not in first.admissible[0]
    assert env.step("search[travel mug]").valid
    assert all(action.startswith("click[") for action in env.observe().admissible)
    assert env.step("search[desk lamp]").valid  # on every page, as in the original
    assert not env.step("click[nothing]").valid
    assert not env.step("dance").valid
    assert env.score() == 0.0


def test_equal_state_equal_key_and_facts() -> None:
    one, other = made(TASKS[0]), made(TASKS[0])
    plan = one.walkthrough()
    for action in plan[:-1]:
        one.step(action)
    other.step("search[lamp]")
    assert one.observe().state_key != other.observe().state_key
    for action in plan[:-1]:
        other.step(action)
    assert one.observe().state_key == other.observe().state_key
    assert one.facts() == other.facts()
    assert "bought: no" in one.facts() and any(fact.startswith("product: B0") for fact in one.facts())


def test_snapshot_and_restore() -> None:
    env = made(TASKS[0])
    plan = env.walkthrough()
    env.step(plan[0])
    kept, seen = env.snapshot(), env.observe()
    for action in plan[1:]:
        env.step(action)
    assert env.score() == 1.0
    env.restore(kept)
    assert (env.observe(), env.score()) == (seen, 0.0)


def test_both_texts() -> None:
    plain, rich = made(changed()), made(changed(mode="text_rich"))
    for env in (plain, rich):
        env.step("search[mug]")
    assert " [SEP] " in plain.observe().text
    assert "[button] Back to Search [button_]" in rich.observe().text
    assert made(changed(show_attributes=True)).walkthrough() == plain.walkthrough()


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"mode": "html"}, "params.mode is 'html'; known: text, text_rich"),
        ({"mode": 3}, "params.mode is 3: one of text, text_rich"),
        ({"price_seed": "x"}, "params.price_seed must be a whole number"),
        ({"show_attributes": 1}, "params.show_attributes must be true or false"),
        ({"nouns": "ruel"}, "did you mean 'rule'"),
        ({"goal": {"asin": "B1"}}, "params.goal lacks 'options'"),
        ({"goal": None, "session": -1}, "session \\(0 to 719\\), found goal None, session -1$"),
        ({"goal": None, "session": 720}, "session \\(0 to 719\\), found goal None, session 720$"),
        ({"goal": None}, "params needs goal \\(an object\\) or session"),
    ],
)
def test_what_is_wrong_with_a_task(params: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(changed(**params))


@pytest.mark.parametrize("steps", [0, "3", True])
def test_a_limit_that_is_none(steps: Any) -> None:
    with pytest.raises(ConfigError, match="positive whole number"):
        registry.spec("webshop").max_steps(changed(max_steps=steps))


def test_ones_own_files(folder: Path, tmp_path: Path) -> None:
    name = f"webshop:{folder}"
    tasks = load_tasks(write_tasks(name, tmp_path / "own.jsonl"))
    goals = next(one for one in recorded()["loads"] if one["id"] == "human")["goals"]
    assert len(tasks) == len(goals)
    assert {t.split for t in tasks} == {"train", "dev", "test"}
    # The order of goals is the original's, whatever was drawn for prices.
    assert [t.goal.split(", and price")[0] for t in tasks] == [
        g["instruction_text"].split(", and price")[0] for g in goals
    ]
    env = made(tasks[0])
    assert env.observe().text.startswith("WebShop [SEP] Instruction: [SEP] ")
    assert check(registry.spec(name).make, tasks[0], other=tasks[1]) == []


def test_without_human_instructions_goals_are_made(folder: Path, tmp_path: Path) -> None:
    (folder / "items_human_ins.json").unlink()
    tasks = load_tasks(write_tasks(f"webshop:{folder}", tmp_path / "own.jsonl"))
    made_up = next(one for one in recorded()["loads"] if one["id"] == "synthetic")["goals"]
    assert len(tasks) == len(made_up)


def test_a_folder_that_lacks_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lacks items .*items_shuffle\.json.*, attributes"):
        files_in(tmp_path)
    with pytest.raises(ConfigError, match="lacks items"):
        made(Task("t", f"webshop:{tmp_path}", "g", 0, {"session": 0}))


def test_files_that_no_wish_comes_of_are_said(folder: Path, tmp_path: Path) -> None:
    (human,) = folder.glob("*human*")
    human.write_text("{}", encoding="utf-8")
    name = f"webshop:{folder}"
    with pytest.raises(
        ConfigError, match="no wish came of its files; human instructions must be of products"
    ):
        write_tasks(name, tmp_path / "own.jsonl")
