"""seeds: trainings of one recipe with different seeds, pooled over tasks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill.online import train_online
from roleagent_lite.distill.recipe import seeded
from roleagent_lite.distill.seeds import course, markdown, pooled
from roleagent_lite.errors import ConfigError
from tests.distill import online_world


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds, few updates, sealed tasks played."""
    home = tmp_path_factory.mktemp("seeds")
    tasks = online_world.write_tasks(home / "tasks.jsonl")
    warm = {"group": 16, "temperature": 2.0, "epochs": 2, "lr": 0.01, "batch": 16}
    recipe = online_world.recipe(home, warm=warm, online={"updates": 1, "dev_every": 1})
    for seed in (1, 2):
        train_online(seeded(recipe, seed), str(tasks), home / str(seed), sealed=True)
    return [home / "1", home / "2"]


def copied(folders: list[Path], to: Path) -> list[Path]:
    return [Path(shutil.copytree(f, to / f.name)) for f in folders]


def test_scores_of_all_seeds_stand_in_one_row_a_task(folders: list[Path]) -> None:
    found = pooled(folders)
    own = [json.loads((f / "sealed.json").read_text(encoding="utf-8"))["systems"] for f in folders]
    assert found["tasks"] == 60 and [s["seed"] for s in found["seeds"]] == [1, 2]
    for system, rate in found["systems"].items():
        assert rate["n"] == 120
        assert rate["solved"] == pytest.approx(sum(o[system]["solved"] for o in own) / 2)
    pairs = {(p["first"], p["second"]): p for p in found["pairs"]}
    assert list(pairs) == [("base", "start"), ("base", "adapter"), ("start", "adapter")]
    gain = found["systems"]["adapter"]["solved"] - found["systems"]["base"]["solved"]
    assert pairs["base", "adapter"]["difference"] == pytest.approx(gain)
    assert pairs["base", "adapter"]["n"] == 60
    assert [look.get("system") for look in found["seeds"][0]["dev"]] == ["base", None, None]
    assert found["seeds"][0]["play"][0]["update"] == 0 and found["seeds"][0]["peak_mib"] > 0


def test_it_is_written_with_a_row_a_system_and_has_a_line_a_seed(folders: list[Path]) -> None:
    found = pooled(folders)
    text = markdown(found)
    assert text.count("\n| ") == 4 and "| base |" in text and "SFT on its own solved episodes" in text
    assert text.count("points on 60 tasks") == 3 and "beyond noise" in text
    lines = course(found)
    assert list(lines) == ["seed 1", "seed 2"] and [x for x, _ in lines["seed 1"]] == [-1, 0, 1]
    assert [y for _, y in lines["seed 2"]] == [look["solved"] for look in found["seeds"][1]["dev"]]


def test_what_does_not_belong_together_is_refused(folders: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run directory"):
        pooled([])
    with pytest.raises(ConfigError, match="--sealed"):
        pooled([tmp_path])
    first, second = copied(folders, tmp_path)
    told = json.loads((second / "train.json").read_text(encoding="utf-8"))
    told["recipe"]["online"]["group"] = 3
    (second / "train.json").write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(ConfigError, match="another recipe"):
        pooled([first, second])


def test_a_seed_whose_results_are_gone_is_refused(folders: list[Path], tmp_path: Path) -> None:
    first, _ = copied(folders, tmp_path)
    (first / "results.jsonl").unlink()
    with pytest.raises(ConfigError, match="no results of adapter, base, start"):
        pooled([first])
