"""group: by key, by text; the first fitting group wins, strictly above the bar."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.types import Step
from roleagent_lite.wia.group import STATES, by_key, by_text, has_keys


def rollouts(*states: str) -> list[list[Step]]:
    """One rollout a string, one step a word; "text@key" gives a key."""

    def step(word: str) -> Step:
        text, _, key = word.partition("@")
        return Step(observation=text, action="look", outcome="", state_key=key or None)

    return [[step(w) for w in words.split()] for words in states]


def test_equal_states_whatever_the_step_and_repeats_included() -> None:
    assert by_text(rollouts("a b a", "b c"), 1.0) == [(0, 1, 0), (1, 2)]
    assert by_text(rollouts("", "a"), 0.9) == [(), (0,)]
    assert by_text([], 0.9) == []


def test_alike_means_strictly_above_the_bar() -> None:
    # 9 of 10 letters in place: LMS is exactly 0.9
    assert by_text(rollouts("abcdefghij", "abcdefghiX"), 0.9) == [(0,), (1,)]
    assert by_text(rollouts("abcdefghij", "abcdefghiX"), 0.899) == [(0,), (0,)]
    assert by_text(rollouts("abcdefghij", "abcdefghij"), 1.0) == [(0,), (0,)]
    assert by_text(rollouts("abcdefghij", "abcdefghiX"), 1.0) == [(0,), (1,)]


def test_compared_with_the_first_member_only() -> None:
    chain = rollouts("abcdefghijklmnopqrst abcdefghijklmnopqrsX abcdefghijklmnopqrXX abcdefghijklmnopqXXX")
    # 0.95 and 0.90 from the first member; the third is 0.95 from the second, which is not asked
    assert by_text(chain, 0.9) == [(0, 0, 1, 1)]


def test_the_first_group_that_fits_wins_even_over_an_equal_later_one() -> None:
    texts = ["aaaaaaaaaabbbbbbbbbb", "aaaaaaaabbbbbbbbbbbb", "aaaaaaaaabbbbbbbbbbb"]
    # the third is 0.95 from both first members; were it to open nothing, it joins the first
    assert by_text(rollouts(" ".join(texts)), 0.93) == [(0, 1, 0)]
    assert by_text(rollouts(" ".join([*texts, texts[2]])), 0.93) == [(0, 1, 0, 0)]


def test_texts_of_unequal_length_are_told_apart_by_length_alone() -> None:
    assert by_text(rollouts("a" * 10, "a" * 14), 0.8) == [(0,), (0,)]  # 20/24 = 0.83
    assert by_text(rollouts("a" * 10, "a" * 14), 0.9) == [(0,), (1,)]
    assert by_text(rollouts("a" * 14, "a" * 10), 0.8) == [(0,), (0,)]


def test_no_matching_where_the_lengths_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []

    def count(state: str, member: str) -> float:
        compared.append((len(state), len(member)))
        return 0.0

    monkeypatch.setattr("roleagent_lite.wia.group.lms", count)
    texts = [letter * length for letter, length in zip("abcde", (20, 24, 25, 10, 18), strict=True)]
    by_text(rollouts(" ".join(texts)), 0.9)
    # twice the shorter over both: 40/44, 48/49 and 36/38 may be over 0.9, all others cannot
    assert compared == [(24, 20), (25, 24), (18, 20)]
    compared.clear()
    by_text(rollouts("aaaaaaaaa bbbbbbbbbbb"), 0.9)  # 18/20: at most the bar itself
    by_text(rollouts("aaaa aaaa", "aaaa"), 0.5)  # equal texts
    assert compared == []


def test_empty_observations_are_one_state() -> None:
    empty = Step(observation="", action="look", outcome="")
    assert by_text([[empty], [empty, Step(observation="x", action="", outcome="")]], 0.0) == [(0,), (0, 1)]


@given(st.lists(st.lists(st.text("ab c", max_size=8), max_size=4), max_size=4), st.floats(0, 1))
def test_against_the_rule_written_plainly(texts: list[list[str]], bar: float) -> None:
    first: list[str] = []
    wanted = []
    for rollout in texts:
        ids = []
        for state in rollout:
            for number, member in enumerate(first):
                ratio = difflib.SequenceMatcher(None, state, member, False).ratio()
                if ratio > bar or state == member:
                    ids.append(number)
                    break
            else:
                first.append(state)
                ids.append(len(first) - 1)
        wanted.append(tuple(ids))
    given_steps = [[Step(observation=s, action="", outcome="") for s in rollout] for rollout in texts]
    assert by_text(given_steps, bar) == wanted


def test_by_key_ignores_the_text_and_the_bar() -> None:
    assert by_key(rollouts("x@1 x@2", "y@1 z@3"), 0.0) == [(0, 1), (0, 2)]


def test_by_key_needs_a_key_on_every_step() -> None:
    mixed = rollouts("x@1 x@2", "x y@2")
    assert not has_keys(mixed)
    assert by_key(mixed, 0.9) == [(0, 0), (0, 1)] == by_text(mixed, 0.9)
    assert has_keys(rollouts("x@1", "y@2"))


def test_an_empty_key_is_a_key() -> None:
    keyed = [[Step(observation=o, action="", outcome="", state_key="") for o in ("x", "y")]]
    assert by_key(keyed, 0.9) == [(0, 0)]


@pytest.mark.parametrize("name", ["key", "text"])
def test_the_names_of_the_config_exist(name: str) -> None:
    assert STATES[name]([], 0.9) == []
