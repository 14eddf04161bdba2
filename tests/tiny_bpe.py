"""TINY as llama.cpp can play it: the random two-layer model with a byte-level BPE of a few hundred tokens.

The word-level tokenizer of tiny.py has no place in a GGUF file. Architectures and splitting rules are those
that the GGUF writer covers.
"""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

from tests import tiny

ENDS = {"bos_token_id": None, "eos_token_id": 1, "pad_token_id": 2, "initializer_range": 0.2}
SPECIAL = ("<|start|>", "<|end|>", "<|pad|>")
SIZE = 400  # rows of the embedding: some more than there are tokens
TEXT = [
    "You are in a hall. There is a key and a door.",
    "Act in the hall. Reply with one action.",
    "take key from hook 1, open door 2, look around 365 times; It's the dog's.",
    "system user assistant\nGoal: put a clean mug on the table.\n\n> go to cabinet 12",
]


def tokenizer_json(rule: str = "gpt-2") -> Any:
    """A `tokenizers.Tokenizer` that splits text by one of the rules of `gguf_words`."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    from roleagent_lite.distill.gguf_words import _SPLITS

    inner = Tokenizer(models.BPE())
    patterns = {name: text for text, name in _SPLITS.items()}
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=rule not in patterns)
    steps: dict[str, list[Any]] = {"gpt-2": [], "smollm": [pre_tokenizers.Digits(individual_digits=True)]}
    if rule in patterns:
        steps[rule] = [pre_tokenizers.Split(Regex(patterns[rule]), "isolated")]
    inner.pre_tokenizer = pre_tokenizers.Sequence([*steps[rule], byte_level]) if steps[rule] else byte_level
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE - 20, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    inner.train_from_iterator(TEXT, trainer)
    inner.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    return inner


def save_tokenizer(folder: Path, rule: str = "gpt-2", template: str = tiny.CHATML) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer_json(rule).save(str(folder / "tokenizer.json"))
    values = {
        "tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template, "eos_token": "<|end|>",
        "pad_token": "<|pad|>", "clean_up_tokenization_spaces": False,
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


def save_model(folder: Path, kind: str = "llama", rule: str = "gpt-2", *, seed: int = 0, **more: Any) -> Path:
    """Tokenizer and model in `folder`. kind: llama, qwen2, qwen3."""
    import torch
    import transformers

    transformers.logging.disable_progress_bar()
    save_tokenizer(folder, rule)
    family = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[kind]
    own: dict[str, Any] = {"head_dim": 24} if kind == "qwen3" else {}
    config = getattr(transformers, f"{family}Config")(
        vocab_size=SIZE, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=4096, **ENDS, **own, **more,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    for parameter in model.parameters():  # biases begin at 0 and norms at 1: neither would show
        if parameter.ndim == 1:
            parameter.data += 0.1 * torch.randn(parameter.shape)
    model.save_pretrained(folder)
    return folder


@functools.cache
def model(kind: str = "llama", rule: str = "gpt-2") -> Path:
    return save_model(Path(tempfile.mkdtemp(prefix="tiny-bpe-")), kind, rule)
