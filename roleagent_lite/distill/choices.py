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


def is_choice(tokens: Tokens) -> bool:
    """Whether a sample is a draw among scored choices that can be scored again."""
    return bool(tokens.choices) and len(tokens.sample.penalties) == len(tokens.choices)


class OfflineChoices(Offline):
    """The objective over choices. Samples that only foretell have no choice: of them the cross-entropy alone
    counts, and their log-probabilities are empty."""

    @staticmethod
    def read(policy: Policy, tokens: Tokens) -> Any:
        """log-probability (1,) of the drawn choice; (0,) for a sample that only foretells."""
        if not tokens.choices:
            return load("torch").zeros(0)
        return _drawn(tokens, policy.choice_sums(tokens)).cpu()

    @staticmethod
    def recorded(tokens: Tokens) -> Any:
        """As `read`, from the scores that the agent saw."""
        torch = load("torch")
        if not tokens.choices:
            return torch.zeros(0)
        scores = tokens.sample.scores
        if [len(s) for s in scores] != [len(c) for c in tokens.choices]:
            return None
        return _drawn(tokens, torch.tensor([sum(s) for s in scores], dtype=torch.float32))

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
            logps = torch.stack([_drawn(t, policy.choice_sums(t)) for t in acts])
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


def _drawn(tokens: Tokens, sums: Any) -> Any:
    """log-probability (1,) of the choice that was drawn, from those of all choices' tokens."""
    torch, sample = load("torch"), tokens.sample
    lengths = torch.tensor([len(c) for c in tokens.choices], device=sums.device)
    penalties = torch.tensor(sample.penalties, device=sums.device)
    place = sample.choices.index(sample.text)
    return choice_logps(sums, lengths, penalties, sample.temperature)[place : place + 1]
