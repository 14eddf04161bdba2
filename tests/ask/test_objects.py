"""JSON objects in what a model wrote."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.ask.objects import MAX_STARTS, find_objects, pick

BODY = '{"action":"take key","prediction":"You hold the key."}'
GOOD = {"action": "take key", "prediction": "You hold the key."}


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        f"Sure, here it is:\n```json\n{BODY}\n```",
        f"```\n{BODY}\n```",
        f"```JSON\r\n{BODY}\r\n```\r\nHope that helps {{really}}!",
        f"[{BODY}]",
        f"I think {{so}} and {{0}}: {BODY} done",
        BODY.replace("}", ",}"),
        "{'action': 'take key', 'prediction': 'You hold the key.'}",
        BODY.replace(",", ",\n  ").replace("{", "{\n"),
    ],
)
def test_one_object_in_any_wrapping(text: str) -> None:
    assert find_objects(text) == [GOOD]


def test_raw_line_breaks_and_backticks_inside_strings_stay() -> None:
    text = '```json\n{"action":"take key","prediction":"A sign: ```no entry```\nand a door"}\n```'
    assert find_objects(text)[0]["prediction"] == "A sign: ```no entry```\nand a door"


def test_commas_inside_strings_are_no_trailing_commas() -> None:
    assert find_objects('{"a": "x,}", "b": [1, 2,],}') == [{"a": "x,}", "b": [1, 2]}]


def test_a_cut_off_object_is_no_object() -> None:
    assert find_objects('{"action": "take key", "prediction": "You ho') == []
    assert find_objects('{"action": "take') == []
    assert find_objects("no braces at all") == []


def test_an_inner_object_of_a_cut_one_is_found_as_itself_only() -> None:
    assert find_objects('{"outer": {"action": "x"}') == [{"action": "x"}]


def test_rep_10_pairs_are_one_character_and_lone_surrogates_are_replaced() -> None:
    assert find_objects('{"a": "\\ud83d\\udd11"}') == [{"a": "\U0001f511"}]
    assert find_objects('{"a": "x\\ud83d", "\\udd11": 1}') == [{"a": "x\ufffd", "\ufffd": 1}]


def test_code_in_python_notation_is_not_run() -> None:
    assert find_objects("{'a': __import__('os').getcwd()}") == []
    assert find_objects("{'a'}") == []


def test_a_page_of_braces_ends_in_time() -> None:
    assert find_objects("{" * (MAX_STARTS * 50)) == []
    assert find_objects("{ x " * MAX_STARTS + BODY) == []


@given(
    st.dictionaries(st.text(max_size=6), st.text(max_size=20) | st.integers() | st.booleans(), max_size=4),
    st.text(alphabet=st.characters(exclude_characters="{", exclude_categories=["Cs"]), max_size=20),
    st.text(alphabet=st.characters(exclude_characters="{", exclude_categories=["Cs"]), max_size=20),
)
def test_every_object_is_read_back_from_between_prose(
    body: dict[str, object], before: str, after: str
) -> None:
    assert find_objects(before + json.dumps(body) + after) == [body]


@pytest.mark.parametrize("key", ["action", "Action", "ACTION", "actions", " action "])
def test_keys_match_in_any_case_and_number(key: str) -> None:
    assert pick([{key: "x"}], ["action"]) == {"action": "x"}


def test_the_fullest_object_wins_and_the_first_among_equals() -> None:
    draft, full, later = {"action": "a"}, {"action": "b", "thought": "t"}, {"action": "c", "thought": "u"}
    assert pick([draft, full, later], ["action", "thought"]) == full
    assert pick([{"other": 1}], ["action"]) is None
    assert pick([], ["action"]) is None


def test_a_wrapper_is_looked_into() -> None:
    assert pick([{"answer": {"Critical-Step": 3}}], ["critical_step"]) == {"critical_step": 3}
    assert pick([{"calls": [{"arguments": {"action": "x"}}]}], ["action"]) == {"action": "x"}


@pytest.mark.parametrize(
    "text",
    ['{"a":' * 400 + "1" + "}" * 399, "{" * 100_000, '{"a' * 30_000, "{'a': [" * 20_000, "{" + "'" * 99_999,
     '{"a":' * 20_000, "{'a': 1," * 12_000 + "}", '{"' + "\\" * 99_999],
    ids=range(8),
)  # fmt: skip
def test_long_and_broken_texts_take_no_longer_than_their_length(text: str) -> None:
    """Python's own parser took minutes for some; each start looked at the whole rest before."""
    start = time.process_time()
    assert len(find_objects(text)) <= 1
    assert time.process_time() - start < 5, (
        "of the processor's own time, so that a busy machine does not count"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{'a': 'it\\'s', 'b': True, 'c': None,}", {"a": "it's", "b": True, "c": None}),
        ("{'a': 'say \"x\"'}", {"a": 'say "x"'}),
        ("{'a': (1, 2)}", {"a": [1, 2]}),
        ("{'a': '\\x41\\u00e9\\n'}", {"a": "Aé\n"}),
        ('{"a": "it\\\'s", "b": "C:\\dir"}', {"a": "it's", "b": "C:\\dir"}),
        ('{"a": "True, (x)", }', {"a": "True, (x)"}),
    ],
)
def test_small_faults_and_python_s_notation_are_mended(text: str, found: dict[str, object]) -> None:
    assert find_objects(f"Here: {text} done") == [found]
