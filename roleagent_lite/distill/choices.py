"""Offline GRPO where an action is a choice: the policy is a softmax over the admissible actions' scores.

For runs of the agent `choose`: what it drew from is what is trained, the mean log-probability a token of each
admissible action, with the agent's own penalties and temperature. One importance ratio an action. Owns
reading these policies; all else is grpo.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roleagent_lite.distill.grpo import Offline, sums_of
from roleagent_lite.distill.loss import Totals, choice_logps, cross_entropy
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.distill.train import chunks


def is_choice(tokens: Tokens) -> bool:
    """Whether a sample is a draw among scored choices that can be scored again."""
    return bool(tokens.choices) and len(tokens.sample.penalties) == len(tokens.choices)


class OfflineChoices(Offline):
    """The objective over choices. Samples that only foretell have no choice: of them the cross-entropy alone
    counts, and their log-probabilities are empty."""

    @staticmethod
    def read(policy: Policy, rows: Sequence[Tokens]) -> dict[str, Any]:
        """log-probability (1,) of each drawn choice by its sample's id; (0,) for one that only foretells."""
        found = {t.sample.id: load("torch").zeros(0) for t in rows if not t.choices}
        for same in alike([t for t in rows if t.choices]):
            sums = policy.choice_sums(same[0]).cpu()
            found |= {t.sample.id: drawn(t, sums) for t in same}
        return found

    def parts(self, batch: Sequence[Tokens], size: int) -> list[list[Tokens]]:
        """One micro-batch a prompt: rollouts that come through the same state share its forward pass."""
        return [*alike([t for t in batch if t.choices]), *chunks([t for t in batch if not t.choices], size)]

    @staticmethod
    def recorded(tokens: Tokens) -> Any:
        """As in `read`, of one sample from the scores that the agent saw."""
        torch = load("torch")
        if not tokens.choices:
            return torch.zeros(0)
        scores = tokens.sample.scores
        if [len(s) for s in scores] != [len(c) for c in tokens.choices]:
            return None
        return drawn(tokens, torch.tensor([sum(s) for s in scores], dtype=torch.float32))

    def totals(self, batch: Sequence[Tokens], recipe: Recipe) -> Totals:
        """One action a row, and nothing else counts."""
        actions = sum(bool(t.choices) for t in batch)
        return Totals(actions, actions, sum(sum(t.predicted) for t in batch), length=1)

    def loss(self, policy: Policy, batch: Sequence[Tokens], totals: Totals) -> tuple[Any, dict[str, float]]:
        torch = load("torch")
        acts = [t for t in batch if t.choices]
        loss, told = torch.zeros((), device=policy.device), {"tokens": float(len(acts))}
        told |= dict.fromkeys(("kl", "clipped", "ratio"), 0.0)
        if acts:
            sums = {key_of(same[0]): policy.choice_sums(same[0]) for same in alike(acts)}
            logps = torch.stack([drawn(t, sums[key_of(t)]) for t in acts])
            old, reference = (
                torch.stack([of[t.sample.id] for t in acts]).to(logps.device) for of in self.known
            )
            advantages = torch.tensor([t.sample.advantage for t in acts], device=logps.device)
            parts = self.clipped(logps, old, reference, torch.ones_like(logps), advantages, totals)
            loss = parts.loss
            told |= sums_of(parts)
        foretold = [t for t in batch if any(t.predicted)]
        if self.settings.prediction and foretold:
            rows = policy.rows(foretold)
            entropy = cross_entropy(policy.logps(rows), rows.predicted, totals.predicted)
            loss = loss + self.settings.prediction * entropy
            told["prediction"] = float(entropy.detach())
        return loss, told


def key_of(tokens: Tokens) -> tuple[object, ...]:
    """Equal for samples that were drawn behind the same prompt among the same choices."""
    return tokens.ids[: tokens.start], tokens.choices


def alike(rows: Sequence[Tokens]) -> list[list[Tokens]]:
    """`rows` with the same prompt and choices together, in order of first appearance."""
    found: dict[object, list[Tokens]] = {}
    for row in rows:
        found.setdefault(key_of(row), []).append(row)
    return list(found.values())


def drawn(tokens: Tokens, sums: Any) -> Any:
    """log-probability (1,) of the choice that was drawn, from those of all choices' tokens."""
    torch, sample = load("torch"), tokens.sample
    lengths = torch.tensor([len(c) for c in tokens.choices], device=sums.device)
    penalties = torch.tensor(sample.penalties, device=sums.device)
    place = sample.choices.index(sample.text)
    return choice_logps(sums, lengths, penalties, sample.temperature)[place : place + 1]
