"""sealed: opened once, base and adapter together, with an honest comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill.job import distill
from roleagent_lite.distill.online import train_online
from roleagent_lite.distill.prepare import prepare
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.errors import ConfigError
from roleagent_lite.store import Run
from tests.distill import local, online_world


def trained(folder: Path, recipe: Recipe) -> dict[str, Any]:
    return train_online(recipe, str(folder / "tasks.jsonl"), folder / "run", sealed=True)


def test_base_and_adapter_play_the_same_tasks_once(tmp_path: Path) -> None:
    online_world.write_tasks(tmp_path / "tasks.jsonl")
    recipe = online_world.recipe(tmp_path, online={"updates": 12})
    told = trained(tmp_path, recipe)["sealed"]
    assert told == json.loads((tmp_path / "run" / "sealed.json").read_text(encoding="utf-8"))
    assert told["systems"]["base"]["solved"] == 0.0 and told["systems"]["adapter"]["solved"] == 1.0
    (pair,) = told["pairs"]
    assert (pair["first"], pair["second"], pair["n"], pair["wins"]) == ("base", "adapter", 60, 60)
    assert pair["difference"] == 1.0 and not pair["within_noise"] and pair["test"] == "exact McNemar"
    with Run.open(tmp_path / "run") as run:
        rows = {r.system: r for r in run.results}
        assert set(rows) == {"base", "adapter"} and rows["adapter"].model.endswith("+12")
        assert sum(t.split == "test" for t in run.trajectories) == 120
    online_world.PLAYED.clear()
    assert trained(tmp_path, recipe)["sealed"]["pairs"] == told["pairs"]  # read again, not played again
    assert "test" not in online_world.PLAYED
    more = recipe.model_copy(update={"online": recipe.online.model_copy(update={"updates": 13})})
    with pytest.raises(ConfigError, match="were opened after 12 updates, and 13 are done now"):
        trained(tmp_path, more)


def test_a_warm_start_on_what_it_played_itself_has_a_row_of_its_own(tmp_path: Path) -> None:
    """Play, imitate the solved episodes, go on from there: three rows, and each pair compared."""
    tasks = str(online_world.write_tasks(tmp_path / "tasks.jsonl"))
    train_online(online_world.recipe(tmp_path, online={"updates": 5}), tasks, tmp_path / "played")
    imitate = local.recipe(method="sft", train={"lr": 0.003, "epochs": 6})
    with Run.open(tmp_path / "played") as run:
        solved = prepare(run, imitate, local.tokenizer())
        assert solved.usable and all(t.sample.solved for t in solved.usable)
        warm = distill(solved, local.tokenizer(), tmp_path / "sft")["adapter"]
    recipe = online_world.recipe(tmp_path, adapter={"start": warm}, online={"updates": 1, "tasks": 2})
    told = trained(tmp_path, recipe)["sealed"]
    assert list(told["systems"]) == ["base", "start", "adapter"]
    assert told["systems"]["base"]["solved"] == 0.0 < told["systems"]["start"]["solved"]
    assert [(p["first"], p["second"]) for p in told["pairs"]] == [
        ("base", "start"), ("base", "adapter"), ("start", "adapter"),
    ]  # fmt: skip


def test_too_few_tasks_are_no_comparison(tmp_path: Path) -> None:
    online_world.write_tasks(tmp_path / "tasks.jsonl", test=59)
    with pytest.raises(ConfigError, match=r"has 59 tasks of split 'test'; .* needs 60"):
        trained(tmp_path, online_world.recipe(tmp_path, online={"updates": 1, "tasks": 2}))
