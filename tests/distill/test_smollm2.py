"""The recipe smollm2-cpu on the embedded model itself, cut down to a warm start and two updates.

What it makes of the model at full length takes half an hour a seed: benchmarks/smollm2_cpu.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill import curve
from roleagent_lite.distill.online import train_online
from roleagent_lite.distill.recipe import load_recipe
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Task

KINDS = ("pick_clean_then_place_in_recep", "look_at_obj_in_light")  # what the base solves now and then


def some(split: str, count: int) -> list[Task]:
    tasks = [t for t in load_tasks("household-easy") if t.split == split]
    return [t for kind in KINDS for t in [t for t in tasks if t.params["type"] == kind][:count]]


@pytest.mark.embedded
def test_a_warm_start_and_two_updates_on_the_embedded_model(tmp_path: Path) -> None:
    rows = [*some("train", 2), *some("dev", 1)]
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in map(plain, rows)), encoding="utf-8")
    recipe = load_recipe("smollm2-cpu")
    online: dict[str, float] = {"tasks": 2, "group": 4, "updates": 2, "dev": 2, "states": 6}
    # After so few moves of six states an update pushes single actions far down, and what is rounded there
    # weighs in the mean of a few; the whole recipe stays under 0.09.
    online |= {"max_drift": 0.5}
    recipe = recipe.model_copy(
        update={
            "warm": recipe.warm.model_copy(update={"group": 2, "epochs": 1}),
            "online": recipe.online.model_copy(update=online),
        }
    )
    told = train_online(recipe, str(file), tmp_path / "run")
    assert (told["updates"], told["stopped"]) == (2, "")
    assert told["warm"]["imitated"]["episodes"] >= 1 and told["warm"]["last"]["loss"] < 2
    rows_of = curve.read(tmp_path / "run")
    assert [r["n"] for r in rows_of if "n" in r] == [8, 8]
    drifts = [r["drift"] for r in rows_of if "drift" in r]
    assert drifts and max(drifts) < load_recipe("smollm2-cpu").online.max_drift
    assert [look["n"] for look in told["dev"]] == [2, 2]


def plain(task: Task) -> dict[str, object]:
    params = dict(task.params)
    return {"env": task.env, "goal": task.goal, "seed": task.seed, "params": params, "split": task.split}
