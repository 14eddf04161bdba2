"""The heavy libraries of training, and what is said where they are absent, broken or lack a card.

Owns their import, once, inside a function, and the check of the device before anything loads. Leaves out what
is done with them.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.errors import ConfigError, MissingExtra

_INSTALL = "pip install 'roleagent-lite[distill]'"


def load(name: str) -> Any:
    """The module `name` (torch, transformers, peft, safetensors.torch).

    Raises MissingExtra, which names the extra, where it is absent or where importing it fails in any way.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before OpenMP starts: spinning stalls two cores
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        lacking = (error.name or name).partition(".")[0]
        raise MissingExtra(f"training needs the package '{lacking}': {_INSTALL}") from None
    except Exception as error:  # border: a broken installation may raise anything
        raise MissingExtra(
            f"training needs '{name}', which is installed but does not load ({type(error).__name__}: {error})"
            f"; reinstall it: {_INSTALL}"
        ) from error


def device_for(recipe: Recipe) -> str:
    """`cuda` or `cpu`, before anything loads.

    Raises ConfigError where the recipe needs a card that is not there, or number types that the device has
    not; MissingExtra without torch.
    """
    torch = load("torch")
    card = bool(torch.cuda.is_available())
    if recipe.device == "cuda" and not card:
        raise ConfigError(
            f"recipe '{recipe.name}' needs a CUDA card (device = \"cuda\"), and there is none here; take "
            "a recipe for the CPU such as smollm2-cpu, or run it on a machine with a card"
        )
    if recipe.backend == "unsloth" and not card:
        raise ConfigError(
            f"recipe '{recipe.name}' asks for Unsloth, which needs a CUDA card, and there is none here; "
            'backend = "plain" trains anywhere'
        )
    device = "cuda" if card and recipe.device != "cpu" else "cpu"
    if device == "cpu" and recipe.train.dtype == "float16":
        raise ConfigError(
            "train.dtype is float16, which is for CUDA cards only: on a CPU its gradients vanish; "
            "the adapter is float32, so take float32 or bfloat16 for the base"
        )
    return device
