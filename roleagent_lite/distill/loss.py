"""The loss: pure functions of tensors, each a few lines, that know neither model nor optimiser.

Owns importance ratio, clipping, the k3 divergence, the three ways to normalise, cross-entropy, and the
log-probability of a choice among scored ones. Leaves out where log-probabilities come from and who steps.
Shapes: B rows, T positions; `mask` is 1.0 on trained tokens. torch is never imported here: tensors bring it.

Normalising over a whole update. An update is made of micro-batches whose losses are added up, so every loss
here is already divided by what `Totals` says of the whole update, and padding or masked tokens count nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Totals:
    """Of one whole update: rows with at least one trained token, trained tokens, true prediction tokens.
    `length`: what dr_grpo divides a row by, in tokens."""

    rows: int
    tokens: int
    predicted: int = 0
    length: int = 256


@dataclass(frozen=True, slots=True)
class Parts:
    """loss: to be differentiated, a scalar. The others are plain tensors without gradient: kl: sum over
    trained tokens of k3 (nats); clipped: trained tokens at which the clip held; ratio: sum of the importance
    ratios."""

    loss: Tensor
    kl: Tensor
    clipped: Tensor
    ratio: Tensor


def token_logps(logits: Tensor, ids: Tensor) -> Tensor:
    """log p(ids[:, t] | before) (B, T), nats, from logits (B, T, V) that stand at the position before each
    id.

    In float32 whatever the logits are: half precision loses what the ratio is about.
    """
    logits = logits.float()
    return logits.gather(-1, ids.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)


def ratio(logps: Tensor, old: Tensor) -> Tensor:
    """pi_theta / pi_old a token (B, T)."""
    return (logps - old).exp()


def surrogate(ratios: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """min(r A, clip(r, 1 - low, 1 + high) A) a token (paper Eq. 9). advantages: (B, 1) or (B, T)."""
    return (ratios * advantages).minimum(ratios.clamp(1.0 - low, 1.0 + high) * advantages)


def k3(logps: Tensor, reference: Tensor) -> Tensor:
    """exp(d) - d - 1 with d = log pi_ref - log pi_theta, a token: never negative, unbiased, low in variance.

    Not weighted by the importance ratio, as in the paper; TRL 1.14 weights it unless told otherwise.
    """
    d = reference - logps
    return d.exp() - d - 1.0


def _grpo(values: Tensor, mask: Tensor, totals: Totals) -> Tensor:
    """Mean over rows of each row's mean over its trained tokens."""
    return ((values * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).sum() / max(totals.rows, 1)


def _dr_grpo(values: Tensor, mask: Tensor, totals: Totals) -> Tensor:
    """Sum over trained tokens, divided by rows x a constant length: long replies weigh as they are."""
    return (values * mask).sum() / (max(totals.rows, 1) * totals.length)


def _mean(values: Tensor, mask: Tensor, totals: Totals) -> Tensor:
    """Mean over all trained tokens of the update."""
    return (values * mask).sum() / max(totals.tokens, 1)


NORMALISERS: dict[str, Callable[[Tensor, Tensor, Totals], Tensor]] = {
    "grpo": _grpo,
    "dr_grpo": _dr_grpo,
    "mean": _mean,
}


def policy_loss(
    logps: Tensor,
    old: Tensor,
    reference: Tensor | None,
    mask: Tensor,
    advantages: Tensor,
    totals: Totals,
    *,
    low: float = 0.2,
    high: float = 0.28,
    kl: float = 0.0,
    normalise: str = "grpo",
) -> Parts:
    """The clipped objective of one micro-batch, negated, with its share of the whole update (paper Eq. 9).

    logps, old, reference, mask: (B, T); advantages: (B,) or (B, T). reference None: no divergence. A row or
    batch without trained tokens gives 0, not a division by zero; what stands at masked positions, even inf or
    NaN, has no effect.
    """
    keep = mask.bool()
    zero = logps.new_zeros(())
    logps, old = logps.where(keep, zero), old.where(keep, zero)
    weights = advantages if advantages.dim() == 2 else advantages.unsqueeze(1)
    ratios = ratio(logps, old)
    gain = surrogate(ratios, weights, low, high)
    values = -gain
    divergence = zero
    if reference is not None:
        each = k3(logps, reference.where(keep, zero))
        values = values + kl * each
        divergence = (each * mask).sum().detach()
    held = (gain < ratios * weights) & keep
    return Parts(
        loss=NORMALISERS[normalise](values, mask, totals),
        kl=divergence,
        clipped=held.sum(),
        ratio=(ratios * mask).sum().detach(),
    )


def cross_entropy(logps: Tensor, mask: Tensor, total: int) -> Tensor:
    """-sum of log p over the tokens of `mask` (B, T), divided by `total` tokens of the whole update."""
    return -(logps.where(mask.bool(), logps.new_zeros(())) * mask).sum() / max(total, 1)


def choice_logps(sums: Tensor, lengths: Tensor, penalties: Tensor, temperature: float = 1.0) -> Tensor:
    """log-probability (C,) of each of C choices for the agent that chooses by mean log-probability a token.

    sums: (C,) log-probability of each choice (nats); lengths: (C,) its tokens; penalties: (C,) nats taken off
    for repeats. As `agents.choose.mean_rule`: the mean a token, times the mean number of tokens, through a
    softmax at `temperature`.
    """
    values = lengths.float().mean() * sums / lengths - penalties
    return (values / temperature).log_softmax(-1)
