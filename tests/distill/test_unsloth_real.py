"""The real Unsloth on its CPU back end (marker `unsloth`): it takes our calls and gives the plain numbers.

Its CPU back end is transformers and peft under the same functions, so this checks the calls and the trainer,
and nothing of its kernels: those need a card (benchmarks/gpu_check.py). In an environment of its own, since
importing Unsloth changes transformers for the whole process.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

from roleagent_lite.distill.choices import OfflineChoices
from roleagent_lite.distill.grpo import Offline
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.train import Trainer
from roleagent_lite.distill.unsloth_backend import Unsloth
from roleagent_lite.distill.whole import Whole
from tests.distill import local

pytestmark = [pytest.mark.unsloth, pytest.mark.filterwarnings("ignore")]
CHOICES = ("take key", "open door and look around", "say hello.")


@pytest.fixture(autouse=True)
def there() -> None:
    """Imported where these tests run, never where they are only collected."""
    pytest.importorskip("unsloth", reason="needs Unsloth", exc_type=ImportError)


def opened(**more: Any) -> Policy:
    recipe = local.recipe(backend="unsloth", **more)
    backend = Unsloth()
    found = backend.load(recipe, local.model(), "cpu")
    return Policy(
        found.model, device="cpu", pad_id=local.tokenizer().pad_id, reference=found.reference,
        backend=backend, recipe=recipe,
    )  # fmt: skip


@pytest.mark.parametrize("recompute", [False, True])
def test_numbers_and_gradients_are_the_plain_ones(recompute: bool) -> None:
    made, plain = opened(train={"recompute": recompute}), local.policy(local.recipe(backend="plain"))
    assert made.parameters.keys() == plain.parameters.keys()
    with torch.no_grad():
        for name, parameter in plain.parameters.items():
            parameter.copy_(made.parameters[name])
    local.disturb(made)
    local.disturb(plain)
    rows = local.rows(choices=CHOICES)
    sums = []
    for one in (made, plain):
        one.learn()
        batch = one.rows(rows)
        logps = one.logps(batch) * batch.mask
        sums.append((logps.detach(), one.choice_sums(rows[0]).detach()))
        logps.sum().backward()
    for found, wanted in zip(*sums, strict=True):
        assert torch.allclose(found, wanted, atol=1e-5)
    for name, parameter in made.parameters.items():
        assert torch.allclose(parameter.grad, plain.parameters[name].grad, atol=1e-5), name


@pytest.mark.parametrize("kind", [Offline, OfflineChoices])
def test_it_trains_and_an_adapter_goes_on(tmp_path: Path, kind: type[Offline]) -> None:
    replies = ["take key", "say hello."] * 3
    rows = (
        local.rows(replies, choices=CHOICES, penalties=(0.0,) * 3) if kind is OfflineChoices else local.rows()
    )
    made = opened(train={"lr": 1e-3, "recompute": True})
    objective = kind.prepare(made, rows, local.recipe(), "x")
    done = Trainer(made, objective, local.recipe(train={"lr": 1e-3}), tmp_path / "out", {}).run(rows)
    assert done.steps == done.total == 4 and not done.stopped
    lines = (tmp_path / "out" / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    assert len({json.loads(line)["loss"] for line in lines}) == 4
    again = opened(adapter={"start": str(done.adapter)})
    batch = again.rows(rows)
    assert torch.equal(again.fixed_logps(batch), again.reference_logps(batch))
    assert torch.allclose(again.fixed_logps(batch), made.fixed_logps(batch), atol=1e-5)


def test_four_bits_take_gradients() -> None:
    made = opened(train={"four_bit": True, "dtype": "bfloat16"})
    kinds = {type(layer).__name__ for layer in made.model.modules()}
    assert "Linear4bit" in kinds
    made.learn()
    batch = made.rows(local.rows())
    (made.logps(batch) * batch.mask).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in made.parameters.values())


def test_it_writes_and_scores() -> None:
    made, prompt = opened(), tuple(range(20, 60))
    reader = Whole(made)
    found = reader.write(prompt, most=5, temperature=0.0, seed="s", done=lambda ids: len(ids) == 4)
    assert len(found) == 4
    scores = reader.score(prompt, [[found[0][0]], [found[0][0], found[1][0]]])
    assert scores[1] == pytest.approx([p for _, p in found[:2]], abs=1e-4)
    assert scores[0] == pytest.approx(scores[1][:1], abs=1e-4)
