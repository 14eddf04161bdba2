"""loss: numbers worked by hand, what masks and totals promise, and gradients that go the right way."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill.loss import (  # noqa: E402
    NORMALISERS,
    Totals,
    choice_logps,
    cross_entropy,
    k3,
    policy_loss,
    ratio,
    surrogate,
    token_logps,
)

# Two rows of three tokens; the last token of the second row is padding.
LOGPS = [[-1.0, -0.5, -2.0], [-0.2, -1.0, 9.0]]
OLD = [[-1.0, -1.0, -1.0], [-0.2, -1.2, -7.0]]
REFERENCE = [[-1.0, -0.5, -1.0], [-0.7, -1.0, 3.0]]
MASK = [[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]
ADVANTAGES = [2.0, -1.0]
TOTALS = Totals(rows=2, tokens=5, length=4)
# Ratios: 1, e^0.5 = 1.64872, e^-1 = 0.36788; 1, e^0.2 = 1.22140. With clip 0.2/0.28 and A = 2: 2, 2.56 (held
# at 1.28), 0.73576 (a fall is not held for A > 0). With A = -1: -1, -1.22140 (a rise is not held for A < 0).
GAIN = [[2.0, 2.56, 2.0 * math.exp(-1.0)], [-1.0, -math.exp(0.2)]]
# k3 with d = ref - logp: 0, 0, e^1 - 2 = 0.71828; e^-0.5 - 0.5 = 0.10653, 0.
K3 = [[0.0, 0.0, math.e - 2.0], [math.exp(-0.5) - 0.5, 0.0]]


def tensors() -> list[Any]:
    return [torch.tensor(v, dtype=torch.float64) for v in (LOGPS, OLD, REFERENCE, MASK, ADVANTAGES)]


def parts(given: list[Any] | None = None, **options: Any) -> Any:
    logps, old, reference, mask, advantages = given or tensors()
    return policy_loss(logps, old, reference, mask, advantages, TOTALS, **{"kl": 0.1, **options})


def test_ratio_and_clip_by_hand() -> None:
    logps, old, *_ = tensors()
    ratios = ratio(logps, old)[0]
    assert ratios.tolist() == pytest.approx([1.0, 1.6487212707, 0.3678794412])
    assert surrogate(ratios, torch.tensor([2.0]), 0.2, 0.28).tolist() == pytest.approx(GAIN[0])
    # For A < 0 the floor holds: min(-0.36788, -0.8) = -0.8
    assert surrogate(ratios, torch.tensor([-1.0]), 0.2, 0.28).tolist() == pytest.approx(
        [-1.0, -1.6487212707, -0.8]
    )


def test_k3_by_hand() -> None:
    logps, _, reference, *_ = tensors()
    assert k3(logps, reference)[0].tolist() == pytest.approx([0.0, 0.0, 0.7182818285])
    assert k3(logps, reference)[1][0].item() == pytest.approx(0.1065306597)
    assert bool((k3(torch.randn(50), torch.randn(50)) >= 0).all())


@pytest.mark.parametrize(
    ("normalise", "expected"),
    [
        # TRL 1.14.0 gives the same three numbers (tests/distill/test_trl.py).
        # mean of row means: ((-5.295759 + 0.071828) / 3 + (2.221403 + 0.010653) / 2) / 2 = -0.3126412
        ("grpo", -0.3126412),
        # (-5.295759 + 0.071828 + 2.221403 + 0.010653) / (2 x 4) = -0.3739844
        ("dr_grpo", -0.3739844),
        # the same sum / 5 = -0.5983750
        ("mean", -0.5983750),
    ],
)
def test_the_loss_by_hand(normalise: str, expected: float) -> None:
    each = [[-g + 0.1 * k for g, k in zip(*rows, strict=True)] for rows in zip(GAIN, K3, strict=True)]
    found = parts(normalise=normalise)
    assert found.loss.item() == pytest.approx(expected, abs=1e-6)
    total = sum(map(sum, each))
    whole = {"grpo": sum(sum(r) / len(r) for r in each) / 2, "dr_grpo": total / 8, "mean": total / 5}
    assert found.loss.item() == pytest.approx(whole[normalise])


def test_what_is_reported_beside_the_loss() -> None:
    found = parts()
    assert found.kl.item() == pytest.approx(0.7182818 + 0.1065307)
    assert found.clipped.item() == 1
    assert found.ratio.item() == pytest.approx(1 + 1.6487213 + 0.3678794 + 1 + 1.2214028)
    assert parts(high=0.7).clipped.item() == 0


def test_without_a_reference_there_is_no_divergence() -> None:
    logps, old, _, mask, advantages = tensors()
    found = policy_loss(logps, old, None, mask, advantages, TOTALS, kl=0.1)
    expected = (-sum(GAIN[0]) / 3 - sum(GAIN[1]) / 2) / 2
    assert found.loss.item() == pytest.approx(expected) and found.kl.item() == 0.0


@pytest.mark.parametrize("normalise", sorted(NORMALISERS))
def test_micro_batches_add_up_to_the_update(normalise: str) -> None:
    pieces = [parts([t[k : k + 1] for t in tensors()], normalise=normalise).loss.item() for k in (0, 1)]
    assert sum(pieces) == pytest.approx(parts(normalise=normalise).loss.item())


@pytest.mark.parametrize("normalise", sorted(NORMALISERS))
def test_rl_05_a_fully_masked_batch_divides_by_nothing(normalise: str) -> None:
    logps, old, reference, mask, advantages = tensors()
    logps.requires_grad_()
    found = policy_loss(
        logps, old, reference, mask * 0, advantages, Totals(0, 0), kl=0.1, normalise=normalise
    )
    found.loss.backward()
    assert found.loss.item() == 0.0 and bool((logps.grad == 0).all())
    assert cross_entropy(logps, mask * 0, 0).item() == 0.0


@pytest.mark.parametrize("rubbish", [math.nan, math.inf, -math.inf, 1e30])
def test_what_stands_at_masked_positions_has_no_effect(rubbish: float) -> None:
    logps, old, reference, mask, advantages = tensors()
    for tensor in (logps, old, reference):
        tensor[1, 2] = rubbish
    logps.requires_grad_()
    found = policy_loss(logps, old, reference, mask, advantages, TOTALS, kl=0.1)
    found.loss.backward()
    assert found.loss.item() == pytest.approx(parts().loss.item())
    assert bool(torch.isfinite(logps.grad).all()) and logps.grad[1, 2].item() == 0.0


def test_rl_05_padding_does_not_count() -> None:
    wide = [torch.nn.functional.pad(t, (0, 7)) if t.dim() == 2 else t for t in tensors()]
    for normalise in NORMALISERS:
        found = parts(wide, normalise=normalise)
        assert found.loss.item() == pytest.approx(parts(normalise=normalise).loss.item())


def test_the_gradient_raises_what_was_good_and_lowers_what_was_bad() -> None:
    logps = torch.tensor([[-1.0, -1.0], [-1.0, -1.0]], requires_grad=True)
    found = policy_loss(
        logps, logps.detach(), None, torch.ones(2, 2), torch.tensor([1.0, -1.0]), Totals(2, 4)
    )
    found.loss.backward()
    assert logps.grad.flatten().tolist() == pytest.approx([-0.25, -0.25, 0.25, 0.25])
    # Where the clip holds there is no gradient.
    held = torch.tensor([[0.0]], requires_grad=True)
    policy_loss(
        held, torch.tensor([[-1.0]]), None, torch.ones(1, 1), torch.tensor([1.0]), Totals(1, 1)
    ).loss.backward()
    assert held.grad.item() == 0.0


def test_advantages_may_be_one_a_token() -> None:
    logps, old, reference, mask, advantages = tensors()
    each = advantages.unsqueeze(1).expand(2, 3)
    found = policy_loss(logps, old, reference, mask, each, TOTALS, kl=0.1)
    assert found.loss.item() == pytest.approx(parts().loss.item())


def test_token_logps_by_hand() -> None:
    logits = torch.tensor([[[0.0, math.log(3.0)], [math.log(4.0), 0.0]]])
    found = token_logps(logits, torch.tensor([[1, 1]]))
    assert found[0].tolist() == pytest.approx([math.log(0.75), math.log(0.2)])
    half = token_logps(logits.bfloat16(), torch.tensor([[1, 1]]))
    assert half.dtype == torch.float32


def test_cross_entropy_by_hand() -> None:
    logps = torch.tensor([[-1.0, -2.0, -4.0]])
    assert cross_entropy(logps, torch.tensor([[0.0, 1.0, 1.0]]), 2).item() == pytest.approx(3.0)


def test_choices_by_mean_log_probability_as_the_agent_draws_them() -> None:
    from roleagent_lite.agents.choose import mean_rule

    scores = [[-1.0, -2.0], [-0.5], [-3.0, -0.1, -0.2]]
    values = mean_rule(scores, ())
    sums = torch.tensor([sum(s) for s in scores])
    lengths = torch.tensor([len(s) for s in scores])
    weights = [math.exp(v / 0.9) for v in values]
    expected = [math.log(w / sum(weights)) for w in weights]
    none = torch.zeros(3)
    assert choice_logps(sums, lengths, none, 0.9).tolist() == pytest.approx(expected, abs=1e-6)
    held = choice_logps(sums, lengths, torch.tensor([0.0, 4.0, 0.0]), 0.9)
    assert held[1] < expected[1] and held.exp().sum().item() == pytest.approx(1.0)
