"""TINY models for tests that train: made once a session, for that is what takes time."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roleagent_lite.distill.policy import Policy, open_policy
from roleagent_lite.distill.recipe import Recipe, from_mapping
from roleagent_lite.distill.tokenizer import Tokenizer, open_tokenizer
from roleagent_lite.distill.tokens import Tokens, tokenise
from tests import tiny
from tests.distill.make import chat
from tests.distill.test_tokens import SAMPLE

REPLIES = (
    "take key",
    "open door and look around",
    "say hello.",
    "look around",
    "open door",
    "take key and go",
)
ADVANTAGES = (1.0, -0.5, -0.5, -1.0, 1.0, 0.25)


@functools.cache
def model(kind: str = "llama", dtype: str = "float32") -> Path:
    return tiny.save_model(Path(tempfile.mkdtemp(prefix="tiny-")), kind, dtype=dtype)


def tokenizer() -> Tokenizer:
    return open_tokenizer(str(model()))


def recipe(**more: Any) -> Recipe:
    """A recipe for TINY: three samples an update, small adapter, quick to learn."""
    plain: dict[str, Any] = {
        "model": str(model()),
        "adapter": {"rank": 4, "alpha": 8},
        "train": {"batch": 3, "micro_batch": 2, "lr": 0.01, "epochs": 2, "checkpoint_every": 1},
    }
    for key, value in more.items():
        plain[key] = {**plain.get(key, {}), **value} if isinstance(value, dict) else value
    return from_mapping(plain)


def policy(settings: Recipe) -> Policy:
    return open_policy(settings, tokenizer().pad_id)


def rows(
    replies: Sequence[str] = REPLIES, advantages: Sequence[float] = ADVANTAGES, **more: Any
) -> list[Tokens]:
    use = tokenizer()
    return [
        tokenise(
            replace(SAMPLE, id=f"e/{k}", text=text, messages=chat(f"turn {k}"), advantage=a, **more), use, 500
        )
        for k, (text, a) in enumerate(zip(replies, advantages, strict=True))
    ]


def disturb(made: Policy, size: float = 0.05, seed: int = 1) -> None:
    """An adapter that does something."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    for parameter in made.parameters.values():
        parameter.data += size * torch.randn(parameter.shape, generator=generator)


def read(made: Policy, tokens: Tokens) -> Any:
    """log-probabilities of a reply's tokens, without gradient."""
    from roleagent_lite.distill.grpo import Offline

    with made.frozen():
        return Offline.read(made, [tokens])[tokens.sample.id]
