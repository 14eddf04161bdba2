"""Selection: the best on dev replaces the seed only beyond noise."""

from __future__ import annotations

import pytest

from roleagent_lite.evolve.select import mean, select
from roleagent_lite.types import PromptSet

SEED, A, B = (PromptSet(n, {"act.instructions": n}) for n in ("seed", "a", "b"))


def scores(bits: str) -> dict[str, float | None]:
    """Task n solved for '1', not for '0', not scored for '-'."""
    return {f"d{n}": None if bit == "-" else float(bit) for n, bit in enumerate(bits)}


def test_a_clear_lead_replaces_the_seed() -> None:
    chosen = select([SEED, A, B], {"seed": scores("00000"), "a": scores("10000"), "b": scores("11110")})
    assert chosen.final == chosen.best == B and chosen.accepted
    assert (chosen.wins, chosen.losses) == (4, 0)
    assert chosen.p == pytest.approx(1 / 16)


def test_a_small_lead_is_not_beyond_noise() -> None:
    chosen = select([SEED, A], {"seed": scores("00000"), "a": scores("11100")})
    assert chosen.best == A and chosen.final == SEED and not chosen.accepted
    assert chosen.p == pytest.approx(0.125) and "not beyond noise" in chosen.reason


def test_losses_weigh_against() -> None:
    chosen = select([SEED, A], {"seed": scores("110000000"), "a": scores("001111110")})
    assert (chosen.wins, chosen.losses) == (6, 2)
    assert not chosen.accepted and "(6 dev tasks won, 2 lost, 1 equal, p = 0.145)" in chosen.reason


def test_equal_means_keep_the_earlier() -> None:
    chosen = select([SEED, A], {"seed": scores("10"), "a": scores("01")})
    assert chosen.best == SEED and chosen.p is None and "no candidate was better" in chosen.reason
    assert (chosen.accepted, chosen.wins, chosen.losses) == (False, 0, 0)
    assert select([SEED], {"seed": scores("0")}).reason == "no candidate entered"


def test_a_task_that_could_not_be_scored_is_no_loss() -> None:
    chosen = select([SEED, A], {"seed": scores("1----0000"), "a": scores("-11111111")})
    assert (chosen.wins, chosen.losses) == (4, 0)


def test_a_candidate_without_any_score_is_never_the_best() -> None:
    assert mean(scores("--")) == -1
    assert select([SEED, A], {"seed": scores("00"), "a": scores("--")}).best == SEED
