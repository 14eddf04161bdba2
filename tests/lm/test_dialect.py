"""Bodies of OpenAI's chat dialect: what is sent, what is read, what a server was found not to take."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.errors import TransientModelError
from roleagent_lite.lm import dialect
from roleagent_lite.lm.dialect import Quirks
from roleagent_lite.lm.faults import Said
from roleagent_lite.types import Message, Usage
from tests.lm.kit import ask

SCHEMA = {"type": "object", "properties": {"action": {"type": "string"}}}


def said(content: Any, finish: Any = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content, **message}, "finish_reason": finish}]}


def test_a_body_holds_what_was_asked() -> None:
    request = ask(temperature=0.7, max_tokens=16, seed=3, schema=SCHEMA, module="act.v1")
    assert dialect.body(request, "m", Quirks()) == {
        "model": "m",
        "messages": [{"role": "system", "content": "You act."}, {"role": "user", "content": "Take the key."}],
        "max_tokens": 16,
        "temperature": 0.7,
        "seed": 3,
        "response_format": {"type": "json_schema", "json_schema": {"name": "act_v1", "schema": SCHEMA}},
    }


def test_a_body_leaves_out_what_the_server_does_not_take() -> None:
    quirks = Quirks(
        temperature=False, schema=False, seed=False, system=False, max_tokens="max_completion_tokens"
    )
    request = ask(temperature=0.7, max_tokens=16, seed=3, schema=SCHEMA)
    assert dialect.body(request, "m", quirks) == {
        "model": "m",
        "messages": [{"role": "user", "content": "You act.\n\nTake the key."}],
        "max_completion_tokens": 16,
    }


def test_rep_10_lone_surrogates_are_not_sent() -> None:
    body = dialect.body(ask("a\ud83d b"), "m", Quirks())
    assert body["messages"][1]["content"] == "a\ufffd b"


@pytest.mark.parametrize(
    ("error", "changed"),
    [
        (Said("Unsupported value", "unsupported_value", "temperature"), {"temperature": False}),
        (Said("'temperature' does not support 0 with this model"), {"temperature": False}),
        (
            Said("Use 'max_completion_tokens' instead.", "", "max_tokens"),
            {"max_tokens": "max_completion_tokens"},
        ),
        (Said("response_format is not supported"), {"schema": False}),
        (Said("failed to parse grammar"), {"schema": False}),
        (Said("extra field: seed not permitted"), {"seed": False}),
        (Said("Conversation roles must alternate user/assistant"), {"system": False}),
        (Said("System role not supported"), {"system": False}),
        (Said("Invalid value for 'top_k'", "", "top_k"), {}),
        (Said("temperature is fine, top_p is not", "", "top_p"), {}),
        (Said("bad request"), {}),
        (Said("the temperature of the oven in messages[1] is not allowed"), {}),
        (Said("`temperature` is deprecated for this model."), {"temperature": False}),
        (Said("Invalid value", "", "messages"), {}),
        (Said("This response_format type is unavailable now"), {"schema": False}),
        (Said("output_config.format: Extra inputs are not permitted"), {"schema": False}),
        (
            Said("Extra inputs are not permitted", "", "max_tokens"),
            {"max_tokens": "max_completion_tokens"},
        ),
        (Said("max_tokens is too large", "", "max_tokens"), {}),
        (Said("Only user and assistant roles are supported!"), {"system": False}),
    ],
)
def test_cfg_01_cfg_03_a_400_teaches_only_what_it_is_about(error: Said, changed: dict[str, Any]) -> None:
    quirks = Quirks()
    sent = dialect.body(ask(seed=1, schema=SCHEMA), "m", quirks)
    note = quirks.learn(error, sent)
    assert quirks == Quirks(**changed)
    assert (note is not None) == bool(changed)


def test_a_400_about_what_was_not_sent_teaches_nothing() -> None:
    quirks = Quirks(temperature=False)
    sent = dialect.body(ask(), "m", quirks)
    assert quirks.learn(Said("seed and schema and temperature"), sent) is None


roles = st.sampled_from(["system", "user", "assistant"])


@given(st.lists(st.tuples(roles, st.text(min_size=1, max_size=5)), min_size=1))
def test_cfg_03_folded_turns_alternate_and_lose_no_text(turns: list[tuple[Any, str]]) -> None:
    folded = dialect.fold([Message(role, text) for role, text in turns])
    assert all(a.role != b.role for a, b in pairwise(folded))
    assert "system" not in {m.role for m in folded}
    glue = "".join(m.content for m in folded).replace("\n", "")
    assert glue == "".join(text for _, text in turns).replace("\n", "")


def test_a_plain_reply() -> None:
    value = said("take key") | {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    reply = dialect.reply(value, 0.5)
    assert (reply.text, reply.finish, reply.reasoning, reply.seconds) == ("take key", "stop", None, 0.5)
    assert reply.usage == Usage(input=7, output=2)


def test_rep_03_thinking_in_content_or_in_its_own_field() -> None:
    assert dialect.reply(said("hm</think>\nX"), 0).reasoning == "hm"
    for name in ("reasoning_content", "reasoning"):
        reply = dialect.reply(said("X", **{name: "hm"}), 0)
        assert (reply.text, reply.reasoning) == ("X", "hm")
    both = dialect.reply(said("<think>b</think>X", reasoning_content="a"), 0)
    assert (both.text, both.reasoning) == ("X", "a\nb")


@pytest.mark.parametrize("content", ['{"action": "ta', None, ""])
def test_rep_07_a_cut_reply_says_length_whatever_is_in_it(content: str | None) -> None:
    reply = dialect.reply(said(content, "length"), 0)
    assert (reply.text, reply.finish) == (content or "", "length")


def test_rep_08_a_refusal_is_no_data() -> None:
    reply = dialect.reply(said(None, refusal="I can't help with that."), 0)
    assert (reply.text, reply.finish) == ("I can't help with that.", "refusal")
    assert dialect.reply(said("ok", refusal=None), 0).finish == "stop"


@pytest.mark.parametrize(
    ("word", "meant"),
    [("MAX_TOKENS", "length"), ("model_length", "length"), ("SAFETY", "content_filter"), ("eos", "stop"),
     (None, "stop"), ("end_turn", "stop"), ("whatever", "stop"), ("refusal", "refusal")],
)  # fmt: skip
def test_words_for_the_end_of_a_reply(word: str | None, meant: str) -> None:
    assert dialect.reply(said("x", word), 0).finish == meant


def test_net_03_a_reply_that_an_error_ended_is_cut() -> None:
    for word in ("error", "abort", "insufficient_system_resource"):
        with pytest.raises(TransientModelError, match="stream cut"):
            dialect.reply(said("take key", word), 0)


def test_thinking_and_refusals_in_parts_and_calls_in_place_of_text() -> None:
    nested = {"type": "thinking", "thinking": [{"type": "text", "text": "b"}]}
    plain = {"type": "text", "text": "X"}
    reply = dialect.reply(said([{"type": "reasoning", "text": "a"}, nested, plain]), 0)
    assert (reply.text, reply.reasoning) == ("X", "a\nb")
    assert dialect.reply(said([{"type": "refusal", "refusal": "No."}]), 0).finish == "refusal"
    call = {"function": {"name": "act", "arguments": '{"action": "x"}'}}
    assert dialect.reply(said(None, "tool_calls", tool_calls=[call]), 0).text == '{"action": "x"}'
    assert dialect.reply(said(None, tool_calls=[call, call]), 0).text == ""
    assert dialect.reply(said(None, function_call=call["function"]), 0).text == '{"action": "x"}'
    assert dialect.reply(said("Y", tool_calls=[call]), 0).text == "Y"


def test_odd_shapes() -> None:
    assert dialect.reply(said([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), 0).text == "ab"
    assert dialect.reply({"choices": [{"text": "bare", "finish_reason": "stop"}]}, 0).text == "bare"
    assert dialect.reply(said("x", "tool_calls"), 0).finish == "stop"
    assert dialect.reply(said("", "content_filter"), 0).finish == "content_filter"
    assert dialect.reply(said("x", None), 0).finish == "stop"
    values: list[dict[str, Any]] = [{}, {"choices": []}, {"choices": None}, {"choices": ["x"]}]
    for value in values:
        with pytest.raises(TransientModelError, match="no choice"):
            dialect.reply(value, 0)


@pytest.mark.parametrize(
    ("value", "usage"),
    [
        (None, Usage()),
        ({}, Usage()),
        ({"prompt_tokens": None}, Usage()),
        ({"input_tokens": 7, "output_tokens": 2}, Usage(7, 2)),
        ({"prompt_tokens": "7", "completion_tokens": -1}, Usage()),
        ({"prompt_tokens": True, "completion_tokens": 3}, Usage(output=3)),
        (
            {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8},
             "completion_tokens_details": {"reasoning_tokens": 2}},
            Usage(9, 4, 8, 2),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 5}, Usage(9, 4, 5)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": None}, Usage(9, 4)),
    ],
)  # fmt: skip
def test_acc_01_what_the_server_did_not_say_is_none(value: Any, usage: Usage) -> None:
    assert dialect.usage(value) == usage


def sse(*events: Any, done: bool = True) -> str:
    lines = [f"data: {json.dumps(e)}\n\n" for e in events]
    return ": ping\n\n" + "".join(lines) + ("data: [DONE]\n\n" if done else "")


def delta(text: str | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text, **more}, "finish_reason": finish}]}


def test_a_whole_stream_is_one_reply() -> None:
    text = sse(delta("<think>a</th", reasoning_content=None), delta("ink>take "), delta("key"),
               delta(None, "stop"),
               {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})  # fmt: skip
    reply = dialect.reply(dialect.join_stream(text), 0)
    assert (reply.text, reply.reasoning, reply.usage) == ("take key", "a", Usage(1, 2))


def test_net_03_a_stream_without_an_end_is_cut() -> None:
    with pytest.raises(TransientModelError, match="stream cut"):
        dialect.join_stream(sse(delta("take"), delta(" k"), delta("e"), done=False))
    assert dialect.join_stream(sse(delta("x"), done=True))["choices"][0]["finish_reason"] == "stop"
    assert (
        dialect.join_stream(sse(delta("x", "length"), done=False))["choices"][0]["finish_reason"] == "length"
    )


def test_net_03_an_error_event_in_a_stream_is_an_error() -> None:
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert dialect.join_stream(sse(delta("take"), event))["error"]["type"] == "overloaded_error"
    assert dialect.join_stream(sse({"type": "error", "message": "x"}))["error"]["message"] == "x"
    with pytest.raises(TransientModelError, match="stream cut"):
        dialect.join_stream("data: 7\n\n")


def test_net_03_an_event_that_cannot_be_read_is_not_skipped() -> None:
    whole = sse(delta("take"), delta(" key"), delta(None, "stop"))
    with pytest.raises(TransientModelError, match="not whole JSON"):
        dialect.join_stream(whole.replace('" key"', '" k'))


def test_a_text_with_other_line_ends_stays_whole_in_a_stream() -> None:
    event = json.dumps(delta("a\u2028b\x85c\x0bd", "stop"), ensure_ascii=False)
    for end in ("\n\n", "\r\n\r\n"):
        assert (
            dialect.reply(dialect.join_stream(f"data: {event}{end}data: [DONE]{end}"), 0).text[0::2] == "abcd"
        )
