"""pass@k and pass^k: published and hand-worked values, and words where there is nothing to compute."""

from __future__ import annotations

import itertools

import pytest

from roleagent_lite.stats.samples import pass_at_k, pass_hat_k, passes


@pytest.mark.parametrize(
    ("n", "c", "k", "value"),
    [(4, 1, 2, 0.5), (5, 5, 1, 1.0), (300, 1, 100, 1 / 3), (10, 0, 3, 0.0), (3, 2, 2, 1.0)],
)
def test_evl_04_known_values(n: int, c: int, k: int, value: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(value)


def test_evl_04_too_few_samples_are_not_computed() -> None:
    assert pass_at_k(2, 0, 5) is None and pass_at_k(2, 2, 5) is None and pass_hat_k(2, 2, 5) is None
    (found,) = passes({"a": (0.0, 0.0), "b": (1.0,)}, 0.9, [5])
    assert (found.any, found.every) == (None, None)
    assert found.words == "needs at least 5 samples a task, there are 2"


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 0), (4, 5, 1), (4, -1, 1), (4, 1, -2)])
def test_evl_04_nonsense_is_a_clear_error(n: int, c: int, k: int) -> None:
    for one in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match=f"n = {n} samples, c = {c} of them solved, k = {k}"):
            one(n, c, k)
    with pytest.raises(ValueError, match="at least 1"):
        passes({}, 0.9, [0])


@pytest.mark.parametrize("n", [1, 3, 6])
def test_both_equal_counting_all_draws(n: int) -> None:
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
        assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))
        assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, draws)) / len(draws))


def test_over_tasks_and_what_is_left_out() -> None:
    found = passes({"a": (1.0, 0.0, 0.0, 0.0), "b": (1.0, 1.0, 1.0, 1.0), "c": (1.0, None)}, 0.9, [1, 2])
    assert found[0].any == found[0].every == pytest.approx((0.25 + 1 + 1) / 3) and found[0].tasks == 3
    assert (found[1].any, found[1].every, found[1].tasks) == (0.75, 0.5, 2)
    assert found[1].words == (
        "pass@2 0.7500, pass^2 0.5000 over 2 tasks (1 with fewer than 2 samples left out)"
    )
    (broken,) = passes({"a": (1.0, 0.0), "b": (None, None), "c": (1.0, None)}, 0.9, [2])
    assert broken.words.endswith("over 1 tasks (2 with fewer than 2 samples left out)"), "no sample is fewer"


@pytest.mark.parametrize(("temperature", "words"), [(0.0, "temperature 0"), (None, "an unknown temperature")])
def test_nothing_is_sampled_at_temperature_0(temperature: float | None, words: str) -> None:
    (found,) = passes({"a": (1.0, 1.0, 0.0)}, temperature, [2])
    assert found.any is None and f"played at {words}" in found.words and "sample at 0.9" in found.words
    (one,) = passes({"a": (1.0, 1.0, 0.0)}, temperature, [1])
    assert one.any == pytest.approx(2 / 3)
