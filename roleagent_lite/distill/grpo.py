"""Offline GRPO: the clipped objective on a run's stored groups, each step with its own advantage.

Owns the old and reference log-probabilities of every sample, read once before the first update, the staleness
of recorded ones, and the limit on the divergence. Leaves out the formulas (loss.py), the loop (train.py) and
policies over choices (choices.py).

The importance ratio stands against the log-probabilities that were recorded with the replies, where every
sample has them from this very model. Else the old policy is the one that training starts from: then the ratio
is 1 at first and nothing corrects for who played, so it is called advantage-weighted fine-tuning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roleagent_lite.distill.loss import Parts, Totals, cross_entropy, policy_loss
from roleagent_lite.distill.policy import Policy, Rows
from roleagent_lite.distill.recipe import Loss, Recipe
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.distill.train import chunks, totals_of
from roleagent_lite.errors import ConfigError, RoleAgentError

GRPO, WEIGHTED = "GRPO", "advantage-weighted fine-tuning"
CHECKED = 8  # samples at which the reference policy is compared with the starting one


@dataclass(frozen=True, slots=True)
class Staleness:
    """How far recorded log-probabilities are from those of the starting policy, over all trained tokens.

    tokens; difference: mean |log pi_start - log pi_recorded| (nats); kl: mean k3 of recorded from start;
    outside: share of tokens whose ratio is beyond the clip before the first update.
    """

    tokens: int
    difference: float
    kl: float
    outside: float


class Offline:
    """The objective. `name` says what it may be called; `kl_at_start` is the mean divergence a token before
    the first update (it must be about 0: else the reference is the wrong one)."""

    def __init__(
        self, settings: Loss, old: Mapping[str, Any], reference: Mapping[str, Any], name: str
    ) -> None:
        self.settings = settings
        self.name = name
        self.staleness: Staleness | None = None
        self.kl_at_start = 0.0
        self.known = (old, reference)
        self._warned = False
        self.warnings: list[str] = []

    @classmethod
    def prepare(cls, policy: Policy, rows: Sequence[Tokens], recipe: Recipe, played_by: str) -> Offline:
        """Reads the log-probabilities of all samples. `played_by`: the name under which a run knows the
        recipe's model; recorded values of other models are not of this policy.

        Raises ConfigError where the recipe demands recorded log-probabilities and not all samples have them.
        """
        with policy.frozen():
            start = cls.read(policy, rows)
            with policy.at_the_start():
                checked = cls.read(policy, rows[:CHECKED])
        recorded = cls._recorded(rows, recipe.loss.old, played_by)
        # The reference is the policy that is here now, before the first update: it need not be read twice.
        found = cls(
            recipe.loss, recorded if recorded is not None else start, start,
            GRPO if recorded is not None else WEIGHTED,
        )  # fmt: skip
        found.kl_at_start = _mean_k3({name: start[name] for name in checked}, checked)
        if found.kl_at_start > 1e-4:
            raise RoleAgentError(
                f"the reference policy ({policy.reference}) is not the one that training starts from: "
                f"their divergence is {found.kl_at_start:.3g} nats a token before the first update"
            )
        if recorded is not None:
            found.staleness = _staleness(start, recorded, recipe.loss)
        return found

    @staticmethod
    def read(policy: Policy, rows: Sequence[Tokens]) -> dict[str, Any]:
        """log-probabilities (n,) of each sample's action by its id, on the CPU: of the tokens of its
        reply."""
        return {t.sample.id: policy.logps(policy.rows([t]))[0].cpu() for t in rows}

    @staticmethod
    def recorded(tokens: Tokens) -> Any:
        """As in `read`, of one sample as they were recorded; None where they were not."""
        if tokens.logprobs is None:
            return None
        return load("torch").tensor(tokens.logprobs, dtype=load("torch").float32)

    def totals(self, batch: Sequence[Tokens], recipe: Recipe) -> Totals:
        return totals_of(batch, recipe)

    def parts(self, batch: Sequence[Tokens], size: int) -> list[list[Tokens]]:
        return chunks(batch, size)

    def loss(self, policy: Policy, batch: Sequence[Tokens], totals: Totals) -> tuple[Any, dict[str, float]]:
        rows = policy.rows(batch)
        logps = policy.logps(rows)
        old, reference = (_placed(of, batch, rows) for of in self.known)
        parts = self.clipped(logps, old, reference, rows.mask, rows.advantages, totals)
        loss, told = parts.loss, {}
        if self.settings.prediction and totals.predicted:
            foretold = cross_entropy(logps, rows.predicted, totals.predicted)
            loss = loss + self.settings.prediction * foretold
            told["prediction"] = float(foretold.detach())
        return loss, {"tokens": float(rows.mask.sum()), **sums_of(parts), **told}

    def clipped(
        self, logps: Any, old: Any, reference: Any, mask: Any, advantages: Any, totals: Totals
    ) -> Parts:
        """`policy_loss` with the recipe's settings."""
        return policy_loss(
            logps, old, reference, mask, advantages, totals, low=self.settings.clip_low,
            high=self.settings.clip_high, kl=self.settings.kl, normalise=self.settings.normalise,
        )  # fmt: skip

    @classmethod
    def _recorded(cls, rows: Sequence[Tokens], wanted: str, played_by: str) -> dict[str, Any] | None:
        """Recorded log-probabilities by sample; None where the starting policy stands for the old one."""
        if wanted == "start":
            return None
        any_name = (
            wanted == "recorded"
        )  # a server may know the model by another name: the recipe vouches for it
        found = {t.sample.id: cls.recorded(t) for t in rows if any_name or t.sample.model == played_by}
        lacking = [t.sample for t in rows if found.get(t.sample.id) is None]
        if lacking and wanted == "recorded":
            raise ConfigError(
                f'loss.old is "recorded", but {len(lacking)} of {len(rows)} samples have no '
                f"log-probabilities in this model's tokens (first: {lacking[0].id}, played by "
                f"'{lacking[0].model}'); "
                'take loss.old = "start"'
            )
        return None if lacking else found

    def report(self, sums: Mapping[str, float], totals: Totals) -> dict[str, float]:
        """kl: mean k3 a token (nats); clipped: share of tokens at which the clip held; ratio: mean."""
        count = max(totals.tokens, 1)
        means = {name: sums[name] / count for name in ("kl", "clipped", "ratio")}
        extra = {"prediction": sums["prediction"]} if "prediction" in sums else {}
        return {"tokens": sums["tokens"], **means, **extra}

    def limit(self, report: Mapping[str, float]) -> str:
        kl, most = report["kl"], self.settings.max_kl
        where = (
            f"at step {int(report['step']) + 1} the divergence from the reference is {kl:.3g} nats a token"
        )
        if kl > most:
            return f"{where}, more than loss.max_kl {most:g}"
        if kl > most / 2 and not self._warned:
            self._warned = True
            self.warnings.append(f"{where}; training stops above loss.max_kl {most:g}")
        return ""


def sums_of(parts: Parts) -> dict[str, float]:
    """What a micro-batch adds to the report."""
    return {"kl": float(parts.kl), "clipped": float(parts.clipped), "ratio": float(parts.ratio)}


def _placed(known: Mapping[str, Any], batch: Sequence[Tokens], rows: Rows) -> Any:
    """The values of each row's reply at its place in the batch (B, T); 0 elsewhere, where the mask is 0."""
    out = rows.mask.new_zeros(rows.mask.shape)
    first = rows.ids.shape[1] - rows.mask.shape[1]  # position of column 0
    for number, tokens in enumerate(batch):
        at = tokens.start - first
        out[number, at : at + len(tokens.ids) - tokens.start] = known[tokens.sample.id].to(out.device)
    return out


def _mean_k3(policy: Mapping[str, Any], reference: Mapping[str, Any]) -> float:
    from roleagent_lite.distill.loss import k3

    total = sum(float(k3(policy[name], reference[name]).sum()) for name in policy)
    return total / max(sum(int(v.numel()) for v in policy.values()), 1)


def _staleness(start: Mapping[str, Any], recorded: Mapping[str, Any], settings: Loss) -> Staleness:
    low, high = math.log(1 - settings.clip_low), math.log(1 + settings.clip_high)
    count = outside = 0
    difference = 0.0
    for name, values in recorded.items():
        d = start[name] - values
        count += d.numel()
        difference += float(d.abs().sum())
        outside += int(((d < low) | (d > high)).sum())
    return Staleness(
        tokens=count,
        difference=difference / max(count, 1),
        kl=_mean_k3(start, recorded),
        outside=outside / max(count, 1),
    )
