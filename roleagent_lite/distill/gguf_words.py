"""The tokenizer part of a GGUF file: copied from the file a model came from, or made from its folder.

Owns what llama.cpp needs to turn text into ids: tokens and their kinds, merges, the rule that splits text
before them, the tokens that begin and end, and the chat template. Byte-level BPE only, with the splitting
rules of Llama 3, Qwen, SmolLM and GPT-2. Leaves out weights (to_gguf.py) and the proof that both sides read
alike (parity.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokenizer import open_tokenizer
from roleagent_lite.errors import ConfigError

# llama.cpp's names for the rules that split text into words, by the expression in tokenizer.json.
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_SPLITS = {_LLAMA3: "llama-bpe", _LLAMA3.replace("{1,3}", ""): "qwen2"}
_NORMAL, _CONTROL, _OWN, _UNUSED = 1, 3, 4, 5  # kinds of tokens in GGUF


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a GGUF file: `kind` and `item` are the format's numbers of the value's type and its
    items'."""

    value: Any
    kind: Any
    item: Any = None


def fields_of(file: Path, prefix: str = "tokenizer.") -> dict[str, Field]:
    """The keys of a GGUF file that begin with `prefix`. Raises ConfigError where it cannot be read."""
    try:
        reader = load("gguf").GGUFReader(str(file))
    except (OSError, ValueError, IndexError) as error:
        raise ConfigError(f"cannot read the GGUF file {file}: {error}") from None
    return {
        name: Field(field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
        for name, field in reader.fields.items()
        if name.startswith(prefix)
    }


def fields_for(folder: Path, rows: int) -> dict[str, Field]:
    """The same keys for a model's folder in Hugging Face's layout whose embedding has `rows` rows.

    Raises ConfigError for a tokenizer that this does not cover, with llama.cpp's own command.
    """
    kind = load("gguf").GGUFValueType
    data = _json(folder / "tokenizer.json")
    model = data.get("model", {})
    rule = splitting(data) if model.get("type") == "BPE" and not model.get("byte_fallback") else None
    if rule is None:
        raise ConfigError(
            f"the tokenizer in {folder} is no byte-level BPE of Llama 3, Qwen, SmolLM or GPT-2. "
            + by_llama_cpp(folder)
        )
    config = _json(folder / "tokenizer_config.json")
    tokenizer = open_tokenizer(str(folder))
    names, kinds = _tokens(data, rows)
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    bos = _id(data, config.get("bos_token"))
    if bos is None:  # readers want one; nothing ever puts it before a prompt
        bos = tokenizer.end_id
    text = {"model": "gpt2", "pre": rule}
    numbers = {
        "eos_token_id": tokenizer.end_id, "eot_token_id": tokenizer.end_id,
        "padding_token_id": tokenizer.pad_id, "bos_token_id": bos,
    }  # fmt: skip
    out = {f"tokenizer.ggml.{k}": Field(v, kind.STRING) for k, v in text.items()}
    out["tokenizer.ggml.tokens"] = Field(names, kind.ARRAY, kind.STRING)
    out["tokenizer.ggml.token_type"] = Field(kinds, kind.ARRAY, kind.INT32)
    out["tokenizer.ggml.merges"] = Field(merges, kind.ARRAY, kind.STRING)
    out |= {f"tokenizer.ggml.{k}": Field(v, kind.UINT32) for k, v in numbers.items()}
    # The template writes the beginning itself, and our prompts are rendered text: nothing is put before it.
    out["tokenizer.ggml.add_bos_token"] = Field(False, kind.BOOL)
    out["tokenizer.chat_template"] = Field(template_of(folder, config), kind.STRING)
    return out


def splitting(data: Mapping[str, Any]) -> str | None:
    """llama.cpp's name for the rule by which this tokenizer.json splits text before merging; None = none."""
    pre = data.get("pre_tokenizer") or {}
    steps = list(pre.get("pretokenizers", [])) if pre.get("type") == "Sequence" else [pre]
    if not steps or steps[-1].get("type") != "ByteLevel" or steps[-1].get("add_prefix_space"):
        return None
    words = bool(steps[-1].get("use_regex", True))
    if len(steps) == 1:
        return "gpt-2" if words else None
    first = steps[0]
    if len(steps) == 2 and first.get("type") == "Digits" and first.get("individual_digits") and words:
        return "smollm"
    pattern = first.get("pattern", {}).get("Regex") if first.get("type") == "Split" else None
    return _SPLITS.get(str(pattern)) if len(steps) == 2 and not words else None


def by_llama_cpp(folder: Path) -> str:
    """What to do with a model that the own writer does not cover."""
    return (
        f"llama.cpp's own script may convert it, in a checkout of llama.cpp: python convert_hf_to_gguf.py "
        f"{folder} --outfile model-f16.gguf --outtype f16 (and convert_lora_to_gguf.py ADAPTER --base "
        f"{folder} for an adapter)"
    )


def template_of(folder: Path, config: Mapping[str, Any]) -> str:
    """The chat template of a folder, as its tokenizer files give it."""
    own = folder / "chat_template.jinja"
    if own.is_file():
        return own.read_text(encoding="utf-8")
    found = config.get("chat_template") or ""
    if isinstance(found, list):
        found = {one["name"]: one["template"] for one in found}.get("default", "")
    return str(found)


def _tokens(data: Mapping[str, Any], rows: int) -> tuple[list[str], list[int]]:
    """Token texts and kinds by id; ids that the embedding has and the tokenizer lacks are unused."""
    names = [f"[PAD{k}]" for k in range(rows)]
    kinds = [_UNUSED] * rows
    for name, at in data["model"]["vocab"].items():
        names[at], kinds[at] = name, _NORMAL
    for added in data.get("added_tokens", ()):
        names[added["id"]] = added["content"]
        kinds[added["id"]] = _CONTROL if added.get("special") else _OWN
    return names, kinds


def _id(data: Mapping[str, Any], token: Any) -> int | None:
    name = token.get("content") if isinstance(token, Mapping) else token
    for added in data.get("added_tokens", ()):
        if added["content"] == name:
            return int(added["id"])
    found = data["model"]["vocab"].get(name) if name else None
    return None if found is None else int(found)


def _json(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    return loaded if isinstance(loaded, dict) else {}
