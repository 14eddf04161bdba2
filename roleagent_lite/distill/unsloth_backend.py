"""Unsloth as the back end of training: on a CUDA card, in 16 or 4 bits, with its gradient checkpointing.

Owns the one place where Unsloth is imported, and what its forward pass asks of a caller, read in its source
(2026.10.9): rows are padded on the right, for in training it leaves the attention mask out; masks and
positions of one's own are left out too, so choices stand in rows of their own; a row longer than
`max_seq_length` is cut without a word; `for_training` and `for_inference` stand around passes with and
without gradients. Leaves out what is computed (policy.py) and when Unsloth is taken (backend.py).
"""

from __future__ import annotations

import contextlib
import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from roleagent_lite.distill import lora
from roleagent_lite.distill.backend import UNSLOTH, Loaded, config_of
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.stack import installed, load
from roleagent_lite.errors import ConfigError
from roleagent_lite.lm.wheels import cache_dir

SPARE = 256  # tokens beyond data.max_tokens: choices that were not taken may be longer than the reply
# Set before it is imported, where the user did not: it would report to a model hub that it runs, and leave
# compiled code in the working directory.
_QUIET = {"UNSLOTH_DISABLE_STATISTICS": "1"}


class Unsloth:
    """FastLanguageModel behind the trainer's `Backend`.

    vllm: where it is installed it writes the replies (`fast_inference`), in memory of its own; else Unsloth's
    own generation does. Raises MissingExtra where Unsloth is absent or does not load.
    """

    packs = False

    def __init__(self, vllm: bool = False) -> None:
        for name, value in {**_QUIET, "UNSLOTH_COMPILE_LOCATION": str(cache_dir() / "unsloth")}.items():
            os.environ.setdefault(name, value)
        with quiet():
            self._unsloth = load(UNSLOTH)
        self._fast = self._unsloth.FastLanguageModel
        self.vllm = vllm and installed("vllm")
        self.words = f"Unsloth {self._unsloth.__version__}" + (" with vLLM" if self.vllm else "")
        self.longest: int | None = None
        self._kind: Any = None  # the base's number type as it was loaded

    def load(self, recipe: Recipe, folder: Path, device: str) -> Loaded:
        torch = load("torch")
        positions = config_of(folder).get("max_position_embeddings")
        self.longest = recipe.data.max_tokens + SPARE
        if positions:  # asked for more, it would stretch the positions: another model
            self.longest = min(self.longest, int(positions))
        # "unsloth" keeps activations in the main memory, block by block, instead of on the card
        recompute: Any = "unsloth" if recipe.train.recompute else False
        try:
            with quiet():
                base, _ = self._fast.from_pretrained(
                    model_name=str(folder), max_seq_length=self.longest,
                    dtype=getattr(torch, recipe.train.dtype), load_in_4bit=recipe.train.four_bit,
                    device_map={"": "cuda:0" if device == "cuda" else device}, use_exact_model_name=True,
                    fast_inference=self.vllm,
                    max_lora_rank=max(recipe.adapter.rank, 8), random_state=recipe.train.seed,
                    use_gradient_checkpointing=recompute,
                )  # fmt: skip
                return self._attach(base, recipe, recompute)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            RuntimeError,
            NotImplementedError,
            ImportError,
        ) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
            raise ConfigError(
                f"Unsloth cannot load the model in {folder}: {reason}; "
                'backend = "plain" trains it without Unsloth'
            ) from error

    def _attach(self, base: Any, recipe: Recipe, recompute: Any) -> Loaded:
        """As `lora.attach`, through Unsloth, whose kernels are put in with the adapter."""
        settings = recipe.adapter
        if settings.start is not None:
            patch = getattr(self._fast, "patch_peft_model", None)  # only on a card has it kernels to put in
            model, reference = lora.started(base, settings, lambda m: patch(m, recompute) if patch else m)
            warnings: list[str] = []
        else:
            names, warning = lora.check_targets(
                settings.targets, lora.linear_layers(base), settings.missing_targets == "refuse"
            )
            model = self._fast.get_peft_model(
                base, r=settings.rank, target_modules=names, lora_alpha=settings.alpha,
                lora_dropout=settings.dropout, bias="none", use_gradient_checkpointing=recompute,
                random_state=recipe.train.seed,
            )  # fmt: skip
            reference, warnings = lora.BASE, [warning] if warning else []
        lora.wide(model)
        self.rest(model)
        asked, self._kind = recipe.train.dtype, model.get_input_embeddings().weight.dtype
        if self._kind != getattr(load("torch"), asked):  # older cards have no bfloat16
            warnings = [*warnings, f"train.dtype is {asked}; Unsloth took {self._kind}, what this card has"]
        return Loaded(model, reference, warnings)

    def learn(self, model: Any, recipe: Recipe) -> None:
        self._fast.for_training(model)

    def rest(self, model: Any) -> None:
        self._fast.for_inference(model)

    def resume(self, model: Any, learning: bool) -> None:
        if learning:
            self._fast.for_training(model)

    def around(self, recipe: Recipe, device: str) -> AbstractContextManager[Any]:
        """Its kernels are written for autocast to the base's 16 bits: the adapter is in float32."""
        torch = load("torch")
        if self._kind in (None, torch.float32):
            return contextlib.nullcontext()
        made: AbstractContextManager[Any] = torch.autocast(device, dtype=self._kind)
        return made


def quiet() -> AbstractContextManager[Any]:
    """What Unsloth prints goes to the screen's other stream: the first one is for results."""
    return contextlib.redirect_stdout(sys.stderr)
