"""Matching of answers and Search-R1's score for format: equal to the originals on every recorded case."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.envs.search import answers
from tests.envs.search.recorded import recorded


@pytest.mark.parametrize("case", recorded()["em_cases"], ids=lambda c: c["id"])
def test_matching(case: dict[str, Any]) -> None:
    assert answers.normalise(case["prediction"]) == case["normalized_prediction"]
    assert answers.wanted(case["golden"]) == case["normalized_golden"]
    assert answers.exact(case["prediction"], case["golden"]) == bool(case["em"])
    assert answers.contains(case["prediction"], case["golden"]) == bool(case["sub_em"])


@pytest.mark.parametrize("case", recorded()["response_cases"], ids=lambda c: c["id"])
def test_whole_responses(case: dict[str, Any]) -> None:
    said = answers.last_answer(case["response"])
    assert float(said is not None and answers.exact(said, case["golden"])) == case["search_r1_em"]
    assert float(said is not None and answers.contains(said, case["golden"])) == case["search_r1_sub_em"]
    assert (answers.format_fault(case["response"]) or "Valid sequence format") == case["format_reason"]
    assert answers.retrieved(case["response"], case["golden"]) == case["retrieval_correct"]
    found = answers.format_score(case["response"], case["golden"])
    assert found == pytest.approx(case["search_r1_format_score"], abs=1e-9)


@given(st.text(max_size=60))
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = answers.normalise(text)
    assert answers.exact(text, [text])
    assert answers.normalise(once).split() == [w for w in once.split() if w not in ("a", "an", "the")]
