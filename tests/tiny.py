"""TINY: a two-layer, randomly initialised causal model and a small word-level tokenizer, made here in a
second.

The tokenizer needs neither torch nor transformers; it gives every text of the test worlds back exactly. The
model is a Llama (or a GPT-2, whose layers have other names) with the same vocabulary.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CHATML = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
# Opens a thinking block for the reply, and drops what earlier replies thought.
THINKING = (
    "{% for m in messages %}<|start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' %}{{ m.content.split('</think>')[-1].lstrip('\n') }}"
    "{% else %}{{ m.content }}{% endif %}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n<think>\n{% endif %}"
)
NO_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    + CHATML
)
STRICT = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user/assistant') }}{% endif %}{% endfor %}" + CHATML
)
DEAF = (
    "{% for m in messages %}{% if m.role != 'system' %}"
    + CHATML.partition("%}")[2].partition("{% endfor")[0]
    + ("{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}")
)
SPECIAL = ("<|unk|>", "<|start|>", "<|end|>", "<|text|>", "<|pad|>")
_WORDS = (
    "You take key from hook open door look around say hello the a hall There is are in see Nothing "
    "happens system user assistant Act Reply with action Goal Get out of think took turn step go to on "
    "box and then not it 1 2 3 need I must Lesson always first before earlier tasks One Two Three word "
    "text more old new red blue green go stop "
)
WORDS = _WORDS.split()


def tokenizer_json(words: tuple[str, ...] = ()) -> Any:
    """A `tokenizers.Tokenizer`: words, single blanks, line ends and marks are tokens; letters spell the
    rest."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    marks = [chr(c) for c in range(32, 127)] + ["\n", "é", "→"]
    names = [*SPECIAL, *dict.fromkeys([*marks, *WORDS, *words])]
    inner = Tokenizer(models.WordLevel({n: k for k, n in enumerate(names)}, unk_token="<|unk|>"))
    known = "|".join(sorted({*WORDS, *words}, key=len, reverse=True))
    pattern = Regex(rf"\b(?:{known})\b|[\s\S]")
    inner.pre_tokenizer = pre_tokenizers.Split(pattern, "isolated")
    inner.decoder = decoders.Fuse()
    inner.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    return inner


def save_tokenizer(
    folder: Path, template: str = CHATML, *, pad: str | None = "<|pad|>", words: tuple[str, ...] = (),
    **config: Any,
) -> Path:  # fmt: skip
    """`folder` with tokenizer files in Hugging Face's layout; pad None = no padding token."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer_json(words).save(str(folder / "tokenizer.json"))
    values = {
        "tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template, "eos_token": "<|text|>",
        "unk_token": "<|unk|>", "pad_token": pad, "clean_up_tokenization_spaces": False, **config,
    }  # fmt: skip
    kept = {k: v for k, v in values.items() if v is not None}
    (folder / "tokenizer_config.json").write_text(json.dumps(kept), encoding="utf-8")
    return folder


def save_model(
    folder: Path, kind: str = "llama", *, seed: int = 0, hidden: int = 32, dtype: str = "float32",
    words: tuple[str, ...] = (),
) -> Path:  # fmt: skip
    """A tokenizer and a random model of two layers in `folder`. Needs torch and transformers."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, logging

    logging.disable_progress_bar()

    save_tokenizer(folder, words=words)
    vocabulary = tokenizer_json(words).get_vocab_size()
    torch.manual_seed(seed)
    # Wide first weights: with the usual ones so small a model can hardly prefer any token to another.
    ends = {"bos_token_id": 3, "eos_token_id": 2, "pad_token_id": 4, "initializer_range": 0.2}
    if kind == "gpt2":
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=vocabulary, n_embd=hidden, n_layer=2, n_head=2, n_positions=512, **ends)
        )
    else:
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=vocabulary,
                hidden_size=hidden,
                intermediate_size=2 * hidden,
                num_hidden_layers=2,
                num_attention_heads=2,
                num_key_value_heads=1,
                max_position_embeddings=512,
                **ends,
            )
        )
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    return folder
