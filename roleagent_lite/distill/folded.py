"""The adapter folded into the weights while the model plays: a forward pass then costs what the base's costs.

Owns the folded copies and when they stand in for the base's weights. The adapter in training is not touched,
and the base's own weights are put back, not computed back. Leaves out merging for export (merge.py), which
writes files.

On a CPU and a model of 135M parameters a pass with the adapter beside it takes over twice the time of one
without: five small operations stand beside each large one. In bfloat16 a folded weight is rounded as the
base's own are; what that does to log-probabilities is part of the drift that online.py measures.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.stack import load


class Folded:
    """One state of a policy's weights: `adapter`, or the base alone where it is None.

    Takes the memory of the adapted layers once more, from its first use to `forget`.
    """

    def __init__(self, policy: Policy, adapter: str | None) -> None:
        self._policy = policy
        self._adapter = adapter
        self._places = adapted(policy.model)
        self._weights: list[Any] = []

    def forget(self) -> None:
        """To be called whenever the weights have changed."""
        self._weights = []

    @contextlib.contextmanager
    def play(self) -> Iterator[None]:
        """Inside, the policy's model is this state, and nothing of it can be trained."""
        if not self._weights:
            self._weights = [folded(layer, self._adapter) for _, _, layer in self._places]
        own = [layer.base_layer.weight.data for _, _, layer in self._places]
        try:
            for (parent, name, layer), weight in zip(self._places, self._weights, strict=True):
                layer.base_layer.weight.data = weight
                setattr(parent, name, layer.base_layer)
            yield
        finally:
            for (parent, name, layer), weight in zip(self._places, own, strict=True):
                layer.base_layer.weight.data = weight
                setattr(parent, name, layer)


def can_fold(model: Any) -> bool:
    """Whether every layer with an adapter is a plain linear one in 16 or 32 bits (not quantised)."""
    torch = load("torch")
    kinds = (torch.float32, torch.bfloat16, torch.float16)
    bases = [layer.base_layer for _, _, layer in adapted(model)]
    return all(type(b) is torch.nn.Linear and b.weight.dtype in kinds for b in bases)


def folded(layer: Any, adapter: str | None) -> Any:
    """The weight of `layer`'s base with `adapter` in it, rounded once; the base's own without one."""
    weight = layer.base_layer.weight.data
    if adapter not in layer.lora_A:
        return weight
    with load("torch").no_grad():
        return (weight.float() + layer.get_delta_weight(adapter).float()).to(weight.dtype)


def adapted(model: Any) -> list[tuple[Any, str, Any]]:
    """(the module that holds it, under which name, the layer) of each layer with an adapter."""
    kind = load("peft.tuners.lora").LoraLayer
    parents = [m for m in model.modules() if not isinstance(m, kind)]
    return [(p, name, c) for p in parents for name, c in p.named_children() if isinstance(c, kind)]
