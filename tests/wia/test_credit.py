"""credit: the whole verdict against the recorded vectors, and the rules on who is compared with whom."""

from __future__ import annotations

from typing import Any

import pytest

from roleagent_lite.types import Credit
from roleagent_lite.wia.credit import credit_group
from tests.wia.make import load, of_case

CASES: list[Any] = load("wia.json")["cases"]
GIGPO: list[Any] = load("group_advantage.json")["cases"]


def close(value: Any) -> Any:
    return pytest.approx(value, abs=1.01e-5)  # the files round to five digits


def assert_equals(credit: Credit, expected: Any) -> None:
    for row, wanted in zip(credit.alignment, expected["alignment"], strict=True):
        assert [v is None for v in row] == [v is None for v in wanted]
        assert [v for v in row if v is not None] == close([v for v in wanted if v is not None])
    assert list(credit.task_return) == close(expected["returns"])
    assert list(credit.predictive) == close(expected["predictive"])
    assert list(credit.reward) == close(expected["shaped"])
    assert list(credit.state_group) == expected["state_group"]
    assert list(credit.state_advantage) == close(expected["state_advantage"])
    assert credit.episode_advantage == close(expected["episode_advantage"])
    assert list(credit.advantage) == close(expected["advantage"])


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"case{c['id']}")
def test_equals_the_vectors(case: Any) -> None:
    group, wia = of_case(case)
    credits = {c.trajectory: c for c in credit_group(group, wia)}
    for trajectory, given in zip(group, case["trajectories"], strict=True):
        if given["expected"] is None:
            assert trajectory.id not in credits
        else:
            assert_equals(credits[trajectory.id], given["expected"])
