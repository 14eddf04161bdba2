"""stats: known values, agreement with statsmodels, and no nan anywhere."""

from __future__ import annotations

import math
import random
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roleagent_lite.stats import (
    Alternative,
    detectable_effect,
    mcnemar,
    mcnemar_one_sided,
    paired_difference,
    point_biserial,
    sign_test,
    task_means,
    wilson,
)

COUNT = st.integers(0, 40)

# --- shares -------------------------------------------------------------------------------------------


def test_wilson_known_values() -> None:
    assert wilson(7, 10) == pytest.approx((0.397, 0.892), abs=5e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=5e-4)
    assert wilson(10, 10) == pytest.approx((0.7225, 1.0), abs=5e-4)
    assert wilson(0, 0) == (None, None)


def test_wilson_equals_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for k, n, level in [(1, 3, 0.95), (12, 50, 0.9), (50, 50, 0.99)]:
        wanted = proportion_confint(k, n, alpha=1 - level, method="wilson")
        assert wilson(k, n, level) == pytest.approx(wanted, abs=1e-12)


@given(COUNT, COUNT)
@settings(max_examples=30)
def test_wilson_holds_the_share_and_stays_in_range(k: int, more: int) -> None:
    low, high = wilson(k, k + more)
    if k + more == 0:
        assert low is high is None
    else:
        assert low is not None
        assert high is not None
        assert 0.0 <= low <= k / (k + more) + 1e-12
        assert k / (k + more) - 1e-12 <= high <= 1.0


@pytest.mark.parametrize(
    ("k", "n", "level"), [(-1, 3, 0.95), (4, 3, 0.95), (1, 3, 0.0), (1, 3, 1.0), (1, -1, 0.95)]
)
def test_wilson_refuses_nonsense(k: int, n: int, level: float) -> None:
    with pytest.raises(ValueError):
        wilson(k, n, level)


# --- paired yes/no ------------------------------------------------------------------------------------


def test_mcnemar_known_values() -> None:
    assert mcnemar(10, 2) == pytest.approx(0.0386, abs=5e-5)
    assert mcnemar(2, 10) == mcnemar(10, 2)
    assert mcnemar_one_sided(10, 2) == sign_test(10, 2) == pytest.approx(0.0193, abs=5e-5)
    assert mcnemar_one_sided(2, 10) == pytest.approx(0.9968, abs=5e-5)
    assert sign_test(4, 0) == 0.0625
    assert sign_test(3, 0) == 0.125


def test_mcnemar_equals_statsmodels() -> None:
    from statsmodels.stats.contingency_tables import mcnemar as reference

    for wins, losses in [(10, 2), (5, 5), (0, 7), (31, 12)]:
        table = [[3, wins], [losses, 4]]
        assert mcnemar(wins, losses) == pytest.approx(float(reference(table, exact=True).pvalue), abs=1e-12)


def test_ties_alone_are_no_evidence() -> None:
    assert sign_test(0, 0) == mcnemar(0, 0) == mcnemar_one_sided(0, 0) == 1.0


@pytest.mark.parametrize(("wins", "losses"), [(-1, 2), (2, -1)])
def test_negative_counts_are_refused(wins: int, losses: int) -> None:
    with pytest.raises(ValueError, match="cannot be negative"):
        sign_test(wins, losses)


@given(COUNT, COUNT)
@settings(max_examples=30)
def test_p_lies_in_range_and_more_wins_help(wins: int, losses: int) -> None:
    p = sign_test(wins, losses)
    assert 0.0 <= p <= 1.0
    assert sign_test(wins + 1, losses) <= p
    assert mcnemar(wins, losses) <= min(1.0, 2 * p) + 1e-12


# --- two systems --------------------------------------------------------------------------------------


def scored(*values: float | None) -> dict[str, float | None]:
    return {f"t{i}": v for i, v in enumerate(values)}


def test_task_means() -> None:
    assert task_means({"a": (1.0, None, 0.0), "b": (None,), "c": (), "d": (0.5,)}) == {"a": 0.5, "d": 0.5}


def test_paired_counts_over_common_tasks() -> None:
    first = {"a": 0.0, "b": 1.0, "c": 0.0, "d": None, "only": 1.0, "f": 0.0}
    second = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 1.0, "other": 1.0, "f": 1.0}
    found = paired_difference(first, second)
    assert found is not None
    assert (found.n, found.wins, found.losses, found.ties) == (4, 2, 1, 1)
    assert found.difference == 0.25
    assert (found.better, found.differs) == (sign_test(2, 1), mcnemar(2, 1))


def test_evl_02_ties_count_half_and_rounding_is_a_tie() -> None:
    found = paired_difference(scored(1.0, 0.0, *[0.5] * 98), scored(0.0, 1.0, *[0.5] * 98))
    assert found is not None
    assert (found.wins, found.losses, found.ties, found.win_rate) == (1, 1, 98, 0.5)
    near = paired_difference(scored(0.1 + 0.2, 0.0), scored(0.3, 1.0))
    assert near is not None
    assert (near.wins, near.losses, near.ties, near.win_rate) == (1, 0, 1, 0.75)


@pytest.mark.parametrize("values", [(0.0, 1.0, 1.0, 0.0, 1.0), (0.1, 0.4, 0.9, 0.25, 1.0)])
def test_evl_02_swapping_the_two_mirrors_the_numbers(values: tuple[float, ...]) -> None:
    a, b = scored(*values), scored(0.0, 0.0, 1.0, 1.0, 0.0)
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert there is not None
    assert back is not None
    assert (there.wins, there.losses, there.win_rate) == (back.losses, back.wins, 1 - back.win_rate)
    assert there.difference == -back.difference
    assert there.differs == back.differs
    assert there.low is not None
    assert back.high is not None
    assert there.low == pytest.approx(-back.high, abs=0.03)  # the bootstrap draws the same tasks


def test_no_common_task_is_none() -> None:
    assert paired_difference({}, {}) is None
    assert paired_difference({"a": 1.0}, {"b": 1.0}) is None
    assert paired_difference({"a": None}, {"a": 1.0}) is None


def test_one_task_has_no_interval() -> None:
    for b in (1.0, 0.4):
        found = paired_difference({"a": 0.0}, {"a": b})
        assert found is not None
        assert (found.difference, found.low, found.high) == (b, None, None)


def test_yes_no_interval_by_hand() -> None:
    found = paired_difference(scored(*[0.0] * 12), scored(*[1.0] * 3, *[0.0] * 9))
    assert found is not None
    up, down = 4 / 14, 1 / 14
    half = 1.959964 * math.sqrt((up + down - (up - down) ** 2) / 14)
    assert (found.low, found.high) == pytest.approx((up - down - half, up - down + half), abs=1e-6)


def test_no_change_on_few_tasks_is_not_certainty() -> None:
    found = paired_difference(scored(1.0, 0.0, 1.0), scored(1.0, 0.0, 1.0))
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < -0.3
    assert found.high > 0.3


def test_intervals_stay_in_range_and_narrow_with_n_and_level() -> None:
    all_won = paired_difference(scored(0.0, 0.0), scored(1.0, 1.0))
    all_lost = paired_difference(scored(1.0, 1.0), scored(0.0, 0.0))
    assert all_won is not None
    assert all_lost is not None
    assert all_won.high == 1.0
    assert all_lost.low == -1.0
    widths = []
    for n, level in [(10, 0.95), (10, 0.8), (40, 0.8)]:
        found = paired_difference(scored(*[0.0] * n), scored(*[i % 2 for i in range(n)]), level)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        widths.append(found.high - found.low)
    assert widths[0] > widths[1] > widths[2]


def test_bootstrap_is_seeded_and_ignores_the_order_of_tasks() -> None:
    rng = random.Random(1)
    a, b = scored(*[rng.random() for _ in range(15)]), scored(*[rng.random() for _ in range(15)])
    turned = dict(reversed(list(a.items())))
    first = paired_difference(a, b)
    assert first == paired_difference(turned, b) == paired_difference(a, b, seed=0)
    other = paired_difference(a, b, seed=1)
    assert first is not None
    assert other is not None
    assert first.low is not None
    assert first.high is not None
    assert first.low != other.low
    assert first.low < first.difference < first.high
    assert first.low == pytest.approx(other.low, abs=0.02)
    differences = [
        y - x for x, y in zip(a.values(), b.values(), strict=True) if x is not None and y is not None
    ]
    mean = sum(differences) / 15
    error = math.sqrt(sum((d - mean) ** 2 for d in differences) / 15 / 15)
    assert first.low == pytest.approx(mean - 1.96 * error, abs=0.03)
    assert first.high == pytest.approx(mean + 1.96 * error, abs=0.03)


def test_equal_real_differences_do_not_warn_or_break() -> None:
    found = paired_difference(scored(0.1, 0.2, 0.3), scored(0.2, 0.3, 0.4))
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.1, 0.1))


# --- correlation --------------------------------------------------------------------------------------


def test_point_biserial_by_hand_and_against_scipy() -> None:
    from scipy.stats import pearsonr

    values, flags = [1.0, 2.0, 3.0, 4.0], [False, False, True, True]
    found = point_biserial(values, flags)
    assert found is not None
    assert found.r == pytest.approx(2 / math.sqrt(5))
    reference = pearsonr(values, [0, 0, 1, 1])
    assert found.p == pytest.approx(reference.pvalue)
    assert found.n == 4
    opposite = point_biserial(values, [not f for f in flags])
    assert opposite is not None
    assert opposite.r == pytest.approx(-found.r)


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ([], []),
        ([1.0, 2.0], [True, False]),
        ([1.0, 2.0, 3.0], [True, True, True]),
        ([0.3, 0.3, 0.1 + 0.2], [True, False, True]),
    ],
)
def test_no_correlation_where_nothing_varies(values: list[float], flags: list[bool]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert point_biserial(values, flags) is None


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 values but 1 flags"):
        point_biserial([1.0, 2.0], [True])


# --- what n can see -----------------------------------------------------------------------------------


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
