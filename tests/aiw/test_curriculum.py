"""Rule 6 against the vectors and its worked example, by hand at its edges, and as properties."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roleagent_lite.aiw.curriculum import CAP, FORGET_BELOW, Curriculum
from roleagent_lite.errors import RoleAgentError

VECTORS = Path(__file__).parent.parent / "vectors" / "reshape.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text(encoding="utf-8"))["cases"]


def fresh(n: int, rho: float = 0.3, decay: float = 0.9, seed: int = 0) -> Curriculum:
    return Curriculum.start([f"t{i}" for i in range(n)], rho, decay, seed)


def with_counts(*counts: float, rho: float = 0.3, seed: int = 0) -> Curriculum:
    return Curriculum(tuple(f"t{i}" for i in range(len(counts))), rho, 0.9, seed, counts)


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c["id"]))
def test_vectors_round_by_round(case: dict[str, Any]) -> None:
    current = fresh(case["tasks"], case["rho"], case["decay"])
    for row in case["rounds"]:
        current = current.update([f"t{i}" for i in row["chosen"]], {f"t{i}" for i in row["solved"]})
        assert current.counts == pytest.approx(row["counts"], abs=1e-5)
        p = current.probabilities()
        assert list(p) == list(current.task_ids)
        assert list(p.values()) == pytest.approx(row["p"], abs=1e-5)


def test_the_worked_example() -> None:
    p = list(with_counts(8, 2, 0, 0, 0, 0, 0, 0, 0, 0).probabilities().values())
    assert p[:2] == pytest.approx([0.25, 0.134615], abs=1e-6)
    assert p[2:] == pytest.approx([0.076923] * 8, abs=1e-6)


def test_the_order_is_decay_halve_add_forget() -> None:
    after = with_counts(1.0, 1.0, 0.0555, 0.0556, 0.111, 0.12).update(["t0", "t0"], {"t0", "t4", "t5"})
    assert after.counts == pytest.approx((0.45 + 2, 0.9, 0.0, 0.05004, 0.0, 0.054))
    assert with_counts(0.04, 0.0).update(["t0"], set()).counts[0] == pytest.approx(
        1.036
    )  # added before forgotten


def test_a_count_of_exactly_the_threshold_stays() -> None:
    kept = Curriculum(("a", "b"), 0.3, 1.0, 0, (FORGET_BELOW, math.nextafter(FORGET_BELOW, 0)))
    assert kept.update([], set()).counts == (FORGET_BELOW, 0.0)


def test_no_counts_is_uniform() -> None:
    assert list(fresh(7).probabilities().values()) == pytest.approx([1 / 7] * 7)
    assert with_counts(0, 0).probabilities() == pytest.approx({"t0": 0.5, "t1": 0.5})


def test_rho_grows_with_evidence() -> None:
    """rho_k = rho C/(C + 1): one choice moves half of rho, many move nearly all of it."""
    few = with_counts(1, *[0] * 9).probabilities()["t9"]
    many = with_counts(100, 100, 100, 100, *[0] * 6).probabilities()["t9"]
    assert few == pytest.approx((1 - 0.15) / 10)
    assert many == pytest.approx((1 - 0.3 * 400 / 401) / 10)


def test_the_cap_counts_two_in_n_where_tasks_are_few() -> None:
    assert with_counts(50, 0, rho=0.9).probabilities()["t0"] == pytest.approx(
        _raw(50, 50, 2, 0.9)
    )  # cap is 1
    assert with_counts(50, 0, 0, rho=0.9).probabilities()["t0"] == pytest.approx(2 / 3)
    assert with_counts(50, *[0] * 19, rho=0.9).probabilities()["t0"] == pytest.approx(CAP)


def test_a_cap_that_pushes_others_over_it_is_applied_again() -> None:
    p = list(with_counts(60, 25, 6, *[0] * 7, rho=0.8).probabilities().values())
    assert p[0] == p[1] == pytest.approx(0.25)
    assert sum(p) == pytest.approx(1)
    assert p[2] / p[3] == pytest.approx(_raw(6, 91, 10, 0.8) / _raw(0, 91, 10, 0.8))


def _raw(count: float, total: float, n: int, rho: float) -> float:
    rho_k = rho * total / (total + 1)
    return (1 - rho_k) / n + rho_k * count / total


@settings(max_examples=150, deadline=None)
@given(
    counts=st.lists(st.floats(0.05, 500) | st.just(0.0), min_size=1, max_size=40),
    rho=st.floats(0, 0.99),
)
def test_p_is_a_distribution_between_floor_and_cap(counts: list[float], rho: float) -> None:
    n = len(counts)
    p = list(with_counts(*counts, rho=rho).probabilities().values())
    assert sum(p) == pytest.approx(1)
    assert min(p) >= (1 - rho) / n - 1e-12
    assert max(p) <= max(CAP, 2 / n) + 1e-12
    order = sorted(range(n), key=lambda i: counts[i])
    assert all(p[a] <= p[b] + 1e-12 for a, b in itertools.pairwise(order))


def test_a_mastered_task_fades_for_good() -> None:
    current = fresh(5).update(["t1"] * 3, set())
    for _ in range(5):
        current = current.update([], {"t1"})
    assert current.counts[1] == pytest.approx(3 * 0.45**5)
    assert current.update([], {"t1"}).counts[1] == 0.0


def test_update_leaves_the_old_one_alone_and_replay_restores() -> None:
    start = fresh(6, seed=4)
    rounds = [(["t1", "t1", "t2"], {"t0"}), ([], {"t1"}), (["t5"], set())]
    current = start
    for chosen, solved in rounds:
        current = current.update(chosen, solved)
    assert start.counts == (0.0,) * 6
    with pytest.raises(FrozenInstanceError):
        start.counts = current.counts  # type: ignore[misc]
    assert start.replay(rounds) == current
    assert start.replay(rounds).draw(3, 7) == current.draw(3, 7)


def test_draw_is_seeded_by_seed_and_round_and_without_replacement() -> None:
    current = fresh(12, seed=3)
    drawn = current.draw(6, 0)
    assert drawn == current.draw(6, 0)
    assert len(set(drawn)) == 6
    assert set(drawn) <= set(current.task_ids)
    assert len({tuple(current.draw(6, r)) for r in range(20)}) > 15
    assert len({tuple(fresh(12, seed=s).draw(6, 0)) for s in range(20)}) > 15
    assert fresh(12, seed=3).draw(6, 12) != fresh(12, seed=31).draw(6, 2)


def test_draw_of_more_than_there_are_gives_all_once() -> None:
    assert sorted(fresh(4).draw(9, 1)) == ["t0", "t1", "t2", "t3"]
    assert fresh(4).draw(0, 1) == []


def test_a_failing_family_is_played_more_and_no_task_under_the_floor() -> None:
    """Over 6,000 draws (1,000 rounds of 6): the family's share rises, every task keeps (1 - rho)/N."""
    n, family = 24, {f"t{i}" for i in range(4)}
    current = fresh(n, seed=11)
    played: Counter[str] = Counter()
    for number in range(1000):
        drawn = current.draw(6, number)
        played.update(drawn)
        failed = sorted(family & set(drawn))
        related = sorted(family - set(failed))[:2] if failed else []
        current = current.update(failed + related, set(drawn) - family)
    total = sum(played.values())
    assert total == 6000
    share = sum(played[t] for t in family) / total
    uniform = len(family) / n
    assert share > uniform + 3 * math.sqrt(uniform * (1 - uniform) / total)
    floor = 0.7 / n
    allowed = 3 * math.sqrt(floor * (1 - floor) / total)
    assert min(played[t] for t in current.task_ids) / total >= floor - allowed


@pytest.mark.parametrize("counts", [(8, 2, *[0] * 8), (30, 30, 30, *[0] * 9), (1, *[0] * 5)])
def test_drawing_without_replacement_keeps_the_floor_for_unlikely_tasks(counts: tuple[float, ...]) -> None:
    """Share of draws of a task with p under 1/N is at least p, up to chance, at every k."""
    current = with_counts(*counts)
    p = current.probabilities()
    n, rounds = len(counts), 3000
    for k in (1, 3, n - 1):
        played = Counter(t for r in range(rounds) for t in current.draw(k, r))
        for task, chance in p.items():
            share = played[task] / (rounds * k)
            allowed = 4 * math.sqrt(chance / (rounds * k))
            if chance <= 1 / n:
                assert share >= chance - allowed
            else:
                assert 1 / n - allowed <= share <= chance + allowed


def test_first_draw_follows_p() -> None:
    current = with_counts(8, 2, *[0] * 8)
    rounds = 6000
    first = Counter(current.draw(1, r)[0] for r in range(rounds))
    for task, chance in current.probabilities().items():
        assert abs(first[task] / rounds - chance) < 4 * math.sqrt(chance * (1 - chance) / rounds)


def test_wrong_ids_are_named() -> None:
    with pytest.raises(RoleAgentError, match="'t9' is no training task"):
        fresh(3).update(["t9"], set())
    with pytest.raises(RoleAgentError, match="'x' is no training task"):
        fresh(3).update([], {"x"})
    with pytest.raises(RoleAgentError, match="twice"):
        Curriculum.start(["a", "a"], 0.3, 0.9, 0)
    with pytest.raises(RoleAgentError, match="no training tasks"):
        Curriculum.start([], 0.3, 0.9, 0)
