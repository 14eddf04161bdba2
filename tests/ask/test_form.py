"""The form of a reply as a schema and in words."""

from __future__ import annotations

import json

from roleagent_lite.ask.form import MAX_ENUM, reply_form, schema, wanted
from roleagent_lite.ask.prompts import Output, load_prompts

ACT = load_prompts("v1").module("act").outputs


def test_the_schema_names_all_outputs_in_order_and_allows_nothing_else() -> None:
    form = schema(ACT, {"action": ("take key", "open door", "take key")}, {"predictions": 3})
    assert list(form["properties"]) == form["required"] == ["thought", "action", "predictions"]
    assert form["additionalProperties"] is False
    assert form["properties"]["action"] == {"type": "string", "enum": ["take key", "open door"]}
    assert form["properties"]["predictions"] == {
        "type": "array", "items": {"type": "string", "maxLength": 420}, "minItems": 3, "maxItems": 3,
    }  # fmt: skip
    json.dumps(form)


def test_a_huge_or_empty_set_of_values_is_no_enum() -> None:
    many = tuple(f"go {i}" for i in range(MAX_ENUM + 1))
    assert schema(ACT, {"action": many}, {})["properties"]["action"] == {"type": "string"}
    assert schema(ACT, {"action": ()}, {})["properties"]["action"] == {"type": "string"}
    assert "enum" in schema(ACT, {"action": many[:-1]}, {})["properties"]["action"]


def test_an_open_enum_does_not_hold_the_model_to_it() -> None:
    diagnose = load_prompts("v1").module("diagnose").outputs
    mode = schema(diagnose, {"mode": ("navigation_loop", "other")}, {})["properties"]["mode"]
    assert "enum" not in mode and mode["type"] == "string"


def test_objects_and_numbers_have_their_types() -> None:
    chosen = schema(load_prompts("v1").module("retrieve").outputs, {"id": ("t1", "t2")}, {})
    item = chosen["properties"]["chosen"]["items"]
    assert item["properties"]["id"] == {"type": "string", "enum": ["t1", "t2"]}
    assert item["required"] == ["id", "reason"]
    diagnose = schema(load_prompts("v1").module("diagnose").outputs, {}, {})
    assert diagnose["properties"]["critical_step"] == {"type": "integer"}
    assert schema(load_prompts("v1").module("judge").outputs, {}, {})["properties"]["score"] == {
        "type": "number"
    }


def test_a_count_of_zero_leaves_an_output_out() -> None:
    assert [o.name for o in wanted(ACT, {"predictions": 0})] == ["thought", "action"]
    assert wanted(ACT, {"predictions": 1}) == ACT == wanted(ACT, None)


def test_the_words_are_json_and_tell_limits_and_length() -> None:
    shown = json.loads(reply_form(ACT, {"predictions": 3}))
    assert list(shown) == ["thought", "action", "predictions"]
    assert len(shown["predictions"]) == 3 and "3 steps on" in shown["predictions"][2]
    assert "at most 60 words" in shown["predictions"][0]
    assert json.loads(reply_form(ACT))["predictions"][1] == "..."


def test_scales_and_kinds_are_told() -> None:
    outputs = (
        Output("score", "number", "agreement", low=0.0, high=1.0),
        Output("step", "integer", required=False),
        Output("rows", "list[object]", fields=(Output("id", "string", "which"),)),
    )
    shown = json.loads(reply_form(outputs))
    assert shown == {
        "score": "<agreement; a number from 0 to 1>",
        "step": "<step; a whole number; may be empty>",
        "rows": [{"id": "<which>"}, "..."],
    }
