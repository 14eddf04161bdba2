"""The heavy libraries of training, and what is said where they are absent, broken or lack a card.

Owns their import, once, inside a function, and the check of the device before anything loads. Leaves out what
is done with them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.errors import ConfigError, MissingExtra


def _install(name: str) -> str:
    return f"pip install 'roleagent-lite[{'unsloth' if name == 'unsloth' else 'distill'}]'"


def installed(name: str) -> bool:
    """Whether a package can be found; it is not imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def load(name: str) -> Any:
    """The module `name` (torch, transformers, peft, safetensors.torch, unsloth).

    Raises MissingExtra, which names the extra, where it is absent or where importing it fails in any way.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before OpenMP starts: spinning stalls two cores
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        lacking = (error.name or name).partition(".")[0]
        raise MissingExtra(f"training needs the package '{lacking}': {_install(name)}") from None
    except Exception as error:  # border: a broken installation may raise anything
        raise MissingExtra(
            f"training needs '{name}', which is installed but does not load ({type(error).__name__}: {error})"
            f"; reinstall it: {_install(name)}"
        ) from error


def device_for(recipe: Recipe) -> str:
    """`cuda` or `cpu`, before anything loads.

    Raises ConfigError where the recipe needs a card that is not there, or number types that the device has
    not; MissingExtra without torch, and without Unsloth where the recipe asks for it.
    """
    torch = load("torch")
    card = bool(torch.cuda.is_available())
    if recipe.device == "cuda" and not card:
        raise ConfigError(
            f"recipe '{recipe.name}' needs a CUDA card (device = \"cuda\"), and there is none here; take "
            "a recipe for the CPU such as smollm2-cpu, or run it on a machine with a card"
        )
    asks = "asks for Unsloth" if recipe.backend == "unsloth" else "asks for train.four_bit, Unsloth's"
    if (recipe.backend == "unsloth" or recipe.train.four_bit) and not card:
        raise ConfigError(
            f"recipe '{recipe.name}' {asks}, which needs a CUDA card, and there is none here; "
            'backend = "plain" trains anywhere, in 16 or 32 bits'
        )
    if (recipe.backend == "unsloth" or recipe.train.four_bit) and not installed("unsloth"):
        raise MissingExtra(
            f"recipe '{recipe.name}' {asks}, which is not installed: {_install('unsloth')}; "
            'or backend = "plain", which trains in 16 or 32 bits'
        )
    device = "cuda" if card and recipe.device != "cpu" else "cpu"
    if device == "cpu" and recipe.train.dtype == "float16":
        raise ConfigError(
            "train.dtype is float16, which is for CUDA cards only: on a CPU its gradients vanish; "
            "the adapter is float32, so take float32 or bfloat16 for the base"
        )
    return device
