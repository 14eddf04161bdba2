"""folded: the adapter in the weights gives the numbers of the adapter beside them, and leaves nothing
behind."""

from __future__ import annotations

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

from roleagent_lite.distill import lora
from roleagent_lite.distill.folded import Folded, adapted, can_fold
from roleagent_lite.distill.policy import Policy
from tests.distill import local


def made(kind: str = "llama", **more: object) -> Policy:
    policy = local.policy(local.recipe(model=str(local.model(kind)), **more))
    local.disturb(policy)
    return policy


def logits(policy: Policy) -> torch.Tensor:
    ids = torch.tensor([local.tokenizer().prompt_ids("take key open door look around")])
    with policy.frozen():
        found: torch.Tensor = policy.model(input_ids=ids).logits
    return found


def test_it_plays_as_the_adapter_does_and_puts_the_base_back_bit_for_bit() -> None:
    policy = made()
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    live = logits(policy)
    with Folded(policy, lora.TRAINED).play():
        inside = logits(policy)
    assert float((inside - live).abs().max()) < 1e-4
    after = policy.model.state_dict()
    assert list(after) == list(before) and all(torch.equal(after[k], v) for k, v in before.items())
    assert torch.equal(logits(policy), live)


def test_without_an_adapter_it_is_the_base() -> None:
    policy = made()
    with policy.model.disable_adapter():
        base = logits(policy)
    with Folded(policy, None).play():
        assert torch.equal(logits(policy), base)
    assert not torch.equal(logits(policy), base)


def test_an_error_inside_puts_everything_back_and_training_goes_on() -> None:
    policy = made()
    live = logits(policy)
    with pytest.raises(KeyboardInterrupt), Folded(policy, lora.TRAINED).play():
        raise KeyboardInterrupt
    assert torch.equal(logits(policy), live) and adapted(policy.model)
    policy.model(input_ids=torch.tensor([[1, 2, 3]])).logits.sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() >= 0 for p in policy.parameters.values())


def test_changed_weights_need_a_word() -> None:
    policy = made()
    folded = Folded(policy, lora.TRAINED)
    with folded.play():
        old = logits(policy)
    local.disturb(policy, seed=7)
    with folded.play():
        assert torch.equal(logits(policy), old)
    folded.forget()
    with folded.play():
        assert float((logits(policy) - old).abs().max()) > 1e-3


def test_in_bfloat16_it_is_rounded_once() -> None:
    policy = made(train={"dtype": "bfloat16"})
    _, _, layer = adapted(policy.model)[0]
    with Folded(policy, lora.TRAINED).play():
        weight = layer.base_layer.weight.data.clone()
    exact = layer.base_layer.weight.data.double() + layer.get_delta_weight(lora.TRAINED).detach().double()
    assert weight.dtype == torch.bfloat16
    assert float(((weight.double() - exact).abs() / exact.abs().clamp(min=1e-3)).max()) <= 2**-8


def test_layers_of_another_kind_cannot_be_folded() -> None:
    assert can_fold(made().model)
    assert not can_fold(made("gpt2").model)  # Conv1D stores its weight the other way round
