"""stand: which tasks are played, by whom, and that all of it is recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill.stand import config_of, name_of, training_tasks
from roleagent_lite.errors import ConfigError
from tests.distill import local, online_world


def test_the_settings_are_the_recipes(tmp_path: Path) -> None:
    recipe = online_world.recipe(tmp_path, online={"group": 5, "alpha": 0.5, "rho": 0.1, "seed": 3})
    config = config_of(recipe, "toy.jsonl")
    assert (config.agent, config.evolve.group, config.evolve.temperature, config.seed) == (
        "choose",
        5,
        2.0,
        3,
    )
    assert (config.wia.predict, config.wia.alpha, config.aiw.rho, config.tasks) == (
        "off",
        0.5,
        0.1,
        "toy.jsonl",
    )
    foretelling = online_world.recipe(tmp_path, online={"predictions": True, "updates": 99})
    assert config_of(foretelling, "t").wia.predict == "together"
    assert config_of(foretelling, "t").evolve.rounds == config.evolve.rounds  # more updates are no other run


def test_a_state_of_the_weights_has_a_name_of_its_own() -> None:
    recipe = local.recipe(model="/models/tiny/")
    assert [name_of(recipe, s) for s in (0, 12, "base")] == [
        "local:tiny+0",
        "local:tiny+12",
        "local:tiny+base",
    ]
    assert name_of(local.recipe(model="embedded"), 1) == "local:embedded+1"


def test_splits_are_kept_apart(tmp_path: Path) -> None:
    tasks = online_world.write_tasks(tmp_path / "t.jsonl")
    train, dev = training_tasks(str(tasks), 1)
    assert {t.split for t in train} == {"train"} and len(train) == 6 and [t.split for t in dev] == ["dev"]
    rows = [json.loads(line) for line in tasks.read_text(encoding="utf-8").splitlines()]
    double = {**rows[-1], "id": "twice", "split": "train"}
    tasks.write_text("\n".join(json.dumps(r) for r in [*rows, double]) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="must be disjoint"):
        training_tasks(str(tasks), 1)
    online_world.write_tasks(tasks, dev=0)
    with pytest.raises(ConfigError, match="no tasks of split 'dev'"):
        training_tasks(str(tasks), 1)
