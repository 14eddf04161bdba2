"""policy: log-probabilities of the right tokens, whatever the batch around them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

from roleagent_lite.errors import ConfigError
from tests.distill import local


def test_log_probabilities_are_those_of_each_reply_token() -> None:
    made = local.policy(local.recipe())
    rows = local.rows()
    batch = made.rows(rows)
    found = made.fixed_logps(batch)
    first = batch.ids.shape[1] - batch.mask.shape[1]
    for number, tokens in enumerate(rows):
        with torch.no_grad():
            logits = made.model(input_ids=torch.tensor([tokens.ids])).logits[0]
        by_hand = [
            float(logits[k - 1].log_softmax(-1)[tokens.ids[k]]) for k in range(tokens.start, len(tokens.ids))
        ]
        at = tokens.start - first
        assert found[number, at : at + len(by_hand)].tolist() == pytest.approx(by_hand, abs=1e-5)
        mask = batch.mask[number].tolist()
        assert mask == [0.0] * at + [1.0] * len(by_hand) + [0.0] * (len(mask) - at - len(by_hand))


def test_the_output_layer_reads_trained_positions_only() -> None:
    """With a large vocabulary it costs as much as all blocks; prompts of a batch end at different places."""
    made, seen = local.policy(local.recipe()), []
    head = made.model.get_output_embeddings()
    counter = head.register_forward_hook(lambda layer, given, out: seen.append(out.shape[:2]))
    batch = made.rows(local.rows())
    made.logps(batch)
    trained = int(batch.mask.sum())
    assert seen == [(1, trained)] and trained < batch.mask.numel()
    counter.remove()
    assert not head._forward_pre_hooks
    nothing = dataclasses.replace(batch, mask=0 * batch.mask)
    assert made.logps(nothing).shape == batch.mask.shape  # a batch without trained tokens


def test_a_batch_changes_nothing() -> None:
    made = local.policy(local.recipe())
    rows = local.rows()
    together = made.rows(rows)
    found = made.fixed_logps(together)
    first = together.ids.shape[1] - together.mask.shape[1]
    for number, tokens in enumerate(rows):
        alone = made.fixed_logps(made.rows([tokens]))[0]
        at = tokens.start - first
        assert found[number, at : at + len(alone)].tolist() == pytest.approx(alone.tolist(), abs=1e-5)


def test_a_new_adapter_changes_nothing_and_is_seeded() -> None:
    made = local.policy(local.recipe())
    batch = made.rows(local.rows())
    assert torch.equal(made.fixed_logps(batch), made.reference_logps(batch))
    again, other = local.policy(local.recipe()), local.policy(local.recipe(train={"seed": 1}))
    same = [
        torch.equal(a, b) for a, b in zip(made.parameters.values(), again.parameters.values(), strict=True)
    ]
    assert all(same)
    assert not all(
        torch.equal(a, b) for a, b in zip(made.parameters.values(), other.parameters.values(), strict=True)
    )
    assert "adapter off" in made.reference and made.device == "cpu"
    assert not any(layer.training for layer in made.model.modules())


def test_fixed_log_probabilities_have_no_gradient_and_no_dropout() -> None:
    made = local.policy(local.recipe(adapter={"dropout": 0.5}))
    local.disturb(made)
    batch = made.rows(local.rows())
    made.model.train()
    first = made.fixed_logps(batch)
    assert torch.equal(first, made.fixed_logps(batch)) and not first.requires_grad
    assert made.model.training and not torch.equal(made.logps(batch), first)


def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no-such-kind"}', encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot load the model in"):
        local.policy(local.recipe(model=str(tmp_path)))


def test_recomputing_gives_the_same_gradients() -> None:
    """Where activations are computed again on the way back, nothing but memory and time changes."""
    found = []
    for recompute in (False, True):
        made = local.policy(local.recipe(train={"recompute": recompute}))
        local.disturb(made)
        made.model.train(recompute)
        assert made.model.base_model.model.is_gradient_checkpointing == recompute
        batch = made.rows(local.rows())
        (made.logps(batch) * batch.mask).sum().backward()
        found.append({name: p.grad for name, p in made.parameters.items()})
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
