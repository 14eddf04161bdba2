"""stack: MOD-01, what is said where torch is absent or broken, or the card is missing; nothing has loaded."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from roleagent_lite.distill import stack
from roleagent_lite.distill.recipe import from_mapping
from roleagent_lite.errors import ConfigError, MissingExtra


def imports(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    def take(name: str) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(importlib, "import_module", take)


def machine(monkeypatch: pytest.MonkeyPatch, card: bool) -> None:
    imports(monkeypatch, SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: card)))


def test_mod_01_training_without_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    imports(monkeypatch, ModuleNotFoundError("No module named 'torch'", name="torch"))
    with pytest.raises(MissingExtra, match=r"the package 'torch': pip install 'roleagent-lite\[distill\]'"):
        stack.load("torch")
    imports(monkeypatch, ModuleNotFoundError("No module named 'accelerate'", name="accelerate.utils"))
    with pytest.raises(MissingExtra, match="the package 'accelerate'"):
        stack.load("peft")


@pytest.mark.parametrize(
    "error", [OSError("libcudart.so.13: cannot open"), RuntimeError("bad build"), ImportError("x")]
)
def test_mod_01_a_broken_torch_is_told_from_an_absent_one(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    imports(monkeypatch, error)
    with pytest.raises(MissingExtra, match=rf"installed but does not load \({type(error).__name__}"):
        stack.load("torch")


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"name": "big", "device": "cuda"}, "recipe 'big' needs a CUDA card"),
        ({"name": "big", "backend": "unsloth"}, "recipe 'big' asks for Unsloth, which needs a CUDA card"),
        (
            {"name": "big", "train": {"four_bit": True}},
            "asks for train.four_bit, Unsloth's, which needs a CUDA",
        ),
        ({"train": {"dtype": "float16"}}, "train.dtype is float16, which is for CUDA cards only"),
    ],
)
def test_mod_01_a_recipe_that_needs_a_card_says_so(
    monkeypatch: pytest.MonkeyPatch, recipe: dict[str, Any], words: str
) -> None:
    machine(monkeypatch, card=False)
    with pytest.raises(ConfigError) as refused:
        stack.device_for(from_mapping(recipe))
    assert words in str(refused.value)
    machine(monkeypatch, card=True)
    monkeypatch.setattr(stack, "installed", lambda name: True)
    assert stack.device_for(from_mapping(recipe)) == "cuda"


@pytest.mark.parametrize("recipe", [{"backend": "unsloth"}, {"train": {"four_bit": True}}])
def test_mod_01_unsloth_that_is_not_installed_is_said_before_anything_loads(
    monkeypatch: pytest.MonkeyPatch, recipe: dict[str, Any]
) -> None:
    machine(monkeypatch, card=True)
    monkeypatch.setattr(stack, "installed", lambda name: False)
    with pytest.raises(
        MissingExtra, match=r"not installed: pip install 'roleagent-lite\[unsloth\]'; or back"
    ):
        stack.device_for(from_mapping(recipe))


def test_unsloth_broken_or_absent_names_its_own_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    imports(monkeypatch, ImportError("xformers"))
    with pytest.raises(MissingExtra, match=r"'unsloth', which is installed but does not load .*\[unsloth\]"):
        stack.load("unsloth")


def test_what_is_installed_is_found_without_importing_it() -> None:
    assert stack.installed("wsgiref") and not stack.installed("no_such_package_at_all")
    assert not stack.installed("no_such_package.part") and "wsgiref" not in sys.modules


def test_the_device_is_the_card_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, card=True)
    assert stack.device_for(from_mapping({})) == "cuda"
    assert stack.device_for(from_mapping({"device": "cpu"})) == "cpu"
    machine(monkeypatch, card=False)
    assert stack.device_for(from_mapping({})) == "cpu"
