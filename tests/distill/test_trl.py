"""loss against TRL 1.14's GRPOTrainer: same batch, same model, loss and gradient equal to 1e-5.

TRL fixes rows and groups, so it is no part of this project; it is a second opinion on the formulas. Its pins
differ from ours: install it beside the project in an environment of its own, then `pytest -m trl`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.distill.recipe import from_mapping
from roleagent_lite.distill.tokenizer import open_tokenizer
from roleagent_lite.distill.tokens import Tokens, tokenise
from tests import tiny
from tests.distill import local
from tests.distill import test_loss as by_hand
from tests.distill.make import chat
from tests.distill.test_tokens import SAMPLE

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("ignore")]
LENGTH = 32
KINDS = {"grpo": "grpo", "mean": "bnpo", "dr_grpo": "dr_grpo"}  # ours: TRL's name


def trainer(model: Any, folder: Path, loss_type: str, beta: float, length: int = LENGTH) -> Any:
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    arguments = GRPOConfig(
        output_dir=str(folder / "trl"), per_device_train_batch_size=4, num_generations=2, loss_type=loss_type,
        epsilon=0.2, epsilon_high=0.28, beta=beta, temperature=1.0, max_completion_length=length,
        use_cpu=True, report_to=[], bf16=False, disable_tqdm=True, disable_dropout=False,
        use_bias_correction_kl=False,
    )  # fmt: skip
    made = GRPOTrainer(
        model=model, reward_funcs=lambda **_: [0.0], args=arguments,
        train_dataset=Dataset.from_list([{"prompt": "a"}] * 4),
        processing_class=AutoTokenizer.from_pretrained(folder),
    )  # fmt: skip
    made.model.eval()  # without accumulation and dropout
    return made


def stacked(values: list[Any], width: int) -> Any:
    import torch

    return torch.stack([torch.nn.functional.pad(v, (0, width - len(v))) for v in values])


def inputs(rows: list[Tokens], old: Any, reference: Any, pad: int) -> dict[str, Any]:
    """Prompts padded on the left, replies on the right, as TRL has them."""
    import torch

    prompts = [list(r.ids[: r.start]) for r in rows]
    replies = [list(r.ids[r.start :]) for r in rows]
    left, right = max(map(len, prompts)), max(map(len, replies))
    return {
        "prompt_ids": torch.tensor([[pad] * (left - len(p)) + p for p in prompts]),
        "prompt_mask": torch.tensor([[0] * (left - len(p)) + [1] * len(p) for p in prompts]),
        "completion_ids": torch.tensor([c + [pad] * (right - len(c)) for c in replies]),
        "completion_mask": torch.tensor([[1] * len(c) + [0] * (right - len(c)) for c in replies]),
        "advantages": torch.tensor([r.sample.advantage for r in rows]),
        "old_per_token_logps": stacked(old, right),
        "ref_per_token_logps": stacked(reference, right),
    }  # fmt: skip


@pytest.mark.parametrize("normalise", sorted(KINDS))
def test_loss_and_gradient_of_a_model_equal_trls(tmp_path: Path, normalise: str) -> None:
    import torch

    from roleagent_lite.distill.grpo import Offline
    from roleagent_lite.distill.policy import open_policy
    from roleagent_lite.distill.train import totals_of

    folder = tiny.save_model(tmp_path)
    tokenizer = open_tokenizer(str(folder))
    replies = ["take key", "open door and look around", "say hello.", "look"]
    rows = [
        tokenise(
            replace(SAMPLE, id=f"e/{k}", text=text, messages=chat("You see it. " * (k + 1)), advantage=a),
            tokenizer, 500,
        )
        for k, (text, a) in enumerate(zip(replies, [1.5, -0.5, 0.25, -1.25], strict=True))
    ]  # fmt: skip
    recipe = from_mapping(
        {"model": str(folder), "loss": {"kl": 0.05, "normalise": normalise, "length": LENGTH}}
    )
    policy = open_policy(recipe, tokenizer.pad_id)
    generator = torch.Generator().manual_seed(1)
    for parameter in policy.parameters.values():  # an adapter that does something
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    now = {r.sample.id: local.read(policy, r) for r in rows}
    old = {k: v + 0.4 * torch.randn(v.shape, generator=generator) for k, v in now.items()}
    with policy.at_the_start():
        reference = {r.sample.id: local.read(policy, r) for r in rows}
    ours, told = Offline(recipe.loss, old, reference, "x").loss(policy, rows, totals_of(rows, recipe))
    ours.backward()
    gradient = {n: p.grad.clone() for n, p in policy.parameters.items()}
    policy.model.zero_grad()
    made = trainer(policy.model, folder, KINDS[normalise], 0.05)
    given = inputs(rows, list(old.values()), list(reference.values()), tokenizer.pad_id)
    theirs = made._compute_loss(made.model, given)
    theirs.backward()
    assert told["clipped"] > 0 and told["kl"] > 0  # the batch reaches what it should
    print(f"{normalise}: ours {float(ours):.8f}, TRL {float(theirs):.8f}")
    assert abs(float(ours) - float(theirs)) < 1e-5
    for name, parameter in policy.parameters.items():
        assert float((gradient[name] - parameter.grad).abs().max()) < 1e-5, name


@pytest.mark.parametrize("normalise", sorted(KINDS))
def test_the_numbers_worked_by_hand_are_trls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, normalise: str
) -> None:
    """The tensors of test_loss.py put in place of a model's log-probabilities."""
    import torch
    from transformers import AutoModelForCausalLM

    folder = tiny.save_model(tmp_path)
    made = trainer(AutoModelForCausalLM.from_pretrained(folder), folder, KINDS[normalise], 0.1, length=4)
    logps, old, reference, mask, advantages = by_hand.tensors()
    monkeypatch.setattr(
        made, "_get_per_token_logps_and_entropies", lambda *_, **__: (logps, torch.zeros(2, 3), None)
    )
    blank = torch.ones(2, 1, dtype=torch.long)
    given = {
        "prompt_ids": blank, "prompt_mask": blank, "completion_ids": torch.ones(2, 3, dtype=torch.long),
        "completion_mask": mask, "advantages": advantages, "old_per_token_logps": old,
        "ref_per_token_logps": reference,
    }  # fmt: skip
    theirs = float(made._compute_loss(made.model, given))
    print(f"{normalise}: TRL {theirs:.7f}")
    assert abs(theirs - float(by_hand.parts(normalise=normalise).loss)) < 1e-5
