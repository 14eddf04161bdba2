"""Merging: base and adapter as one model in Hugging Face's layout, checked before it gets its name.

Owns what is in the folder and the parity check: the merged model, read back from disk, must give the logits
of base + adapter and not those of the base. Leaves out GGUF and serving.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokenizer import open_tokenizer
from roleagent_lite.distill.weights import model_folder
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.types import Listener, Message

TOLERANCE = 1e-4  # largest difference of a logit between merged model and base + adapter
EXACT = 1_000_000_000  # parameters up to which the logits are compared in float64
_FILES = (
    "tokenizer*",
    "chat_template*",
    "special_tokens_map.json",
    "vocab.*",
    "merges.txt",
    "added_tokens.json",
)
_PROBES: tuple[tuple[Message, ...], ...] = (
    (Message("user", "You are in the middle of a room. What do you do?"),),
    (Message("system", "You act in a text world."), Message("user", "Goal: put a clean mug on the table.")),
)


@dataclass(frozen=True, slots=True)
class Parity:
    """Largest differences over all logits of the probes: merged against base + adapter, and against the base;
    what the first may be, and the second must be above."""

    to_adapter: float
    to_base: float
    allowed: float = TOLERANCE


def merge(
    model: str, adapter: Path, out: Path, *, probes: Sequence[Sequence[Message]] = _PROBES,
    listener: Listener | None = None,
) -> Parity:  # fmt: skip
    """Writes `model` + `adapter` to the folder `out` in float32, with tokenizer, chat template, generation
    settings and end tokens.

    Raises RoleAgentError where the merged model is not base + adapter, or is no other than the base: then
    nothing is left in `out`. Raises ConfigError where `out` exists or the adapter does not fit.
    """
    if out.exists():
        raise ConfigError(f"{out} exists; give the merged model a folder of its own")
    if not (adapter / "adapter_config.json").is_file():
        raise ConfigError(f"{adapter} holds no adapter_config.json; is it an adapter's folder?")
    folder = model_folder(model, listener)
    tokenizer = open_tokenizer(str(folder))
    ids = [tokenizer.prompt_ids(tokenizer.render(_plain(probe))) for probe in probes]
    base = _read(folder)
    plain = _logits(base, ids)
    partial = out.with_name(out.name + ".part")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with_adapter = _with(base, adapter)
        wanted = _logits(with_adapter, ids)
        merged = with_adapter.merge_and_unload(safe_merge=True)
        merged.to(load("torch").float32).save_pretrained(partial)
        _complete(folder, partial, tokenizer.end_id)
        found = _logits(_read(partial), ids)
        parity = Parity(_difference(found, wanted), _difference(found, plain), _allowed(wanted))
        _judge(parity, adapter)
        partial.rename(out)
    except OSError as error:
        raise RoleAgentError(f"cannot write the merged model to {out}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return parity


def _plain(messages: Sequence[Message]) -> list[Message]:
    """As one user message: a probe needs no system role, which some templates refuse."""
    return [Message("user", "\n\n".join(m.content for m in messages))]


def _read(folder: Path) -> Any:
    """The model in float32, or in float64 where that is not too large: adding the adapter before or after a
    product rounds differently, and through 30 layers of float32 that alone comes to 1e-4."""
    torch, transformers = load("torch"), load("transformers")
    transformers.utils.logging.disable_progress_bar()
    found = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()
    return found.double() if found.num_parameters() <= EXACT else found


def _allowed(logits: Sequence[Any]) -> float:
    """`TOLERANCE`; where logits are float32, that share of the largest of them."""
    if logits[0].dtype == load("torch").float64:
        return TOLERANCE
    return TOLERANCE * max(1.0, *(float(one.abs().max()) for one in logits))


def _with(base: Any, adapter: Path) -> Any:
    try:
        return load("peft").PeftModel.from_pretrained(base, str(adapter)).to(base.dtype).eval()
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"{adapter} does not fit this model: {str(error).splitlines()[0][:300]}") from None


def _logits(model: Any, ids: Sequence[Sequence[int]]) -> list[Any]:
    torch = load("torch")
    with torch.no_grad():
        return [model(input_ids=torch.tensor([list(one)]), use_cache=False).logits[0] for one in ids]


def _difference(a: Sequence[Any], b: Sequence[Any]) -> float:
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))


def _judge(parity: Parity, adapter: Path) -> None:
    # Written so that a NaN fails: it is neither near the one nor away from the other.
    if not parity.to_adapter < parity.allowed:
        raise RoleAgentError(
            f"the merged model is not base + adapter: logits differ by up to {parity.to_adapter:.3g} "
            f"(allowed: {parity.allowed:g}); nothing was written"
        )
    if not parity.to_base > parity.allowed:
        raise RoleAgentError(
            f"the merged model is the base: logits differ by at most {parity.to_base:.3g}, so the adapter in "
            f"{adapter} does nothing; nothing was written"
        )


def _complete(folder: Path, partial: Path, end: int) -> None:
    """Tokenizer and template beside the weights, and the token that ends a turn among those that stop."""
    for pattern in _FILES:
        for file in folder.glob(pattern):
            shutil.copy2(file, partial / file.name)
    path = partial / "generation_config.json"
    own = folder / "generation_config.json"
    source = path if path.is_file() else own
    settings = json.loads(source.read_text(encoding="utf-8")) if source.is_file() else {}
    known = settings.get("eos_token_id", [])
    stops = [*(known if isinstance(known, list) else [known]), end]
    settings["eos_token_id"] = sorted({s for s in stops if s is not None})
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
