"""What n can see: by hand, by simulation, against statsmodels, and in words."""

from __future__ import annotations

import random

import pytest

from roleagent_lite.stats.paired import Alternative, sign_test
from roleagent_lite.stats.power import detectable_effect


def simulated_power(
    n: int, base: float, gain: float, alpha: float, alternative: Alternative, losses: bool
) -> float:
    """How often the sign test finds the gain, played out."""
    rng = random.Random(5)
    needed = {}  # fewest wins among m decided tasks
    for m in range(n + 1):
        needed[m] = next(
            (w for w in range(m + 1) if 2 * w >= m and sign_test(w, m - w, alternative) <= alpha), m + 1
        )
    found = 0
    for _ in range(4000):
        wins = lost = 0
        for _ in range(n):
            if losses:
                before, after = rng.random() < base, rng.random() < base + gain
                wins, lost = wins + (after and not before), lost + (before and not after)
            else:
                wins += rng.random() < gain
        found += wins >= needed[wins + lost]
    return found / 4000


@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_paired_effect_has_the_power_it_claims(alternative: Alternative) -> None:
    found = detectable_effect(20, 0.3, power=0.8, alpha=0.1, alternative=alternative)
    assert found.difference is not None
    assert found.at_best is not None
    assert found.at_best < found.difference
    assert simulated_power(20, 0.3, found.difference, 0.1, alternative, True) == pytest.approx(0.8, abs=0.025)
    assert simulated_power(20, 0.3, found.at_best, 0.1, alternative, False) == pytest.approx(0.8, abs=0.025)


def test_at_best_by_hand() -> None:
    # one-sided 0.1 needs 4 wins of 4; with 4 tasks all four must be won: gain^4 = 0.8
    found = detectable_effect(4, 0.0, alpha=0.1)
    assert found.difference == found.at_best == pytest.approx(0.8**0.25, abs=1e-5)


def test_unpaired_effect_equals_statsmodels() -> None:
    from statsmodels.stats.power import NormalIndPower
    from statsmodels.stats.proportion import proportion_effectsize

    found = detectable_effect(50, 0.25, paired=False)
    assert found.difference is not None
    size = proportion_effectsize(0.25 + found.difference, 0.25)
    assert NormalIndPower().power(size, 50, 0.05, alternative="larger") == pytest.approx(0.8, abs=1e-4)
    both = detectable_effect(50, 0.25, paired=False, alternative="two-sided")
    assert both.difference is not None
    assert both.difference > found.difference
    assert "50 tasks each show an improvement over 25% from 24 percentage points on" in found.words


def test_more_tasks_see_smaller_effects() -> None:
    sizes = [detectable_effect(n, 0.25).difference for n in (12, 24, 50, 200)]
    assert all(s is not None for s in sizes)
    assert sizes == sorted((s for s in sizes if s is not None), reverse=True)
    more_power = detectable_effect(50, 0.25, power=0.95).difference
    assert more_power is not None
    assert sizes[2] is not None
    assert more_power > sizes[2]


@pytest.mark.parametrize(("n", "base"), [(0, 0.5), (3, 0.5), (4, 0.0), (24, 1.0), (20, 0.95)])
@pytest.mark.parametrize("paired", [True, False])
def test_what_cannot_be_seen_is_said(n: int, base: float, paired: bool) -> None:
    found = detectable_effect(n, base, paired=paired)
    if not paired and n == 4:
        assert found.difference is not None
        return
    assert found.difference is None
    assert found.at_best is None
    assert found.words.startswith(
        f"{n} paired tasks cannot show" if paired else f"{n} tasks each cannot show"
    )


def test_the_words_name_the_terms() -> None:
    found = detectable_effect(12, 0.25, alpha=0.1)
    assert found.words == (
        "12 paired tasks show an improvement over 25% from 51 percentage points on "
        "(41 if no solved task is lost again), one-sided p < 0.1, 80% power"
    )
    assert "lost again" not in detectable_effect(12, 0.0).words
    assert detectable_effect(12, 0.25, alternative="two-sided").words.endswith(
        "two-sided p < 0.05, 80% power"
    )


@pytest.mark.parametrize(
    ("n", "base", "power", "alpha"),
    [
        (-1, 0.5, 0.8, 0.05),
        (5, 1.1, 0.8, 0.05),
        (5, -0.1, 0.8, 0.05),
        (5, 0.5, 1.0, 0.05),
        (5, 0.5, 0.8, 0.0),
    ],
)
def test_nonsense_is_refused(n: int, base: float, power: float, alpha: float) -> None:
    with pytest.raises(ValueError, match="out of range"):
        detectable_effect(n, base, power, alpha)
