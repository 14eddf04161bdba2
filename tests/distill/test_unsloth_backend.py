"""unsloth_backend: how Unsloth is called, and that its policy gives the plain one's numbers.

With a stand-in (stand_in_unsloth.py), for a card is needed for the real one: these tests say nothing about
what Unsloth computes, only that it is called as its source asks, and that one trainer serves both.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

from roleagent_lite.distill import lora
from roleagent_lite.distill.policy import Policy, open_policy
from roleagent_lite.distill.train import Trainer
from roleagent_lite.distill.unsloth_backend import SPARE
from roleagent_lite.errors import ConfigError, MissingExtra, RoleAgentError
from roleagent_lite.types import Progress
from tests.distill import local, stand_in_unsloth
from tests.distill.stand_in_unsloth import StandIn

FAST = {"backend": "unsloth"}
CHOICES = ("take key", "open door and look around", "say hello.")


@pytest.fixture
def unsloth(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return stand_in_unsloth.put_in(monkeypatch)


def both(**more: Any) -> tuple[Policy, Policy]:
    """(with Unsloth's stand-in, plain), the same adapter on both, which does something."""
    fast, plain = (
        local.policy(local.recipe(**FAST, **more)),
        local.policy(local.recipe(backend="plain", **more)),
    )
    for one in (fast, plain):
        local.disturb(one)
    return fast, plain


def test_it_is_called_as_its_source_asks(unsloth: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[Progress] = []
    recipe = local.recipe(
        **FAST, adapter={"rank": 4, "alpha": 8, "targets": ["q_proj"]}, data={"max_tokens": 200},
        train={"four_bit": True, "recompute": True, "dtype": "bfloat16", "seed": 7},
    )  # fmt: skip
    made = open_policy(recipe, 0, heard.append)
    given = unsloth.arguments("from_pretrained")
    assert given["model_name"] == str(local.model()) and given["use_exact_model_name"]
    assert (given["load_in_4bit"], given["dtype"]) == (True, torch.bfloat16)
    assert (given["max_seq_length"], given["fast_inference"]) == (200 + SPARE, False)
    assert given["use_gradient_checkpointing"] == "unsloth"
    adapter = unsloth.arguments("get_peft_model")
    assert (adapter["r"], adapter["lora_alpha"], adapter["bias"]) == (4, 8, "none")
    assert adapter["target_modules"] == ["q_proj"] and adapter["random_state"] == 7
    assert adapter["use_gradient_checkpointing"] == "unsloth"
    assert unsloth.names()[-1] == "for_inference"
    assert {p.dtype for p in made.parameters.values()} == {torch.float32}
    assert made.backend.words == f"Unsloth {stand_in_unsloth.VERSION}" and not made.packs
    assert heard[0].note.endswith('on cpu (the recipe says backend = "unsloth")')
    out = capsys.readouterr()
    assert out.out == "" and "banner" in out.err  # the standard output is for results
    assert os.environ["UNSLOTH_DISABLE_STATISTICS"] == "1"
    assert "unsloth" in os.environ["UNSLOTH_COMPILE_LOCATION"]


def test_a_card_without_the_number_type_is_told_and_computed_with_as_it_is(unsloth: StandIn) -> None:
    """Unsloth takes float16 where a card has no bfloat16; autocast to the other would undo it."""
    unsloth.instead = torch.float16
    made = local.policy(local.recipe(**FAST, train={"dtype": "bfloat16"}))
    assert made.warnings == ["train.dtype is bfloat16; Unsloth took torch.float16, what this card has"]
    with made.backend.around(made.recipe, "cpu"):
        assert torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.float16
    unsloth.instead = None
    plain = local.policy(local.recipe(**FAST))
    with plain.backend.around(plain.recipe, "cpu"):
        assert not torch.is_autocast_enabled("cpu") and not plain.warnings


def test_without_recomputing_and_in_16_bits(unsloth: StandIn) -> None:
    local.policy(local.recipe(**FAST))
    given = unsloth.arguments("from_pretrained")
    assert (given["use_gradient_checkpointing"], given["load_in_4bit"]) == (False, False)


@pytest.mark.parametrize("learning", [False, True])
def test_replies_and_choices_have_the_plain_numbers(unsloth: StandIn, learning: bool) -> None:
    fast, plain = both()
    rows = local.rows(choices=CHOICES)
    if learning:
        fast.learn()
        plain.learn()
    found, wanted = (one.logps(one.rows(rows)) for one in (fast, plain))
    mask = plain.rows(rows).mask
    assert torch.allclose(found * mask, wanted * mask, atol=1e-5)
    assert len(rows[0].choices) == 3
    assert torch.allclose(fast.choice_sums(rows[0]), plain.choice_sums(rows[0]), atol=1e-5)


def test_gradients_are_the_plain_ones(unsloth: StandIn) -> None:
    gradients = []
    for one in both():
        one.learn()
        rows = local.rows(choices=CHOICES)
        batch = one.rows(rows)
        ((one.logps(batch) * batch.mask).sum() + one.choice_sums(rows[0]).sum()).backward()
        gradients.append({name: p.grad for name, p in one.parameters.items()})
    assert gradients[0].keys() == gradients[1].keys()
    for name, value in gradients[0].items():
        assert torch.allclose(value, gradients[1][name], atol=1e-4), name


def test_passes_without_gradient_stand_between_for_inference_and_for_training(unsloth: StandIn) -> None:
    made = local.policy(local.recipe(**FAST))
    unsloth.calls.clear()
    made.learn()
    with made.frozen():
        assert not made.model.training
    assert unsloth.names() == ["for_training", "for_inference", "for_training"] and made.model.training
    unsloth.calls.clear()
    made.rest()
    with made.frozen():
        pass
    assert unsloth.names() == ["for_inference", "for_inference"] and not made.model.training


def test_an_adapter_to_go_on_from_is_patched_before_its_frozen_copy_joins(
    unsloth: StandIn, tmp_path: Path
) -> None:
    first = local.policy(local.recipe(backend="plain"))
    local.disturb(first)
    lora.save(first.model, tmp_path / "warm", "float32")
    made = local.policy(local.recipe(**FAST, adapter={"start": str(tmp_path / "warm")}))
    assert unsloth.arguments("patch_peft_model") == {"adapters": [lora.TRAINED]}
    batch = made.rows(local.rows())
    mask = batch.mask
    assert torch.allclose(made.fixed_logps(batch) * mask, first.fixed_logps(batch) * mask, atol=1e-5)
    local.disturb(made, seed=2)
    assert not torch.allclose(made.fixed_logps(batch) * mask, first.fixed_logps(batch) * mask, atol=1e-3)
    assert torch.allclose(made.reference_logps(batch) * mask, first.fixed_logps(batch) * mask, atol=1e-5)
    assert "as it was at the start" in made.reference
    assert all(lora.FROZEN not in name for name in made.parameters)


def test_one_trainer_serves_both(unsloth: StandIn, tmp_path: Path) -> None:
    from roleagent_lite.distill.choices import OfflineChoices
    from roleagent_lite.distill.grpo import Offline

    drawn = local.rows(["take key", "say hello."] * 3, choices=CHOICES, penalties=(0.0,) * 3)
    for kind, rows in ((Offline, local.rows()), (OfflineChoices, drawn)):
        losses = []
        for backend in ("plain", "unsloth"):
            recipe = local.recipe(backend=backend, train={"lr": 1e-3})
            made = local.policy(recipe)
            objective = kind.prepare(made, rows, recipe, "x")
            done = Trainer(made, objective, recipe, tmp_path / backend / kind.__name__, {}).run(rows)
            assert done.steps == done.total == 4 and not done.stopped
            log = (tmp_path / backend / kind.__name__ / "steps.jsonl").read_text(encoding="utf-8")
            losses.append([json.loads(line)["loss"] for line in log.splitlines()])
        assert losses[0] == pytest.approx(losses[1], abs=1e-4) and len(losses[0]) == 4


def test_a_row_that_it_would_cut_is_refused(unsloth: StandIn) -> None:
    made = local.policy(local.recipe(**FAST, data={"max_tokens": 16}))
    long = local.rows(replies=("take key " * 200,), advantages=(1.0,))
    with pytest.raises(RoleAgentError, match="longer than the 272 that the model was loaded for"):
        made.rows(long)


def test_positions_are_never_stretched(unsloth: StandIn) -> None:
    """Asked for more tokens than the model has positions, Unsloth scales them: another model."""
    made = local.policy(local.recipe(**FAST, data={"max_tokens": 4096}))
    assert unsloth.arguments("from_pretrained")["max_seq_length"] == made.backend.longest == 512


def test_what_it_cannot_load_is_said_with_the_way_out(unsloth: StandIn) -> None:
    unsloth.fail = NotImplementedError("Unsloth: this is not yet implemented!\nmore")
    with pytest.raises(ConfigError, match=r'not yet implemented!; backend = "plain" trains it without'):
        local.policy(local.recipe(**FAST))


def test_auto_takes_what_loads(unsloth: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = local.policy(local.recipe())
    assert taken.backend.words.startswith("Unsloth") and "Unsloth is installed" in taken.why

    def broken(name: str) -> Any:
        raise MissingExtra("training needs 'unsloth', which is installed but does not load")

    monkeypatch.setattr("roleagent_lite.distill.unsloth_backend.load", broken)
    plain = local.policy(local.recipe())
    assert plain.backend.words == "transformers and peft" and "does not load" in plain.why
    with pytest.raises(MissingExtra, match="does not load"):
        local.policy(local.recipe(**FAST))


def test_vllm_is_asked_for_only_where_it_is_and_the_model_will_write(
    unsloth: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    pad = local.tokenizer().pad_id
    monkeypatch.setattr("roleagent_lite.distill.unsloth_backend.installed", lambda name: name == "vllm")
    allowed = local.recipe(**FAST, online={"vllm": True})
    assert open_policy(allowed, pad).backend.words == f"Unsloth {stand_in_unsloth.VERSION}"
    assert open_policy(local.recipe(**FAST), pad, plays=True).backend.words.endswith(stand_in_unsloth.VERSION)
    assert open_policy(allowed, pad, plays=True).backend.words.endswith(" with vLLM")
    assert [g["fast_inference"] for n, g in unsloth.calls if n == "from_pretrained"] == [False, False, True]
