"""The clipped objective on episodes that were played just now, by the very policy that is trained.

Owns where the old log-probabilities come from (the scores that the agent drew from), those of the reference,
and the drift: how far what the trainer computes is from what the sampler said. Leaves out the formulas
(loss.py), the loop (online.py) and playing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roleagent_lite.distill import tree
from roleagent_lite.distill.choices import OfflineChoices, alike, drawn, key_of
from roleagent_lite.distill.grpo import sums_of
from roleagent_lite.distill.local import LocalModel
from roleagent_lite.distill.loss import Totals, choice_logps
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokens import Tokens


class OnlineChoices(OfflineChoices):
    """The objective of one update. `fresh`: nothing has been learned since these episodes were played, so
    that the importance ratio must be 1; what it is instead is the drift."""

    def __init__(self, recipe: Recipe, old: Mapping[str, Any], reference: Mapping[str, Any]) -> None:
        super().__init__(recipe.loss, old, reference, "online GRPO")
        self.fresh = True
        self._room = recipe.online.room
        self._most = recipe.online.max_drift

    @classmethod
    def of(cls, rows: Sequence[Tokens], reference: LocalModel, recipe: Recipe) -> OnlineChoices:
        """reference: the policy that GRPO started from, as a model that scores. Reads nothing where
        `loss.kl` is 0: then the divergence is measured from the policy that played."""
        old = {t.sample.id: cls.recorded(t) for t in rows}
        return cls(recipe, old, scored(reference, rows) if recipe.loss.kl else old)

    def parts(self, batch: Sequence[Tokens], size: int) -> list[list[Tokens]]:
        """One micro-batch a tree of at most `online.room` tokens; rows of one state stay together."""
        return tree.with_rows(batch, self._room)

    def loss(self, policy: Policy, batch: Sequence[Tokens], totals: Totals) -> tuple[Any, dict[str, float]]:
        torch = load("torch")
        states = [same[0] for same in alike(batch)]
        found = dict(zip(map(key_of, states), tree.choice_sums(policy, states), strict=True))
        logps = torch.stack([drawn(t, found[key_of(t)]) for t in batch])
        old, reference = (torch.stack([of[t.sample.id] for t in batch]).to(logps.device) for of in self.known)
        advantages = torch.tensor([t.sample.advantage for t in batch], device=logps.device)
        parts = self.clipped(logps, old, reference, torch.ones_like(logps), advantages, totals)
        apart = (logps.detach() - old).abs()
        return parts.loss, {
            "tokens": float(len(batch)),
            "states": float(len(states)),
            "entropy": sum(entropy(t, found[key_of(t)].detach()) for t in batch),
            "drift": float(apart.sum()),
            **sums_of(parts),
        }

    def report(self, sums: Mapping[str, float], totals: Totals) -> dict[str, float]:
        """As of `Offline`; entropy: of the policy over the choices, mean (nats); drift: mean |difference| of
        the drawn actions' log-probabilities between sampler and trainer (nats), while `fresh`."""
        count = max(totals.tokens, 1)
        more = {"states": sums["states"], "entropy": sums["entropy"] / count}
        if self.fresh:
            more["drift"] = sums["drift"] / count
        return super().report(sums, totals) | more

    def limit(self, report: Mapping[str, float]) -> str:
        drift = report.get("drift", 0.0)
        return drifted(drift, self._most, "before the update") or super().limit(report)


def drifted(drift: float, most: float, when: str) -> str:
    """Why training must stop for sampler and trainer being apart, or ""."""
    if drift <= most:
        return ""
    return (
        f"sampler and trainer are apart {when}: the log-probabilities of the drawn actions differ by "
        f"{drift:.3g} nats on average, more than online.max_drift {most:g}"
    )


def scored(model: LocalModel, rows: Sequence[Tokens]) -> dict[str, Any]:
    """log-probability (1,) of each drawn action by its sample's id, as `model` scores it now."""
    torch, out = load("torch"), {}
    for same in alike(rows):
        first = same[0]
        scores = model.reader.score(first.ids[: first.start], first.choices)
        sums = torch.tensor([sum(s) for s in scores], dtype=torch.float32)
        out.update({t.sample.id: drawn(t, sums) for t in same})
    return out


def computed(policy: Policy, rows: Sequence[Tokens], room: int) -> dict[str, Any]:
    """As `scored`, as the trainer computes it."""
    out: dict[str, Any] = {}
    same = {key_of(some[0]): some for some in alike(rows)}
    with policy.frozen():
        for pack in tree.packs([some[0] for some in same.values()], room):
            for state, sums in zip(pack, tree.choice_sums(policy, pack), strict=True):
                out |= {t.sample.id: drawn(t, sums.cpu()) for t in same[key_of(state)]}
    return out


def apart(sampled: Mapping[str, Any], trained: Mapping[str, Any]) -> float:
    """Mean |difference| (nats); 0 where there is nothing."""
    return sum(float((sampled[k] - trained[k]).abs()) for k in sampled) / max(len(sampled), 1)


def entropy(tokens: Tokens, sums: Any) -> float:
    """Of the policy over a state's choices, nats."""
    torch = load("torch")
    lengths = torch.tensor([len(c) for c in tokens.choices], device=sums.device)
    penalties = torch.tensor(tokens.sample.penalties, device=sums.device)
    logps = choice_logps(sums, lengths, penalties, tokens.sample.temperature)
    return float(-(logps.exp() * logps).sum())
