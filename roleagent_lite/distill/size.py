"""A model's dimensions without its weights: from config.json of a folder or the hub, or a GGUF file's keys.

Owns where these numbers are found, and how much memory there is for a training. Leaves out what they come to
(plan.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roleagent_lite.distill.gguf_words import fields_of
from roleagent_lite.distill.plan import Size
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.weights import made_from
from roleagent_lite.errors import ConfigError, MissingExtra, RoleAgentError
from roleagent_lite.lm.weights import check_gguf, is_embedded, resolve_model
from roleagent_lite.lm.wheels import cache_dir
from roleagent_lite.redact import scrub

_SHARE = 0.9  # of all memory that a training may count on


def size_of(model: str) -> Size:
    """The size of `model` (as in `Recipe.model`); of a model on the hub only config.json is fetched.

    Raises ConfigError where there is no such model or it is no decoder of the usual kind, RoleAgentError
    where the hub is out of reach.
    """
    path = Path(model).expanduser()
    if is_embedded(model) or path.suffix == ".gguf":
        file = resolve_model(model) if is_embedded(model) else check_gguf(path)
        folder = made_from(file)
        return from_config(folder) if (folder / "config.json").is_file() else from_gguf(file)
    if path.is_dir():
        return from_config(path)
    if model.count("/") == 1 and not path.exists() and not model.startswith((".", "/", "~")):
        return from_config(_from_hub(model))
    raise ConfigError(
        f"model '{model}' is neither a folder, a GGUF file, OWNER/NAME, nor embedded[:FILE.gguf]"
    )


def from_config(folder: Path) -> Size:
    """From config.json, also under GPT-2's names. Raises ConfigError where it lacks a number."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return _sized(config)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"cannot read {folder / 'config.json'}: {error}") from None
    except KeyError as error:
        raise ConfigError(f"{folder / 'config.json'} has no {error}; is it a decoder's?") from None


def _sized(config: Mapping[str, Any]) -> Size:
    def number(*names: str) -> int:
        for name in names:
            if config.get(name) is not None:
                return int(config[name])
        raise KeyError(names[0])

    hidden, heads = number("hidden_size", "n_embd"), number("num_attention_heads", "n_head")
    feed_forward = config.get("intermediate_size") or config.get("n_inner")
    return Size(
        layers=number("num_hidden_layers", "n_layer"),
        hidden=hidden,
        # GPT-2's two layers of 4 h weigh as much as three of 8 h / 3.
        feed_forward=int(feed_forward) if feed_forward else 8 * hidden // 3,
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_size=int(config.get("head_dim") or hidden // heads),
        vocabulary=number("vocab_size"),
        tied=bool(config.get("tie_word_embeddings", "n_embd" in config)),
    )


def from_gguf(file: Path) -> Size:
    """From the keys of a GGUF file. Needs the package gguf (extra distill)."""
    fields = fields_of(file, "")
    arch = fields["general.architecture"].value
    one = {
        name.removeprefix(f"{arch}."): f.value for name, f in fields.items() if name.startswith(f"{arch}.")
    }
    hidden, heads = int(one["embedding_length"]), int(one["attention.head_count"])
    return Size(
        layers=int(one["block_count"]),
        hidden=hidden,
        feed_forward=int(one["feed_forward_length"]),
        heads=heads,
        kv_heads=int(one.get("attention.head_count_kv", heads)),
        head_size=int(one.get("attention.key_length", hidden // heads)),
        vocabulary=len(fields["tokenizer.ggml.tokens"].value),
        tied=True,  # small models share it, and a GGUF file does not say; at most one embedding more
    )


def memory(recipe: Recipe) -> tuple[int, str, bool]:
    """(bytes that a training here may use, of what in words, whether that is a card)."""
    try:
        from roleagent_lite.distill.stack import load

        torch = load("torch")
        if recipe.device != "cpu" and torch.cuda.is_available():
            found = torch.cuda.get_device_properties(0)
            return int(_SHARE * found.total_memory), f"the card {found.name}", True
    except MissingExtra:
        pass
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(_SHARE * total), "this machine's memory", False


def speed(recipe: Recipe) -> float | None:
    """Floating-point operations a second of this device in the recipe's number type, by a matrix product of
    a tenth of a second or so; None without torch."""
    import time

    try:
        from roleagent_lite.distill.stack import load

        torch = load("torch")
    except MissingExtra:
        return None
    card = recipe.device != "cpu" and torch.cuda.is_available()
    side = 4096 if card else 512
    kind = getattr(torch, recipe.train.dtype)
    a = torch.ones((side, side), dtype=kind, device="cuda" if card else "cpu")
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        b = a @ a
        float(b[0, 0])  # waits for a card
        best = min(best, time.perf_counter() - start)
    return float(2 * side**3 / best)


def _from_hub(name: str) -> Path:
    import huggingface_hub

    try:
        file = huggingface_hub.hf_hub_download(name, "config.json", cache_dir=cache_dir() / "hub")
    except (OSError, ValueError) as error:  # the hub's own errors are children of these
        reason = (
            scrub(str(error).strip().splitlines()[0][:300]) if str(error).strip() else type(error).__name__
        )
        raise RoleAgentError(
            f"cannot fetch config.json of {name} from the model hub: {reason}; check the name and the "
            "network, or give a folder"
        ) from None
    return Path(file).parent
