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
    assert chosen.reason.endswith("the best of 2 by these same tasks, which flatters its p")


def test_a_small_lead_is_not_beyond_noise() -> None:
    chosen = select([SEED, A], {"seed": scores("00000"), "a": scores("11100")})
    assert chosen.best == A and chosen.final == SEED and not chosen.accepted
    assert chosen.p == pytest.approx(0.125) and "not beyond noise" in chosen.reason


def test_losses_weigh_against() -> None:
    chosen = select([SEED, A], {"seed": scores("110000000"), "a": scores("001111110")})
    assert (chosen.wins, chosen.losses) == (6, 2)
    assert not chosen.accepted and "(6 dev tasks won, 2 lost, 1 equal, p = 0.145)" in chosen.reason


def test_equal_means_keep_the_seed_and_the_earlier_candidate() -> None:
    chosen = select([SEED, A, B], {"seed": scores("10"), "a": scores("01"), "b": scores("10")})
    assert (chosen.best, chosen.final) == (A, SEED) and "no candidate was better" in chosen.reason
    assert (chosen.accepted, chosen.wins, chosen.losses, chosen.p) == (False, 1, 1, 0.75)


def test_more_wins_with_a_lower_mean_do_not_replace_the_seed() -> None:
    halves = {f"d{n}": 0.1 for n in range(5)} | {"d5": 0.0}
    chosen = select([SEED, A], {"seed": scores("000001"), "a": halves})
    assert chosen.wins == 5 and not chosen.accepted


def test_the_best_candidate_is_named_even_if_it_is_worse_so_that_the_sealed_test_has_two() -> None:
    chosen = select([SEED, A, B], {"seed": scores("111"), "a": scores("000"), "b": scores("100")})
    assert (chosen.best, chosen.final, chosen.accepted) == (B, SEED, False)


def test_without_a_candidate_nothing_is_compared() -> None:
    chosen = select([SEED], {"seed": scores("0")})
    assert (chosen.best, chosen.p, chosen.reason) == (SEED, None, "no candidate entered")


def test_where_none_entered_the_last_refused_meets_the_seed() -> None:
    chosen = select([SEED], {"seed": scores("0")}, [A, B])
    assert (chosen.best, chosen.final, chosen.accepted, chosen.p) == (B, SEED, False, None)
    assert "refused in training" in chosen.reason
    entered = select([SEED, A], {"seed": scores("0"), "a": scores("0")}, [B])
    assert entered.best == A


def test_a_task_that_could_not_be_scored_is_no_loss() -> None:
    chosen = select([SEED, A], {"seed": scores("1----0000"), "a": scores("-11111111")})
    assert (chosen.wins, chosen.losses) == (4, 0)


def test_a_candidate_without_any_score_is_never_the_best() -> None:
    assert mean(scores("--")) == -1
    chosen = select([SEED, A], {"seed": scores("00"), "a": scores("--")})
    assert (chosen.best, chosen.reason) == (SEED, "no candidate could be scored on dev")
