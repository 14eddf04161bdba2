"""A stand-in for the package `unsloth`, for machines without a CUDA card: it is not Unsloth.

It writes down how it is called and gives back a real tiny model of transformers and peft. Where Unsloth's
fast forward pass silently leaves out what a caller gives (a mask of his own, positions, chosen logits, tokens
beyond `max_seq_length`) this one fails; in training it leaves the attention mask out, as Unsloth does.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

VERSION = "0.stand-in"


class StandIn(ModuleType):
    """`calls`: (name, arguments) in order. `fail`: raised by from_pretrained where it is set."""

    def __init__(self) -> None:
        super().__init__("unsloth")
        self.__version__ = VERSION
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.fail: Exception | None = None
        self.instead: Any = None  # the number type that the card has in place of the one asked for
        self.longest = 0
        self.FastLanguageModel = _Fast(self)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def arguments(self, name: str) -> dict[str, Any]:
        return next(given for called, given in self.calls if called == name)


class _Fast:
    def __init__(self, owner: StandIn) -> None:
        self._owner = owner

    def from_pretrained(
        self, *, model_name: str, max_seq_length: int, dtype: Any, load_in_4bit: bool, device_map: Any,
        use_exact_model_name: bool, fast_inference: bool, max_lora_rank: int, random_state: int,
        use_gradient_checkpointing: Any,
    ) -> tuple[Any, None]:  # fmt: skip
        from transformers import AutoModelForCausalLM

        given = {k: v for k, v in locals().items() if k not in ("self", "AutoModelForCausalLM")}
        print("a banner on the standard output")
        self._owner.calls.append(("from_pretrained", given))
        if self._owner.fail is not None:
            raise self._owner.fail
        model = AutoModelForCausalLM.from_pretrained(model_name, dtype=self._owner.instead or dtype)
        self._owner.longest = max_seq_length
        _fast_forward(model, max_seq_length)
        return model, None

    def get_peft_model(
        self, model: Any, *, r: int, target_modules: Any, lora_alpha: float, lora_dropout: float, bias: str,
        use_gradient_checkpointing: Any, random_state: int,
    ) -> Any:  # fmt: skip
        import peft
        import torch

        given = {k: v for k, v in locals().items() if k not in ("self", "model", "peft", "torch")}
        self._owner.calls.append(("get_peft_model", given))
        torch.manual_seed(random_state)
        config = peft.LoraConfig(
            r=r, target_modules=target_modules, lora_alpha=lora_alpha, lora_dropout=lora_dropout, bias=bias,
            task_type="CAUSAL_LM",
        )  # fmt: skip
        return peft.get_peft_model(model, config)

    def patch_peft_model(self, model: Any, use_gradient_checkpointing: Any = "unsloth") -> Any:
        self._owner.calls.append(("patch_peft_model", {"adapters": sorted(model.peft_config)}))
        return model

    def for_training(self, model: Any, use_gradient_checkpointing: Any = None) -> Any:
        self._owner.calls.append(("for_training", {}))
        return model.train()

    def for_inference(self, model: Any) -> Any:
        self._owner.calls.append(("for_inference", {}))
        return model.eval()


def _fast_forward(model: Any, longest: int) -> None:
    plain = model.forward

    def forward(*args: Any, input_ids: Any, attention_mask: Any = None, **more: Any) -> Any:
        assert attention_mask is None or attention_mask.dim() == 2, "a mask of one's own has no effect"
        assert more.get("position_ids") is None or not model.training, "positions of one's own"
        assert isinstance(more.get("logits_to_keep", 0), int), "chosen logits have no effect"
        assert input_ids.shape[1] <= longest, "tokens beyond max_seq_length are cut"
        assert not model.training or attention_mask is None or bool(attention_mask[:, 0].all()), "left pads"
        return plain(
            *args, input_ids=input_ids, attention_mask=None if model.training else attention_mask, **more
        )

    model.forward = forward


def put_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The stand-in in Unsloth's place, and a machine that seems to have a card; tensors stay on the CPU."""
    from roleagent_lite.distill import backend, policy

    made = StandIn()
    monkeypatch.setitem(sys.modules, "unsloth", made)
    monkeypatch.setattr(backend, "installed", lambda name: name == "unsloth")
    monkeypatch.setattr("roleagent_lite.distill.unsloth_backend.installed", lambda name: False)
    real = backend.choose
    monkeypatch.setattr(policy, "choose", lambda recipe, device, folder: real(recipe, "cuda", folder))
    monkeypatch.setattr(policy, "device_for", lambda recipe: "cpu")
    return made
