"""batch: RL-11, a prompt in a batch is answered as it is alone."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from roleagent_lite.distill.batch import generate
from roleagent_lite.distill.tokenizer import open_tokenizer
from tests import tiny

PROMPTS = ([9, 10, 11], [12, 13, 14, 15, 16, 17, 18, 19, 20])
NEVER = -1


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_rl_11_a_batch_answers_as_one_by_one_whatever_side_the_tokenizer_pads(
    tmp_path: Path, kind: str
) -> None:
    folder = tiny.save_model(tmp_path, kind)
    tiny.save_tokenizer(tmp_path, padding_side="right")
    assert AutoTokenizer.from_pretrained(folder).padding_side == "right"
    pad = open_tokenizer(str(folder)).pad_id
    model = AutoModelForCausalLM.from_pretrained(folder)
    alone = [generate(model, [p], most=12, end_id=NEVER, pad_id=pad)[0] for p in PROMPTS]
    assert generate(model, PROMPTS, most=12, end_id=NEVER, pad_id=pad) == alone
    assert generate(model, PROMPTS[::-1], most=12, end_id=NEVER, pad_id=pad) == alone[::-1]
    for prompt, reply in zip(PROMPTS, alone, strict=True):
        ids = torch.tensor([prompt])
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, eos_token_id=None
        )
        assert out[0, len(prompt) :].tolist() == reply
    # What the case warns of: padding where the tokenizer puts it makes the short prompt's answer another.
    short = torch.tensor([[*PROMPTS[0], *[pad] * 6]])
    with torch.no_grad():
        assert int(model(short).logits[0, -1].argmax()) != alone[0][0]


def test_a_reply_ends_with_its_end_of_turn_and_the_others_go_on(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny.save_model(tmp_path)).train()
    free = generate(model, PROMPTS, most=8, end_id=NEVER, pad_id=4)
    end = free[0][2]  # as if the third token of the first reply ended its turn
    cut = [r[: r.index(end) + 1] if end in r else r for r in free]
    assert generate(model, PROMPTS, most=8, end_id=end, pad_id=4) == cut
    assert model.training


@pytest.mark.parametrize("prompts", [[], [[]], [[1], []]])
def test_nothing_to_answer_is_an_error(prompts: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="one or more non-empty lists"):
        generate(None, prompts, most=1, end_id=0, pad_id=0)
