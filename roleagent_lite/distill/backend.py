"""The two back ends of training: how a model and its adapter are loaded, and put to learning or to rest.

Owns the plain one, transformers and peft, and the choice between it and Unsloth (unsloth_backend.py). Leaves
out what is computed with a model (policy.py).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from roleagent_lite.distill import lora
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.stack import installed, load
from roleagent_lite.errors import ConfigError

PLAIN, UNSLOTH = "plain", "unsloth"
# The architectures whose forward pass in Unsloth was read for what the loss asks of it.
FAMILIES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class Loaded:
    """model: with its adapter, at rest. reference, warnings: as `lora.attach`."""

    model: Any
    reference: str
    warnings: list[str] = field(default_factory=list)


class Backend(Protocol):
    """`words`: its name in reports. `packs`: whether the model takes positions and masks of one's own, as
    states and choices side by side in one row need. `longest`: tokens of a row beyond which it would cut
    without a word; None: no such limit."""

    words: str
    packs: bool
    longest: int | None

    def load(self, recipe: Recipe, folder: Path, device: str) -> Loaded:
        """The base in `folder` with the recipe's adapter. Raises ConfigError."""

    def learn(self, model: Any, recipe: Recipe) -> None:
        """Ready for a pass with gradients."""

    def rest(self, model: Any) -> None:
        """Ready for a pass without gradients, and without dropout."""

    def resume(self, model: Any, learning: bool) -> None:
        """Back to how it was before `rest`; learning: `model.training` of then."""

    def around(self, recipe: Recipe, device: str) -> AbstractContextManager[Any]:
        """What every pass stands inside."""


class Plain:
    """transformers and peft: anywhere torch runs."""

    words = "transformers and peft"
    packs = True
    longest: int | None = None

    def load(self, recipe: Recipe, folder: Path, device: str) -> Loaded:
        torch, transformers = load("torch"), load("transformers")
        load("peft")
        transformers.utils.logging.disable_progress_bar()
        try:
            base = transformers.AutoModelForCausalLM.from_pretrained(
                str(folder), dtype=getattr(torch, recipe.train.dtype)
            )
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(
                f"cannot load the model in {folder}: {str(error).splitlines()[0][:300]}"
            ) from None
        torch.manual_seed(recipe.train.seed)  # the adapter's first weights are drawn
        base.to(device)
        if recipe.train.recompute:  # in effect while the model is in training mode
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model, reference, warnings = lora.attach(base, recipe.adapter)
        model.eval()
        return Loaded(model, reference, warnings)

    def learn(self, model: Any, recipe: Recipe) -> None:
        model.train(recipe.adapter.dropout > 0 or recipe.train.recompute)

    def rest(self, model: Any) -> None:
        if model.training:  # walking through every module takes a fifth as long as a short pass
            model.eval()

    def resume(self, model: Any, learning: bool) -> None:
        if model.training != learning:
            model.train(learning)

    def around(self, recipe: Recipe, device: str) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()


@dataclass(frozen=True, slots=True)
class Choice:
    """Which back end, and why in words."""

    name: str
    why: str


def choose(recipe: Recipe, device: str, folder: Path) -> Choice:
    """The back end of a training on `device` (as `stack.device_for` has it) of the model in `folder`.

    `auto` takes Unsloth on a CUDA card where it is installed and knows the architecture. Raises ConfigError
    where the recipe asks for Unsloth, or for four bits that only Unsloth gives, and it cannot be.
    """
    if recipe.backend == PLAIN:
        return Choice(PLAIN, 'the recipe says backend = "plain"')
    against = _against(device, folder)
    if not against:
        asked = f'the recipe says backend = "{recipe.backend}"'
        return Choice(
            UNSLOTH, asked if recipe.backend == UNSLOTH else "a CUDA card, and Unsloth is installed"
        )
    if recipe.backend == UNSLOTH or recipe.train.four_bit:
        asked = (
            "asks for Unsloth"
            if recipe.backend == UNSLOTH
            else "has train.four_bit, for which it takes Unsloth"
        )
        raise ConfigError(
            f"recipe '{recipe.name}' {asked}, but {against}; "
            'backend = "plain" without train.four_bit trains anywhere'
        )
    return Choice(PLAIN, against)


def _against(device: str, folder: Path) -> str:
    """Why Unsloth cannot train the model in `folder` here, or ""."""
    if device != "cuda":
        return "there is no CUDA card in use"
    if not installed(UNSLOTH):
        return "Unsloth is not installed"
    kind = str(config_of(folder).get("model_type", ""))
    if kind not in FAMILIES:
        return f"Unsloth is used for {', '.join(FAMILIES)} only, and this model is '{kind}'"
    return ""


def config_of(folder: Path) -> Mapping[str, Any]:
    """A model folder's config.json. Raises ConfigError."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {folder / 'config.json'}: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"cannot read {folder / 'config.json'}: no table of settings")
    return found
