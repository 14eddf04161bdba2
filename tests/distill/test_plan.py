"""plan: formulas against hand-worked numbers, against transformers' and peft's own counts, and against memory
that was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.content import room
from roleagent_lite.distill.plan import (
    FIXED,
    WITHIN,
    Load,
    Size,
    adapter_parameters,
    fitting,
    ladder,
    limits,
    operations,
    plan,
)
from roleagent_lite.distill.recipe import Recipe, from_mapping, load_recipe

SMALL = Size(2, 4, 8, 2, 1, 3, 10, True)  # queries 6, keys 3
# Dimensions as published in the models' config.json.
# As in each model's config.json on huggingface.co (layers, hidden_size, intermediate_size, heads, key heads,
# head_dim, vocab_size, tie_word_embeddings).
PUBLISHED = {
    "embedded": Size(30, 576, 1536, 9, 3, 64, 49152, True),
    "Qwen/Qwen3-0.6B": Size(28, 1024, 3072, 16, 8, 128, 151936, True),
    "Qwen/Qwen3-1.7B": Size(28, 2048, 6144, 16, 8, 128, 151936, True),
    "Qwen/Qwen3-4B-Instruct-2507": Size(36, 2560, 9728, 32, 8, 128, 151936, True),
    "Qwen/Qwen3-8B": Size(36, 4096, 12288, 32, 8, 128, 151936, False),
}
CARDS = {"8gb": 8, "12gb": 12, "16gb": 16, "24gb": 24}


def recipe(**more: Any) -> Recipe:
    plain: dict[str, Any] = {
        "model": "x", "adapter": {"rank": 2, "alpha": 4}, "data": {"max_tokens": 100},
        "train": {"micro_batch": 3, "batch": 6}, "loss": {"length": 10},
    }  # fmt: skip
    for key, value in more.items():
        plain[key] = {**plain.get(key, {}), **value} if isinstance(value, dict) else value
    return from_mapping(plain)


def test_weights_and_adapter_by_hand() -> None:
    # A block: q 4x6, k and v 4x3, o 6x4, gate and up 4x8, down 8x4, two norms of 4.
    block = 24 + 12 + 12 + 24 + 32 + 32 + 32 + 8
    assert SMALL.parameters == 2 * block + 10 * 4 + 4
    # rank 2 x (10 + 7 + 7 + 10 + 12 + 12 + 12), two blocks
    assert adapter_parameters(SMALL, recipe()) == 2 * 2 * 70
    assert adapter_parameters(SMALL, recipe(adapter={"targets": ("q_proj", "down_proj")})) == 2 * 2 * 22
    made = plan(SMALL, recipe())
    assert (made.weights, made.adapter, made.optimiser) == (4 * SMALL.parameters, 4 * 280, 12 * 280)
    assert plan(SMALL, recipe(adapter={"start": "a"})).adapter == 2 * 4 * 280
    assert plan(SMALL, recipe(train={"dtype": "bfloat16"})).weights == 2 * SMALL.parameters


def test_what_a_pass_keeps_by_hand() -> None:
    # 4 bytes x (2 h + 4 H d + 4 f) + 4 x (4 h + 7 r), for 3 x 100 tokens and two blocks
    block = 4 * (8 + 24 + 32) + 4 * (16 + 14)
    assert plan(SMALL, recipe()).activations == 300 * 2 * block
    assert plan(SMALL, recipe(), card=False).activations == 300 * 2 * (block + 2 * 4 * 2 * 100)
    assert plan(SMALL, recipe(train={"recompute": True})).activations == 300 * (2 * 4 * 4 + block)
    narrow = 2 * (8 + 24 + 32) + 4 * (16 + 14) + 4 * (20 + 6 + 8)
    assert plan(SMALL, recipe(train={"dtype": "bfloat16"})).activations == 300 * 2 * narrow
    assert plan(SMALL, recipe()).logits == 3 * 11 * 10 * (4 + 12)
    assert plan(SMALL, recipe(online={"group": 5})).cache == 2 * 2 * 3 * 4 * 100 * 5
    made = plan(SMALL, recipe())
    assert made.total == made.weights + made.adapter + made.optimiser + FIXED + made.activations + made.logits


def test_time_by_hand() -> None:
    load = Load(6, 600, 100, 10)
    once = SMALL.parameters * 600
    assert operations(SMALL, recipe(method="sft"), load) == 4 * once
    assert operations(SMALL, recipe(), load) == 8 * once
    assert operations(SMALL, recipe(train={"epochs": 3}), load) == 16 * once
    assert operations(SMALL, recipe(method="sft", train={"epochs": 9, "steps": 2}), load) == 8 * once
    untied = Size(2, 4, 8, 2, 1, 3, 10, False)
    assert operations(untied, recipe(), load) == 8 * once  # looking up an embedding costs nothing


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_counts_are_those_of_transformers_and_peft(kind: str) -> None:
    pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)
    from roleagent_lite.distill.size import from_config
    from tests import tiny_bpe
    from tests.distill import local

    folder = tiny_bpe.model(kind)
    made = local.policy(local.recipe(model=str(folder), adapter={"rank": 4}))
    size = from_config(folder)
    assert sum(p.numel() for p in made.parameters.values()) == adapter_parameters(
        size, recipe(adapter={"rank": 4})
    )
    whole = sum(p.numel() for p in made.model.parameters()) - sum(p.numel() for p in made.parameters.values())
    assert size.parameters == pytest.approx(whole, rel=0.01)  # biases and norms of heads are not counted


def test_every_recipe_fits_the_card_of_its_name() -> None:
    found = [path.stem for path in sorted(room("distill").glob("*.toml"))]
    assert {name.rpartition("-")[2] for name in found} >= set(CARDS)
    for name in found:
        chosen = load_recipe(name)
        card = name.rpartition("-")[2]
        if card not in CARDS:
            continue
        assert chosen.device == "cuda" and chosen.train.dtype == "bfloat16" and chosen.about, name
        total = plan(PUBLISHED[chosen.model], chosen).total
        assert 0.3 * CARDS[card] * 2**30 < total < 0.9 * CARDS[card] * 2**30, (
            f"{name}: {total / 2**30:.1f} GiB"
        )


def test_published_models_weigh_what_their_names_say() -> None:
    known = {"embedded": 0.135, "Qwen/Qwen3-0.6B": 0.596, "Qwen/Qwen3-1.7B": 1.72, "Qwen/Qwen3-8B": 8.19}
    for name, billions in {**known, "Qwen/Qwen3-4B-Instruct-2507": 4.02}.items():
        assert PUBLISHED[name].parameters / 1e9 == pytest.approx(billions, rel=0.01)


def test_the_ladder_goes_down_one_step_at_a_time() -> None:
    size = PUBLISHED["Qwen/Qwen3-4B-Instruct-2507"]
    chosen = recipe(data={"max_tokens": 2048}, adapter={"rank": 8, "alpha": 16}, online={"group": 4})
    rungs = list(ladder(size, chosen))
    assert [r.words for r in rungs] == [
        "train.micro_batch 3 -> 1", "train.recompute = true (a third more time)", "online.group 4 -> 2",
        "data.max_tokens 2048 -> 1024", "data.max_tokens 1024 -> 512", "adapter.rank 8 -> 4",
    ]  # fmt: skip
    totals = [plan(size, chosen).total, *(r.plan.total for r in rungs)]
    assert totals == sorted(totals, reverse=True)
    last = rungs[-1].recipe
    assert (last.train.micro_batch, last.online.group, last.data.max_tokens) == (1, 2, 512)
    assert last.adapter.alpha / last.adapter.rank == chosen.adapter.alpha / chosen.adapter.rank
    assert fitting(size, chosen, totals[0]) == []
    taken = fitting(size, chosen, totals[2])
    assert taken is not None and [r.words for r in taken] == [r.words for r in rungs[:2]]
    assert fitting(size, chosen, totals[-1] - 1) is None


def test_a_base_in_four_bits_and_vllms_cache() -> None:
    size = PUBLISHED["Qwen/Qwen3-8B"]
    chosen = recipe(train={"dtype": "bfloat16"})
    wide, narrow = (plan(size, recipe(train={"dtype": "bfloat16", "four_bit": b})) for b in (False, True))
    assert wide.weights == 2 * size.parameters and wide.activations == narrow.activations
    # 6.95 billion weights in the blocks at 4.127 bits, 1.24 billion of embedding and output layer at 16
    assert narrow.weights / 1e9 == pytest.approx(6.946 * 4.127 / 8 + 1.245 * 2 + 0.1, rel=0.01)
    beside = chosen.model_copy(update={"online": chosen.online.model_copy(update={"vllm": True})})
    turns, both = plan(size, chosen), plan(size, beside)
    assert both.total == turns.total - max(turns.activations + turns.logits, turns.cache) + (
        turns.activations + turns.logits + turns.cache
    )
    rung = [r for r in ladder(size, beside) if "vllm" in r.words]
    assert [r.words for r in rung] == ["online.vllm = false (replies are written slower)"]
    assert not rung[0].recipe.online.vllm and not rung[0].plan.beside


def test_known_samples_count_and_else_the_limits() -> None:
    assert limits(recipe()) == Load(6, 600, 100, 10, measured=False)
    assert limits(recipe(train={"steps": 5})).samples == 30
    assert plan(SMALL, recipe(), Load(1, 50, 50, 5)).activations == plan(SMALL, recipe()).activations / 2


MEASURE = """
import json, sys, torch
from roleagent_lite.distill import rehearsal
from roleagent_lite.distill.policy import open_policy, Rows
from roleagent_lite.distill.recipe import from_mapping
recipe = from_mapping(json.loads(sys.argv[1]))
policy = open_policy(recipe, 2)
policy.model.train(recipe.train.recompute)
size, length, reply = recipe.train.micro_batch, recipe.data.max_tokens, recipe.loss.length
optimizer = torch.optim.AdamW(list(policy.parameters.values()), lr=1e-5)
for _ in range(2):
    ids = torch.randint(5, 300, (size, length))
    mask = torch.ones(size, reply)
    rows = Rows(ids, torch.ones_like(ids), ids[:, -reply:], mask, 0 * mask, torch.ones(size))
    (-policy.logps(rows).mean()).backward()
    optimizer.step()
print(rehearsal._peak())  # getrusage's would be no less than that of the process that began this one
"""


@pytest.mark.slow
@pytest.mark.parametrize("recompute", [False, True])
def test_memory_on_a_cpu_is_within_the_stated_factor(tmp_path: Path, recompute: bool) -> None:
    """A process of its own trains two steps; its peak beside the estimate."""
    pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)
    import torch
    import transformers

    from roleagent_lite.distill.size import from_config

    config = transformers.LlamaConfig(
        vocab_size=20_000, hidden_size=512, intermediate_size=1408, num_hidden_layers=8,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=2048,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    chosen = recipe(
        model=str(tmp_path), data={"max_tokens": 768}, loss={"length": 64}, adapter={"rank": 8},
        train={"micro_batch": 2, "recompute": recompute},
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, chosen.model_dump_json()],
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    peak, estimate = int(done.stdout.split()[-1]), plan(from_config(tmp_path), chosen, card=False).total
    print(json.dumps({"recompute": recompute, "peak": peak / 2**30, "estimate": estimate / 2**30}))
    assert 1 / WITHIN < peak / estimate < WITHIN
