"""The verdict: which pair is compared, and that no winner is named inside the noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite.report.compare import compare, sealed, task_scores
from roleagent_lite.report.gather import Tally, gather
from roleagent_lite.stats import detectable_effect
from tests.report import make


def tally(won: dict[str, bool | None], split: str = "test") -> Tally:
    return Tally("p", split, won)


def ends(solved: int, n: int = 12, first: int = 0) -> dict[str, bool | None]:
    return {f"t{i}#0": first <= i < first + solved for i in range(n)}


def test_six_wins_and_no_loss_are_more_than_noise() -> None:
    found = compare(tally(ends(3)), tally(ends(9)), "seed prompt", "final prompt")
    assert found is not None
    assert (found.paired.wins, found.paired.losses, found.paired.ties, found.paired.n) == (6, 0, 6, 12)
    assert found.paired.p == pytest.approx(2 / 64)
    assert "solved more tasks" in found.words and "more than noise" in found.words
    assert "3 of 12" in found.words and "9 of 12" in found.words and "+50 percentage points" in found.words


def test_evl_01_no_winner_inside_the_noise() -> None:
    found = compare(tally(ends(3)), tally(ends(5)), "seed prompt", "final prompt")
    assert found is not None and found.paired.p > 0.05
    assert "within noise" in found.words and "does not show" in found.words
    assert "solved more tasks" not in found.words
    assert "percentage points on" in found.sees and found.sees in found.words
    assert "two-sided p < 0.05" in found.sees
    same = detectable_effect(12, 3 / 12, alternative="two-sided")
    assert found.sees == same.words


def test_a_worse_prompt_is_called_worse() -> None:
    found = compare(tally(ends(9)), tally(ends(2)), "seed prompt", "final prompt")
    assert found is not None and found.paired.difference < 0
    assert "solved fewer tasks" in found.words


def test_evl_02_swapping_the_two_mirrors_every_number() -> None:
    one = compare(tally(ends(4)), tally(ends(6, first=2)), "a", "b")
    two = compare(tally(ends(6, first=2)), tally(ends(4)), "b", "a")
    assert one is not None and two is not None
    assert (one.paired.wins, one.paired.losses, one.paired.ties) == (
        two.paired.losses,
        two.paired.wins,
        two.paired.ties,
    )
    assert one.paired.difference == pytest.approx(-two.paired.difference)
    assert one.paired.p == pytest.approx(two.paired.p)
    assert (
        one.paired.low is not None
        and two.paired.high is not None
        and one.paired.low == pytest.approx(-two.paired.high)
    )


def test_equal_everywhere_is_said_so() -> None:
    found = compare(tally(ends(4)), tally(ends(4)), "a", "b")
    assert found is not None and "No difference was seen" in found.words


def test_infrastructure_errors_are_no_pair() -> None:
    first = ends(4)
    first["t0#0"] = None
    found = compare(tally(first), tally(ends(4)), "a", "b")
    assert found is not None and found.paired.n == 11
    assert "11 sealed test tasks" in found.words and "the a solved 3 of 11 and the b 3 of 11" in found.words
    assert task_scores(tally({"x#0": None})) == {"x": None}
    assert compare(tally({"x#0": None}), tally({"x#0": True}), "a", "b") is None


def test_rollouts_of_a_task_are_averaged() -> None:
    assert task_scores(tally({"x#0": True, "x#1": False, "y#0": None, "y#1": True})) == {"x": 0.5, "y": 1.0}


@pytest.mark.parametrize(
    ("adopted", "name"), [(True, "final prompt"), (False, "best candidate, not adopted,")]
)
def test_the_pair_on_the_sealed_tasks(tmp_path: Path, adopted: bool, name: str) -> None:
    with make.whole_run(tmp_path / "r", adopted=adopted) as run:
        found = sealed(gather(run))
    assert found is not None
    assert (found.first, found.second, found.second_name) == (make.SEED.id, make.CHILD.id, name)
    assert (found.first_success.k, found.second_success.k) == (3, 9)


def test_as_data_the_pair_is_flat() -> None:
    found = compare(tally(ends(3)), tally(ends(9)), "seed prompt", "final prompt")
    assert found is not None
    data = found.as_data()
    assert (data["wins"], data["ties"], data["n"], data["test"]) == (6, 6, 12, "exact McNemar")
    assert data["first_success"]["k"] == 3 and "paired" not in data and data["words"] == found.words


def test_no_comparison_before_the_end(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r", finished=False) as run:
        assert sealed(gather(run)) is None
