"""Bounds: all that is open in a schema ends, the grammar is compact, and what broke it is noticed."""

from __future__ import annotations

import json

import pytest

from roleagent_lite.errors import UnsupportedRequest
from roleagent_lite.lm.bounds import bounded, grammar, held


def test_strings_share_the_reply_and_keep_their_own_bounds() -> None:
    schema = {
        "type": "object",
        "properties": {
            "thought": {"type": "string"},
            "mode": {"enum": ["a", "b"]},
            "kind": {"type": "string", "enum": ["x"]},
            "short": {"type": "string", "maxLength": 5},
            "items": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "open": {"type": "array", "items": {"type": "integer"}},
        },
    }
    out = bounded(schema, 100)["properties"]
    # thought, short, two items and maybe: five strings over 200 letters
    assert out["thought"]["maxLength"] == 40
    assert out["short"]["maxLength"] == 5
    item = {"type": "string", "maxLength": 40, "minLength": 4}
    assert out["items"] == {"type": "array", "items": item, "maxItems": 2}
    assert out["maybe"]["anyOf"][0]["maxLength"] == 40
    assert "maxLength" not in out["kind"] and "maxLength" not in out["mode"]
    assert out["open"]["maxItems"] == 4
    assert "maxLength" not in schema["properties"]["thought"]  # type: ignore[index]


def test_no_open_string_may_be_empty() -> None:
    assert bounded({"type": "string"}, 50)["minLength"] == 4
    assert bounded({"type": "string", "maxLength": 2}, 50) == {
        "type": "string",
        "maxLength": 2,
        "minLength": 2,
    }
    assert "minLength" not in bounded({"type": "string", "enum": ["", "a"]}, 50)


def test_a_short_reply_still_has_room_for_a_word() -> None:
    assert bounded({"type": "string"}, 1)["maxLength"] == 16
    assert bounded({"type": "string", "minLength": 50}, 1)["maxLength"] == 50


def test_the_grammar_has_no_line_breaks_between_values() -> None:
    head, _, body = grammar({"type": "string"}).partition("%json ")
    assert head == "%llguidance {}\nstart: "
    spacing = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    assert json.loads(body) == {"type": "string", "x-guidance": spacing}


def test_a_reply_that_is_no_json_was_not_held() -> None:
    held('{"a": 1}')
    with pytest.raises(UnsupportedRequest, match="did not hold the reply to the schema"):
        held("Sure! Here is")
