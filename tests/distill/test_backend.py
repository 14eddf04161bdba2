"""backend: which back end trains, and the reason that is given for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.distill import backend
from roleagent_lite.distill.backend import FAMILIES, Choice, Plain, choose
from roleagent_lite.distill.recipe import Recipe, from_mapping
from roleagent_lite.errors import ConfigError


def folder(path: Path, kind: str = "qwen3") -> Path:
    (path / "config.json").write_text(json.dumps({"model_type": kind}), encoding="utf-8")
    return path


def machine(monkeypatch: pytest.MonkeyPatch, *there: str) -> None:
    monkeypatch.setattr(backend, "installed", lambda name: name in there)


def recipe(**more: Any) -> Recipe:
    return from_mapping({"name": "big", **more})


@pytest.mark.parametrize(
    ("device", "there", "kind", "name", "why"),
    [
        ("cuda", ("unsloth",), "qwen3", "unsloth", "a CUDA card, and Unsloth is installed"),
        ("cuda", (), "qwen3", "plain", "Unsloth is not installed"),
        ("cpu", ("unsloth",), "qwen3", "plain", "there is no CUDA card in use"),
        ("cuda", ("unsloth",), "gpt2", "plain", "llama, qwen2, qwen3 only, and this model is 'gpt2'"),
    ],
)
def test_auto_takes_unsloth_where_it_can_and_says_why_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: str, there: tuple[str, ...], kind: str,
    name: str, why: str,
) -> None:  # fmt: skip
    machine(monkeypatch, *there)
    found = choose(recipe(), device, folder(tmp_path, kind))
    assert found.name == name and why in found.why
    if name == "plain":
        for more in ({"backend": "unsloth"}, {"train": {"four_bit": True}}):
            with pytest.raises(
                ConfigError, match=r"recipe 'big' .*Unsloth, but .*trains anywhere"
            ) as refused:
                choose(recipe(**more), device, tmp_path)
            assert why in str(refused.value)


def test_what_the_recipe_says_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine(monkeypatch, "unsloth")
    at = folder(tmp_path)
    assert choose(recipe(backend="plain"), "cuda", at) == Choice("plain", 'the recipe says backend = "plain"')
    assert choose(recipe(backend="unsloth"), "cuda", at).why == 'the recipe says backend = "unsloth"'
    assert choose(recipe(train={"four_bit": True}), "cuda", at).name == "unsloth"
    assert set(FAMILIES) == {"llama", "qwen2", "qwen3"}


def test_a_folder_without_a_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine(monkeypatch, "unsloth")
    with pytest.raises(ConfigError, match=r"cannot read .*config\.json"):
        choose(recipe(), "cuda", tmp_path)


def test_the_plain_one_learns_with_dropout_or_recomputing_only() -> None:
    class Model:
        training = False

        def train(self, on: bool = True) -> None:
            self.training = on

        def eval(self) -> None:
            self.training = False

    made, plain = Model(), Plain()
    for more, on in (
        ({}, False),
        ({"adapter": {"dropout": 0.1}}, True),
        ({"train": {"recompute": True}}, True),
    ):
        plain.learn(made, recipe(**more))
        assert made.training is on
    plain.rest(made)
    assert not made.training
    plain.resume(made, True)
    assert made.training
    assert plain.packs and plain.longest is None
