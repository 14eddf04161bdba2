"""Two systems: exact tests by known values, mirrored by a swap, a verdict with no winner in the noise."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roleagent_lite.stats.paired import (
    holm,
    mcnemar,
    mcnemar_one_sided,
    p_words,
    paired_difference,
    points,
    sign_test,
    task_means,
    verdict,
)

COUNT = st.integers(0, 40)

# --- yes/no -------------------------------------------------------------------------------------------


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
    assert (found.p, found.test) == (mcnemar(2, 1), "exact McNemar")


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
    assert (there.p, there.test) == (back.p, back.test)
    assert there.low is not None
    assert back.high is not None
    assert there.low == -back.high and there.high == -(back.low or 0.0)


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


def test_equal_real_differences_have_no_interval_and_name_no_winner() -> None:
    found = paired_difference(scored(*[0.1] * 9), scored(*[0.2] * 9))
    assert found is not None
    assert (found.low, found.high, found.wins) == (None, None, 9)
    assert found.p == pytest.approx(2 / 2**9) and found.within_noise()


SCORE = st.one_of(st.sampled_from([0.0, 1.0, 0.3, 0.1 + 0.2]), st.floats(0, 1))


@given(st.lists(st.tuples(SCORE, SCORE), min_size=1, max_size=7))
@settings(max_examples=40, deadline=None)
def test_evl_02_a_swap_mirrors_every_number_exactly(pairs: list[tuple[float, float]]) -> None:
    a, b = scored(*[x for x, _ in pairs]), scored(*[y for _, y in pairs])
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert there is not None and back is not None
    assert (there.n, there.wins, there.losses, there.ties) == (back.n, back.losses, back.wins, back.ties)
    assert (there.difference, there.p, there.test) == (-back.difference, back.p, back.test)
    assert there.win_rate == pytest.approx(1 - back.win_rate, abs=1e-15)
    if there.low is None or there.high is None:
        assert back.low is back.high is None
    else:
        assert (back.low, back.high) == (-there.high, -there.low)
    assert there.within_noise() == back.within_noise()


def test_scores_are_tested_by_permutation() -> None:
    gains = [
        0.5,
        0.25,
        0.125,
        0.4,
        0.3,
        0.2,
    ]  # all up: only the two extreme sign patterns of 64 are as far out
    found = paired_difference(scored(*[0.0] * 6), scored(*gains))
    assert found is not None and found.test == "sign-flip permutation"
    assert found.p == pytest.approx(2 / 64)
    # one down by 0.1: of the 64 sign patterns those that sum to 1.575 or more are counted by hand
    mixed = [0.5, 0.25, 0.125, 0.4, 0.3, -0.1]
    total = sum(mixed)
    signs = [[1 if k >> i & 1 else -1 for i in range(6)] for k in range(64)]
    as_far = sum(sum(s * abs(g) for s, g in zip(row, mixed, strict=True)) >= total - 1e-9 for row in signs)
    again = paired_difference(scored(*[0.2] * 6), scored(*[0.2 + g for g in mixed]))
    assert again is not None and again.p == pytest.approx(2 * as_far / 64)


def test_holm_by_hand_and_in_the_order_given() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])
    assert holm([0.2]) == [0.2] and holm([]) == []


def test_the_verdict_names_a_winner_only_outside_the_noise() -> None:
    clear = paired_difference(scored(*[0.0] * 12), scored(*[1.0] * 10, 0.0, 0.0))
    assert clear is not None and not clear.within_noise()
    assert (
        verdict(clear, "a", "b")
        == "That is more than noise (two-sided p = 0.002): b solved more tasks than a."
    )
    corrected = verdict(clear, "a", "b", p=0.2)
    assert "within noise (two-sided p, corrected, = 0.20)" in corrected and "is better" in corrected
    close = paired_difference(scored(0.0, 1.0, 0.0), scored(1.0, 1.0, 0.0))
    assert close is not None and "within noise" in verdict(close, "a", "b")
    alike = paired_difference(scored(1.0, 0.0), scored(1.0, 0.0))
    assert alike is not None and "No difference was seen" in verdict(alike, "a", "b")
    worse = paired_difference(scored(*[0.9, 0.8, 0.7] * 4), scored(*[0.1, 0.2, 0.3] * 4))
    assert worse is not None and "scored lower" in verdict(worse, "a", "b", what="scored")
    assert [p_words(p) for p in (0.0, 0.00099, 0.0312, 0.05, 1.0)] == [
        "< 0.001", "< 0.001", "= 0.031", "= 0.05", "= 1.00",
    ]  # fmt: skip
    assert points(0.123) == "+12 percentage points"


Sides = list[dict[str, float | None]]


def coverage(n: int, times: int, repetitions: int, seed: int) -> float:
    """How often the interval of the difference of two equal coins covers 0."""
    rng = random.Random(seed)
    covered = 0
    for _ in range(times):
        chance = [rng.random() for _ in range(n)]  # tasks differ in how hard they are
        sides: Sides = [
            {
                f"t{i}": sum(rng.random() < p for _ in range(repetitions)) / repetitions
                for i, p in enumerate(chance)
            }
            for _ in range(2)
        ]
        found = paired_difference(sides[0], sides[1])
        assert found is not None and found.low is not None and found.high is not None
        covered += found.low <= 0 <= found.high
    return covered / times


def test_evl_01_equal_systems_are_told_apart_about_as_rarely_as_promised() -> None:
    assert 0.9 <= coverage(200, 200, 1, seed=4) <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("repetitions", [1, 3])
def test_evl_01_the_interval_of_two_equal_coins_covers_zero_in_95_percent(repetitions: int) -> None:
    assert 0.92 <= coverage(200, 200, repetitions, seed=1) <= 0.98
