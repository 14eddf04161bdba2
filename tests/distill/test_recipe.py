"""recipe: what is refused, how it is worded, and what the shipped recipes say."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite.content import room
from roleagent_lite.distill.recipe import from_mapping, load_recipe
from roleagent_lite.errors import ConfigError


def test_defaults_are_the_papers() -> None:
    recipe = from_mapping({})
    assert (recipe.loss.clip_low, recipe.loss.clip_high, recipe.loss.kl) == (0.2, 0.28, 1e-3)
    assert (recipe.method, recipe.loss.normalise, recipe.loss.prediction) == ("grpo", "grpo", 0.0)
    assert recipe.data.experience == "strip"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"modle": "x"}, "unknown setting 'modle'; did you mean 'model'?"),
        ({"train": {"learning_rate": 1}}, "unknown setting 'train.learning_rate'"),
        ({"train": {"warm_up": 1}}, "did you mean 'warmup'?"),
        ({"lr": 1e-4}, "did you mean 'train.lr'?"),
        ({"loss": {"clip_low": 1.5}}, "setting 'loss.clip_low' is 1.5"),
        ({"loss": {"kl": float("nan")}}, "setting 'loss.kl'"),
        ({"loss": {"normalise": "dapo"}}, "setting 'loss.normalise' is 'dapo'"),
        ({"train": {"batch": 2, "micro_batch": 4}}, "train.micro_batch is 4, more than train.batch 2"),
        ({"backend": "unsloth", "device": "cpu"}, "backend 'unsloth' needs a CUDA card"),
        ({"adapter": {"targets": []}}, "setting 'adapter.targets'"),
    ],
)
def test_a_wrong_setting_is_named(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        from_mapping(values, "my.toml")
    assert words in str(refused.value) and str(refused.value).startswith("my.toml: ")


def test_a_file_of_the_users_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('method = "sft"\n[train]\nlr = 0.001\n', encoding="utf-8")
    recipe = load_recipe(str(file))
    assert (recipe.name, recipe.method, recipe.train.lr) == ("mine", "sft", 0.001)
    file.write_text('name = "other"\n', encoding="utf-8")
    assert load_recipe(str(file)).name == "other"


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'smollm2-cpu'"):
        load_recipe("smollm-cpu")
    file = tmp_path / "torn.toml"
    file.write_text("method = ", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_recipe(str(file))


@pytest.mark.parametrize("path", sorted(room("distill").glob("*.toml")), ids=lambda p: p.stem)
def test_every_shipped_recipe_loads_and_says_what_it_is_for(path: Path) -> None:
    recipe = load_recipe(path.stem)
    assert recipe.name == path.stem and recipe.about
