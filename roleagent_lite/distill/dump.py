"""The dry run's files: for every sample its token ids, decoded text, loss mask, group, reward and advantage.

Owns the format: `samples.jsonl`, one sample a line; `dropped.jsonl`, what did not become one; `summary.json`,
the counts; `prompt.json`, the texts of a short prompt that was baked in. Needs neither torch nor a model's
weights. Leaves out how samples come about (prepare.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from roleagent_lite.distill.bake import OWN_PROMPT, texts_file
from roleagent_lite.distill.prepare import Prepared
from roleagent_lite.distill.samples import Sample
from roleagent_lite.distill.tokenizer import Tokenizer
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.errors import RoleAgentError


def row(tokens: Tokens, tokenizer: Tokenizer) -> dict[str, Any]:
    """One sample as plain data. `text` is the decoded whole, `trained_text` what mask 1 decodes to, `reply`
    what was received; `choices`: what was scored, where an action was chosen. `used` False: `why` says it;
    `cut`: messages taken out, tokens before. `bake`: tokens of the prompt as sent and of the short
    one in its place."""
    sample = tokens.sample
    text = tokenizer.decode(tokens.ids)
    return {
        "sample": sample.id, "kind": sample.kind, "trajectory": sample.trajectory, "step": sample.step,
        "group": sample.group, "task": sample.task, "round": sample.round, "model": sample.model,
        "reward": sample.reward, "step_reward": sample.step_reward, "advantage": sample.advantage,
        "used": not tokens.why, "why": tokens.why,
        "cut": {"messages": tokens.removed, "tokens_before": tokens.before},
        "bake": _baked(tokens),
        "token_source": tokens.source, "ids_differ": tokens.differs, "notes": list(tokens.notes),
        "messages": [asdict(m) for m in tokens.messages], "reply": sample.text,
        "choices": _choices(sample),
        "token_ids": list(tokens.ids), "loss_mask": list(tokens.mask), "logprobs": tokens.logprobs,
        "prediction_mask": list(tokens.predicted) if any(tokens.predicted) else None,
        "text": text, "trained_text": text[len(tokenizer.decode(tokens.ids[: tokens.start])) :],
    }  # fmt: skip


def _baked(tokens: Tokens) -> dict[str, int] | None:
    if tokens.sent is None:
        return None
    short = tokens.before - (len(tokens.ids) - tokens.start)
    return {"prompt_sent": tokens.sent, "prompt_baked": short}


def _choices(sample: Sample) -> list[dict[str, Any]]:
    penalties: tuple[float | None, ...] = sample.penalties or (None,) * len(sample.choices)
    return [{"text": c, "penalty": p} for c, p in zip(sample.choices, penalties, strict=True)]


def summary(prepared: Prepared, tokenizer: Tokenizer) -> dict[str, Any]:
    """The counts of a preparation, with recipe, tokenizer and its control tokens."""
    return {
        "recipe": prepared.recipe.model_dump(),
        "tokenizer": tokenizer.name,
        "end_of_turn": {"id": tokenizer.end_id, "text": tokenizer.decode([tokenizer.end_id])},
        "padding": {"id": tokenizer.pad_id, "side": "right"},
        **asdict(prepared.report),
    }


def write(prepared: Prepared, tokenizer: Tokenizer, out: Path) -> None:
    """The files in `out`, each whole or not at all. Raises RoleAgentError where they cannot be
    written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        _lines(out / "samples.jsonl", (row(t, tokenizer) for t in prepared.tokens))
        _lines(out / "dropped.jsonl", (asdict(d) for d in prepared.dropped))
        whole = json.dumps(summary(prepared, tokenizer), ensure_ascii=False, indent=2, allow_nan=False)
        _replace(out / "summary.json", [whole + "\n"])
        if prepared.texts:
            _replace(out / OWN_PROMPT, [texts_file(prepared.texts)])
    except OSError as error:
        raise RoleAgentError(f"cannot write the dry run to {out}: {error.strerror or error}") from None


def _lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    _replace(path, (json.dumps(r, ensure_ascii=False, allow_nan=False) + "\n" for r in rows))


def _replace(path: Path, parts: Iterable[str]) -> None:
    partial = path.with_name(path.name + ".part")
    with partial.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(parts)
    partial.replace(path)
