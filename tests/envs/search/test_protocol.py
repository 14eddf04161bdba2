"""The protocol in both dialects: equal to the originals on every recorded reply and result."""

from __future__ import annotations

from typing import Any

import pytest

from roleagent_lite.envs.search import protocol
from roleagent_lite.envs.search.protocol import Move, Passage, cut, dialect, projected
from roleagent_lite.errors import ConfigError
from tests.envs.search.recorded import passages, recorded

CASES = recorded()["reply_cases"]
BY_ID = {p.id: p for p in passages()}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_search_r1_reads_as_the_original(case: dict[str, Any]) -> None:
    assert cut(case["reply"]) == case["cut"]
    move, expected = protocol.search_r1(case["reply"]), case["search_r1"]
    assert (move.kind, move.content) == (expected["action"] or "none", expected["content"])
    assert move.valid == (expected["action"] is not None)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_verl_agent_reads_as_the_original(case: dict[str, Any]) -> None:
    expected = case["verl_agent"]
    move = protocol.verl_agent(case["reply"])
    assert projected(case["reply"]) == expected["projected"]
    assert move.valid == bool(expected["valid"])
    assert (move.kind == "answer") == expected["ends_episode"]


@pytest.mark.parametrize(
    "case", recorded()["result_format_cases"], ids=lambda c: "-".join(c["ids"]) or "none"
)
def test_results_are_shown_as_the_originals_show_them(case: dict[str, Any]) -> None:
    found = [BY_ID[id] for id in case["ids"]]
    assert protocol.shown_search_r1(found) == case["search_r1_observation"]
    assert protocol.shown_verl_agent(found) == case["verl_agent_observation"]


def test_a_search_that_holds_an_answer_ends_the_episode_for_verl_agent() -> None:
    assert protocol.verl_agent("<search><answer>x</answer></search>") == Move("answer", "x", False)


def test_refusals_name_both_tags() -> None:
    for name in protocol.DIALECTS:
        said = dialect(name).refuse()
        assert "<search>" in said and "<answer>" in said
    with pytest.raises(ConfigError, match="did you mean 'search_r1'"):
        dialect("search-r1")


def test_a_passage_without_a_text() -> None:
    one = Passage("1", '"Title"')
    assert (one.title, one.text) == ('"Title"', "")
