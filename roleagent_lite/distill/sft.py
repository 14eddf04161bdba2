"""Imitation: cross-entropy on the replies of solved, well-foretold episodes.

Owns the objective. Which episodes may be imitated says `samples.imitable`; the loop is train.py's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roleagent_lite.distill.loss import Totals, cross_entropy
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.distill.train import chunks, totals_of


class Imitation:
    """Mean of -log p over the reply tokens of the whole update (nats a token); advantages play no part."""

    name = "supervised fine-tuning"

    def totals(self, batch: Sequence[Tokens], recipe: Recipe) -> Totals:
        return totals_of(batch, recipe)

    def parts(self, batch: Sequence[Tokens], size: int) -> list[list[Tokens]]:
        return chunks(batch, size)

    def loss(self, policy: Policy, batch: Sequence[Tokens], totals: Totals) -> tuple[Any, dict[str, float]]:
        rows = policy.rows(batch)
        loss = cross_entropy(policy.logps(rows), rows.mask, totals.tokens)
        return loss, {"tokens": float(rows.mask.sum())}

    def report(self, sums: Mapping[str, float], totals: Totals) -> dict[str, float]:
        return {"tokens": sums["tokens"]}

    def limit(self, report: Mapping[str, float]) -> str:
        return ""
