"""Field cases NET: what goes wrong between us and a server, played through the whole product."""

from __future__ import annotations

import gzip
import json
import re
import time
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.errors import FatalModelError
from roleagent_lite.types import Observation, Transition
from tests.cases import kit
from tests.cases.kit import (
    DIALECTS,
    KEY,
    TAKE,
    command_line,
    evaluate,
    first,
    mostly_slow,
    of_task,
    text,
    won,
)
from tests.fake_server import (
    Answer,
    FakeServer,
    Raw,
    Say,
    Script,
    Seen,
    anthropic_fail,
    anthropic_stream,
    encode,
    fail,
    page,
    stream,
)
from tests.toy import Toy

SOLVED = ("solved", "")
CUT = ("infrastructure_error", "stream cut")


def once(answer: Answer) -> Script:
    """`answer` to the first request, good play from then on."""
    return lambda seen: answer if seen.number == 0 else won(seen)


def slow_down(dialect: str, **headers: str) -> Raw:
    if dialect == "anthropic":
        return anthropic_fail(429, "rate_limit_error", "slow down", **headers)
    return fail(429, "slow down", "rate_limit_exceeded", **headers)


# --- NET-01 ---


@pytest.mark.parametrize("dialect", mostly_slow(DIALECTS))
def test_net_01_the_wait_that_a_server_asks_for_is_kept(dialect: str, tmp_path: Path) -> None:
    with FakeServer(once(slow_down(dialect, Retry_After="2"))) as fake:
        played = evaluate(fake, tmp_path, dialect=dialect)
    assert played.ends == [SOLVED] and fake.count == 3
    assert 2.0 <= fake.requests[1].at - fake.requests[0].at <= 6.0


@pytest.mark.parametrize("dialect", mostly_slow(DIALECTS))
def test_net_01_a_wait_as_a_date_is_kept(dialect: str, tmp_path: Path) -> None:
    def script(seen: Seen) -> Answer:
        if seen.number:
            return won(seen)
        return slow_down(dialect, Retry_After=formatdate(time.time() + 3, usegmt=True))  # whole seconds

    with FakeServer(script) as fake:
        played = evaluate(fake, tmp_path, dialect=dialect)
    assert played.ends == [SOLVED]
    assert 1.9 <= fake.requests[1].at - fake.requests[0].at <= 6.0


WAITS = {
    "retry-after-ms": (fail(429, "slow", retry_after_ms="1500"), 1.5),
    "Groq": (
        fail(
            429,
            "Rate limit reached for model `x` in organization `o` on tokens per minute (TPM): "
            "Limit "
            "6000, Used 5900. Please try again in 1.5s. Need more tokens? Upgrade at "
            "https://console.groq.com/settings/billing",
            "rate_limit_exceeded",
        ),
        1.5,
    ),
    "OpenAI": (
        fail(
            429,
            "Rate limit reached for gpt-x on requests per min (RPM): Limit 3. Please try "
            "again in "
            "1500ms. You can increase your rate limit by adding a payment method to your account at "
            "https://platform.openai.com/account/billing.",
            "rate_limit_exceeded",
        ),
        1.5,
    ),
    "Gemini": (
        Raw(
            429,
            [
                {
                    "error": {
                        "code": 429,
                        "status": "RESOURCE_EXHAUSTED",
                        "message": "You exceeded your current quota, please check your plan and billing "
                        "details. "
                        "* Quota exceeded for metric: generate_content_free_tier_requests, limit: 10\n"
                        "Please retry in 1.5s.",
                        "details": [
                            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}
                        ],
                    }
                }
            ],
        ),
        1.5,
    ),
    "503 with a wait": (fail(503, "loading", Retry_After="1"), 1.0),
}


@pytest.mark.parametrize("name", mostly_slow(WAITS))
def test_net_01_other_ways_to_ask_for_a_wait(name: str, tmp_path: Path) -> None:
    answer, wait = WAITS[name]
    with FakeServer(once(answer)) as fake:
        played = evaluate(fake, tmp_path)
    assert played.ends == [SOLVED] and fake.count == 3
    assert wait <= fake.requests[1].at - fake.requests[0].at <= 6.0


@pytest.mark.parametrize("dialect", mostly_slow(DIALECTS))
def test_net_01_an_hour_is_not_slept_and_the_run_can_be_resumed(dialect: str, tmp_path: Path) -> None:
    def busy(seen: Seen) -> Answer:
        return slow_down(dialect, Retry_After="3600") if seen.number == 2 else won(seen)

    with FakeServer(busy) as fake:
        model = ("--model", DIALECTS[dialect].format(url=fake.url))
        said = command_line(fake, tmp_path, "--workers", "1", model=model, tasks=2)
        message = said.message(4, "asks to wait 3,600 s", "resume", fake.url)
        assert fake.count == 3 and "slow down" in message
        assert said.played().ends == [SOLVED]
        assert "(partial)" in said.played().report
        again = command_line(fake, tmp_path, "--workers", "1", model=model, tasks=2)
        assert again.code == 0, again.err
    assert again.played().ends == [SOLVED, SOLVED] and fake.count == 5


def test_net_01_a_day_in_words_is_no_retry(tmp_path: Path) -> None:
    daily = fail(429, "Rate limit reached on tokens per day (TPD). Please try again in 7h12m30.5s.")
    with FakeServer(lambda seen: daily) as fake:
        said = command_line(fake, tmp_path)
    said.message(4, "asks to wait 25,95", "resume")
    assert fake.count == 1


NO_CREDIT = {
    "OpenAI": fail(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
    ),
    "OpenAI with a header": fail(
        429, "You exceeded your current quota.", "insufficient_quota", Retry_After="1"
    ),
    "OpenAI's hard limit": fail(429, "Billing hard limit has been reached", "billing_hard_limit_reached"),
    "DeepSeek": fail(402, "Insufficient Balance", "invalid_request_error"),
    "OpenRouter": Raw(
        402,
        {
            "error": {
                "code": 402,
                "message": "Insufficient credits. Add more using https://openrouter.ai/settings/credits",
            }
        },
    ),
    "OpenRouter inside a 200": Raw(200, {"error": {"code": 402, "message": "Insufficient credits"}}),
    "Anthropic's wording": fail(
        400,
        "Your credit balance is too low to access the API. Please go to Plans & "
        "Billing to upgrade or purchase credits.",
        "invalid_request_error",
    ),
    "Mistral": Raw(
        429, {"message": "Inactive subscription or usage limit reached", "type": "payment_required"}
    ),
    "xAI": fail(
        403, "Your team has either used all available credits or reached its monthly spending limit."
    ),
    "bare": Raw(429, "quota exhausted: insufficient_quota", kind="text/plain"),
}


@pytest.mark.parametrize("name", NO_CREDIT)
def test_net_01_without_credit_one_request_is_enough(name: str, tmp_path: Path) -> None:
    with FakeServer(lambda seen: NO_CREDIT[name]) as fake:
        with pytest.raises(FatalModelError, match="no credit or quota left") as caught:
            evaluate(fake, tmp_path, tasks=3)
        assert fake.count == 1
    assert "resume" in str(caught.value)


def test_net_01_without_credit_in_anthropic_s_words(tmp_path: Path) -> None:
    low = anthropic_fail(400, "invalid_request_error", "Your credit balance is too low to access the API.")
    with FakeServer(lambda seen: low) as fake:
        model = ("--model", f"anthropic/fake@{fake.url}", "--workers", "1")
        said = command_line(fake, tmp_path, model=model, tasks=3)
    said.message(4, "no credit or quota left", "ANTHROPIC_API_KEY")
    assert fake.count == 1


# --- NET-03 ---

GOOD = {"choices": [{"message": {"role": "assistant", "content": TAKE}, "finish_reason": "stop"}]}
HALVES = ('{"action": "take', " k", 'ey"}')  # whole JSON, and yet no end
BROKEN: dict[str, Answer] = {
    "stream without an end": stream(HALVES, finish=None, done=False),
    "stream cut inside an event": Raw(
        200, stream(HALVES, finish=None, done=False).body[:-9], {}, "text/event-stream"
    ),
    "stream shorter than its length": Raw(200, stream(HALVES).body, {}, "text/event-stream", cut=90),
    "stream of chunks without the last": Raw(
        200, stream(HALVES, finish=None, done=False).body, {}, "text/event-stream", cut=150, chunked=True
    ),
    "body shorter than its length": Raw(200, GOOD, cut=60),
    "no body at all": Raw(200, GOOD, cut=0),
    "chunks without the last": Raw(200, GOOD, cut=60, chunked=True),
    "half the JSON": Raw(200, json.dumps(GOOD)[:60]),
    "an empty body": Raw(200, ""),
    "gzip cut off": Raw(
        200, gzip.compress(json.dumps(GOOD).encode(), mtime=0)[:50], {"Content-Encoding": "gzip"}
    ),
    "gzip that is none": Raw(200, GOOD, {"Content-Encoding": "gzip"}),
    "ended by an error": Say('{"action": "take key"}', "error"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_net_03_what_broke_off_is_not_used(name: str, tmp_path: Path) -> None:
    with FakeServer(of_task(1, BROKEN[name])) as fake:
        played = evaluate(fake, tmp_path, tasks=2)
    assert played.ends == [CUT, SOLVED]
    assert fake.count == 3 + 2 and played.moves["t1"] == [[]]
    assert "stream cut" in played.report


@pytest.mark.parametrize("dialect", ["groq", "anthropic"])
@pytest.mark.parametrize(
    "name",
    [
        "body shorter than its length",
        "no body at all",
        "chunks without the last",
        "half the JSON",
        "an empty body",
        "stream without an end",
    ],
)
def test_net_03_in_other_dialects(name: str, dialect: str, tmp_path: Path) -> None:
    broken = BROKEN[name]
    if dialect == "anthropic" and name != "an empty body" and isinstance(broken, Raw):
        whole = encode(Say(TAKE), "/v1/messages").body
        if name == "stream without an end":
            broken = anthropic_stream(HALVES, stop=None)
        else:
            body = json.dumps(whole)[:60] if name == "half the JSON" else whole
            broken = Raw(200, body, cut=broken.cut, chunked=broken.chunked)
    with FakeServer(of_task(1, broken)) as fake:
        played = evaluate(fake, tmp_path, tasks=2, dialect=dialect)
    assert played.ends == [CUT, SOLVED]
    assert fake.count == 3 + 2 and played.moves["t1"] == [[]]


def test_net_03_a_cut_then_a_whole_reply(tmp_path: Path) -> None:
    with FakeServer(once(BROKEN["stream without an end"])) as fake:
        assert evaluate(fake, tmp_path).ends == [SOLVED]
    assert fake.count == 3


OVERLOADED: dict[str, tuple[str, Answer]] = {
    "event in a stream": ("openai", anthropic_stream(["take"], error="overloaded_error")),
    "OpenAI's stream": (
        "openai",
        stream(["take"], finish=None, done=False, last={"error": {"message": "overloaded", "code": 502}}),
    ),
    "object in a 200": ("openai", anthropic_fail(200, "overloaded_error")),
    "text in a 200": ("openai", Raw(200, {"error": "model is loading, try again"})),
    "error beside no choices": (
        "openai",
        Raw(200, {"choices": [], "error": {"message": "busy", "code": 503}}),
    ),
    "error inside the choice": (
        "openai",
        Raw(
            200,
            {
                "choices": [
                    {
                        "finish_reason": "error",
                        "message": {"content": TAKE},
                        "error": {"code": 502, "message": "upstream"},
                    }
                ]
            },
        ),
    ),
    "event in a stream, Anthropic": ("anthropic", anthropic_stream(["take"], error="overloaded_error")),
    "object in a 200, Anthropic": ("anthropic", anthropic_fail(200, "overloaded_error")),
    "529, Anthropic": ("anthropic", anthropic_fail(529, "overloaded_error", "Overloaded")),
    "500, Anthropic": ("anthropic", anthropic_fail(500, "api_error", "Internal server error")),
    "object in a 200, groq": ("groq", Raw(200, {"error": {"message": "over capacity", "code": 503}})),
    "text in a 200, groq": ("groq", Raw(200, {"error": "over capacity"})),
}


@pytest.mark.parametrize("name", OVERLOADED)
def test_net_03_an_error_inside_a_200_is_an_error(name: str, tmp_path: Path) -> None:
    dialect, answer = OVERLOADED[name]
    with FakeServer(once(answer)) as fake:
        played = evaluate(fake, tmp_path, dialect=dialect)
    assert played.ends == [SOLVED] and fake.count == 3
    with FakeServer(of_task(1, answer)) as fake:
        played = evaluate(fake, tmp_path, tasks=2, dialect=dialect, run="always")
    assert [kind for kind, _ in played.ends] == ["infrastructure_error", "solved"]
    assert fake.count == 3 + 2 and played.moves["t1"] == [[]]


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 524, 529])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_net_03_a_proxy_s_error_page_is_tried_again(status: int, dialect: str, tmp_path: Path) -> None:
    if dialect != "openai" and status not in (409, 502, 524):
        pytest.skip("three are enough here")
    with FakeServer(of_task(1, page(status, f"{status} Bad Gateway"))) as fake:
        played = evaluate(fake, tmp_path, tasks=2, dialect=dialect)
    assert played.ends == [("infrastructure_error", "provider"), SOLVED]
    assert fake.count == 3 + 2
    said = str(played.trajectories[0].error)
    assert f"{status} Bad Gateway" in said and "<" not in said and "color: red" not in said
    assert played.notes == [], "a page teaches nothing about the server"


ODD: dict[str, Answer] = {
    "BOM": Raw(200, b"\xef\xbb\xbf" + json.dumps(GOOD).encode()),
    "gzip": Raw(200, gzip.compress(json.dumps(GOOD).encode()), {"Content-Encoding": "gzip"}),
    "text/plain": Raw(200, GOOD, kind="text/plain"),
    "text/html": Raw(200, GOOD, kind="text/html"),
    "no content type": Raw(200, GOOD, kind=""),
    "JSON said to be a stream": Raw(200, GOOD, kind="text/event-stream"),
    "a stream said to be JSON": Raw(200, stream(HALVES).body),
    "a stream with CRLF": Raw(200, stream(HALVES).body.replace("\n", "\r\n"), kind="text/event-stream"),
    "a stream after white space": Raw(200, "\n\n" + json.dumps(GOOD)),
    "chunks": Raw(200, GOOD, chunked=True),
    "latin-1 in a header's charset": Raw(200, GOOD, kind="application/json; charset=latin-1"),
    "a tool call": Say(
        None,
        "tool_calls",
        message={
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "act", "arguments": TAKE}}]
        },
    ),
    "content as an object": Say(None, message={"content": {"type": "text", "text": TAKE}}),
    "content as parts": Say(
        None,
        message={
            "content": [{"type": "text", "text": '{"action": '}, {"type": "text", "text": '"take key"}'}]
        },
    ),
    "content as bare texts": Say(None, message={"content": ['{"action": ', '"take key"}']}),
    "finish null": Say(TAKE, None),
    "finish eos": Say(TAKE, "eos"),
    "finish eos_token": Say(TAKE, "eos_token"),
    "finish end_turn": Say(TAKE, "end_turn"),
    "finish STOP": Say(TAKE, "STOP"),
    "two choices": Raw(200, {"choices": [*GOOD["choices"], *GOOD["choices"]]}),
    "error null": Raw(200, {**GOOD, "error": None}),
    "ninety-nine headers": Raw(200, GOOD, {f"x-{n}": "y" for n in range(99)}),
}


@pytest.mark.parametrize("name", ODD)
def test_net_03_whole_replies_of_odd_servers_are_used(name: str, tmp_path: Path) -> None:
    with FakeServer(first(ODD[name])) as fake:
        played = evaluate(fake, tmp_path)
    assert played.ends == [SOLVED] and fake.count == 2


@pytest.mark.parametrize(
    "name",
    [
        "text/plain",
        "chunks",
        "a tool call",
        "content as parts",
        "finish null",
        "finish eos",
        "finish STOP",
        "error null",
        "gzip",
        "BOM",
    ],
)
def test_net_03_the_same_through_dspy_s_client(name: str, tmp_path: Path) -> None:
    with FakeServer(first(ODD[name])) as fake:
        played = evaluate(fake, tmp_path, dialect="groq")
    assert played.ends == [SOLVED] and fake.count == 2


def test_net_03_a_web_page_in_place_of_a_model_ends_the_run(tmp_path: Path) -> None:
    with FakeServer(lambda seen: page(200, "Open WebUI")) as fake:
        said = command_line(fake, tmp_path, tasks=5)
    said.message(4, "web page", "base_url", fake.url)
    assert fake.count <= 5


# --- NET-05 ---

TOO_LONG: dict[str, tuple[str, Raw]] = {
    "OpenAI's code": ("openai", fail(400, "no", "context_length_exceeded")),
    "bare text": ("openai", Raw(400, "the input is longer than the model's context", kind="text/plain")),
    "the prompt is too long": ("openai", fail(400, "The prompt is too long")),
    "vLLM": (
        "openai",
        Raw(
            400,
            {
                "object": "error",
                "code": 400,
                "message": "This model's maximum context "
                "length "
                "is 2048 tokens. However, you requested 2100 tokens (2036 in the messages, 64 in the "
                "completion). "
                "Please reduce the length of the messages or completion.",
            },
        ),
    ),
    "vLLM, newer": (
        "openai",
        fail(
            400,
            "'max_tokens' or 'max_completion_tokens' is too large: 1024. This "
            "model's "
            "maximum context length is 512 tokens and your request has 400 input tokens",
        ),
    ),
    "vLLM, newest": (
        "openai",
        fail(
            400,
            "The decoder prompt (length 9000) is longer than the maximum model "
            "length of 2048. Make sure that `max_model_len` is no smaller than the "
            "number of text tokens.",
        ),
    ),
    "SGLang": (
        "openai",
        fail(400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
    ),
    "TGI": (
        "openai",
        Raw(
            422,
            {
                "error": "Input validation error: `inputs` tokens + `max_new_tokens` must "
                "be <= "
                "4096. Given: 4000 `inputs` tokens and 1024 `max_new_tokens`",
                "error_type": "validation",
            },
        ),
    ),
    "llama.cpp": (
        "openai",
        fail(
            400,
            "the request exceeds the available context size. try increasing the "
            "context size or enable context shift",
            "exceed_context_size_error",
        ),
    ),
    "LM Studio": (
        "openai",
        Raw(
            400,
            {
                "error": "Trying to keep the first 5000 tokens when context the "
                "overflows. "
                "However, the model is loaded with context length of only 4096 "
                "tokens"
            },
        ),
    ),
    "Gemini": (
        "openai",
        fail(400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    ),
    "xAI": (
        "openai",
        fail(400, "This model's maximum prompt length is 131072 but the request contains 150000 tokens."),
    ),
    "Groq": (
        "groq",
        fail(
            413,
            "Request too large for model `x` on tokens per minute (TPM): Limit 6000, "
            "Requested "
            "9000, please reduce your message size and try again.",
            "rate_limit_exceeded",
        ),
    ),
    "Bedrock": ("openai", fail(400, "Input is too long for requested model.")),
    "Cohere": (
        "openai",
        Raw(
            400,
            {"message": "too many tokens: total number of tokens in the prompt exceeds the limit of 4081"},
        ),
    ),
    "Anthropic": (
        "anthropic",
        anthropic_fail(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    ),
    "Anthropic, the sum": (
        "anthropic",
        anthropic_fail(
            400,
            "invalid_request_error",
            "input length and "
            "`max_tokens` exceed context limit: 198000 + 8192 > 200000, decrease input "
            "length or "
            "`max_tokens` and try again",
        ),
    ),
    "Anthropic, bytes": (
        "anthropic",
        anthropic_fail(413, "request_too_large", "Request exceeds the maximum size"),
    ),
    "groq through DSPy": (
        "groq",
        fail(400, "Please reduce the length of the messages or completion.", "context_length_exceeded"),
    ),
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_net_05_every_wording_ends_the_task_as_context(name: str, tmp_path: Path) -> None:
    dialect, answer = TOO_LONG[name]
    with FakeServer(of_task(1, answer)) as fake:
        played = evaluate(fake, tmp_path, tasks=2, dialect=dialect)
    assert played.ends == [("cut_off", "context"), SOLVED]
    assert [kit.goal(s) for s in fake.requests] == ["1", "2", "2"], "sent again"
    assert "| cut_off | context | 1 |" in played.report
    assert played.notes == [], "a long prompt teaches nothing about the server"


@pytest.mark.parametrize(
    "answer",
    [
        fail(400, "Invalid value for 'tool_choice'."),
        fail(400, "messages: at least one message is required"),
        Raw(400, "bad request", kind="text/plain"),
        fail(400, "max_tokens is too large: 400000. This model supports at most 16384 completion tokens"),
    ],
    ids=["field", "messages", "bare", "max_tokens"],
)
def test_net_05_an_unrelated_400_is_not_about_length(answer: Raw, tmp_path: Path) -> None:
    with FakeServer(of_task(1, answer)) as fake:
        played = evaluate(fake, tmp_path, tasks=2)
    assert played.ends == [("infrastructure_error", "provider"), SOLVED]
    assert fake.count == 1 + 2


class Corridor(Toy):
    """A long way, each door of which is told at length."""

    max_steps = 8
    history = 6
    listed = ()

    def observe(self) -> Any:
        return Observation(f"Door {len(self.moves)}. " + "It is dark. " * 20, (), str(len(self.moves)))

    def step(self, action: str) -> Any:
        self.moves.append(action)
        self.won = len(self.moves) == 6
        return Transition(self.observe(), float(self.won), self.won)


def corridor(limit: int) -> Script:
    """A server whose context holds `limit` characters."""

    def script(seen: Seen) -> Answer:
        if sum(len(m["content"]) for m in seen.body["messages"]) > limit:
            return fail(400, "too much", "context_length_exceeded")
        return Say(json.dumps({"action": f"open door {len(re.findall('> open', text(seen)))}"}))

    return script


def test_net_05_with_trimming_the_next_request_is_shorter_and_holds_what_matters(tmp_path: Path) -> None:
    with FakeServer(corridor(1500)) as fake:
        played = evaluate(fake, tmp_path, world="tests.cases.test_net:Corridor", limits={"trim": True})
    assert played.ends == [SOLVED]
    system = fake.requests[0].body["messages"][0]
    bodies = [json.dumps(seen.body) for seen in fake.requests]
    assert len(set(bodies)) == len(bodies), "an identical request was sent again"
    assert fake.count > 6
    sizes = [sum(len(m["content"]) for m in seen.body["messages"]) for seen in fake.requests]
    for size, after in pairwise(sizes):
        assert size <= 1500 or after < size
    door = 0
    for seen, size in zip(fake.requests, sizes, strict=True):
        assert seen.body["messages"][0] == system
        last = seen.body["messages"][-1]["content"]
        assert "Get out of hall number 1." in last and f"You see:\nDoor {door}." in last
        door += size <= 1500
    assert any("shorter" in note for note in played.notes), played.notes


def test_net_05_without_trimming_the_task_ends_and_the_setting_is_named(tmp_path: Path) -> None:
    with FakeServer(corridor(1500)) as fake:
        played = evaluate(fake, tmp_path, world="tests.cases.test_net:Corridor")
    assert played.ends == [("cut_off", "context")]
    assert "limits.trim" in str(played.trajectories[0].error)
    assert "limits.trim" in played.report


def test_net_05_what_cannot_be_shortened_ends_as_context(tmp_path: Path) -> None:
    with FakeServer(corridor(100)) as fake:
        played = evaluate(fake, tmp_path, world="tests.cases.test_net:Corridor", limits={"trim": True})
    assert played.ends == [("cut_off", "context")] and fake.count == 1


# --- NET-07 ---

WRONG: dict[str, tuple[str, Raw, str]] = {
    "OpenAI": (
        "openai",
        fail(401, f"Incorrect API key provided: {KEY}.", "invalid_api_key"),
        "OPENAI_API_KEY",
    ),
    "a page": ("openai", page(401, "401 Authorization Required"), "OPENAI_API_KEY"),
    "403": ("openai", fail(403, "You do not have access to this model"), "OPENAI_API_KEY"),
    "groq": ("groq", fail(401, "Invalid API Key", "invalid_api_key"), "GROQ_API_KEY"),
    "Anthropic": (
        "anthropic",
        anthropic_fail(401, "authentication_error", "invalid x-api-key"),
        "ANTHROPIC_API_KEY",
    ),
    "Anthropic, 403": (
        "anthropic",
        anthropic_fail(403, "permission_error", "no access"),
        "ANTHROPIC_API_KEY",
    ),
    "Gemini's 400": (
        "openai",
        Raw(
            400,
            [
                {
                    "error": {
                        "code": 400,
                        "message": "API key not valid. Please pass a valid API key.",
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ],
        ),
        "OPENAI_API_KEY",
    ),
    "inside a 200": (
        "openai",
        Raw(200, {"error": {"code": 401, "message": "User not found."}}),
        "OPENAI_API_KEY",
    ),
}


@pytest.mark.parametrize("name", mostly_slow(WRONG))
def test_net_07_a_wrong_key_stops_fifty_tasks_at_eight_requests(name: str, tmp_path: Path) -> None:
    dialect, answer, variable = WRONG[name]
    with FakeServer(lambda seen: answer, latency=0.02) as fake:
        model = ("--model", DIALECTS[dialect].format(url=fake.url))
        said = command_line(fake, tmp_path, "--workers", "8", model=model, tasks=50, env={variable: KEY})
    message = said.message(4, variable, KEY[-4:])
    assert 1 <= fake.count <= 8
    for place in (said.out, said.err, kit.everything(tmp_path)):
        assert KEY not in place and KEY[3:-4] not in place
    assert message.count(KEY[-4:]) == 1


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai/gpt-x", "OPENAI_API_KEY"),
        ("anthropic/claude-x", "ANTHROPIC_API_KEY"),
        ("gemini/x", "GEMINI_API_KEY"),
        ("gpt-x", "OPENAI_API_KEY"),
    ],
)
def test_net_07_no_key_is_said_before_any_request(model: str, variable: str, tmp_path: Path) -> None:
    with FakeServer() as fake:
        said = command_line(fake, tmp_path, model=("--model", model))
        assert fake.count == 0
    said.message(2, variable)


# --- NET-09 ---

FILTERED: dict[str, tuple[str, Answer]] = {
    "OpenAI's code": ("openai", fail(400, "no", "content_filter")),
    "Azure": (
        "openai",
        Raw(
            400,
            {
                "error": {
                    "code": "content_filter",
                    "param": "prompt",
                    "message": "The response "
                    "was filtered due to the prompt triggering Azure OpenAI's content management policy.",
                    "innererror": {"code": "ResponsibleAIPolicyViolation"},
                }
            },
        ),
    ),
    "a rate limit's status": (
        "openai",
        fail(429, "flagged by our content filter", "content_policy_violation"),
    ),
    "OpenRouter": (
        "openai",
        Raw(
            403,
            {
                "error": {
                    "code": 403,
                    "message": "Your chosen model requires moderation and your input was flagged",
                    "metadata": {"reasons": ["violence"]},
                }
            },
        ),
    ),
    "Alibaba": (
        "openai",
        fail(400, "Input data may contain inappropriate content.", "data_inspection_failed"),
    ),
    "finish": ("openai", Say("", "content_filter")),
    "finish with null": ("openai", Say(None, "content_filter")),
    "finish with half a text": ("openai", Say('{"action": "take', "content_filter")),
    "Gemini's word": ("openai", Say(None, "SAFETY")),
    "Gemini's word, groq": ("groq", Say(None, "PROHIBITED_CONTENT")),
    "groq": ("groq", Say(None, "content_filter")),
    "groq, 400": ("groq", fail(400, "no", "content_filter")),
    "Anthropic, 400": (
        "anthropic",
        anthropic_fail(400, "invalid_request_error", "Output blocked by content filtering policy"),
    ),
}


@pytest.mark.parametrize("name", FILTERED)
def test_net_09_one_filtered_task_of_twenty(name: str, tmp_path: Path) -> None:
    dialect, answer = FILTERED[name]
    with FakeServer(of_task(7, answer)) as fake:
        played = evaluate(fake, tmp_path, tasks=20, dialect=dialect, workers=4)
    assert played.ends == [SOLVED] * 6 + [("cut_off", "filtered")] + [SOLVED] * 13
    assert sum(kit.goal(seen) == "7" for seen in fake.requests) == 1
    assert fake.count == 1 + 19 * 2 and played.moves["t7"] == [[]]
    assert "19 of 20" in played.report
    assert "| cut_off | filtered | 1 | reply cut, refused or filtered: counts 0 |" in played.report
    assert "| solved | - | 19 | counts 1 |" in played.report


def test_net_09_on_the_command_line(tmp_path: Path) -> None:
    with FakeServer(of_task(7, FILTERED["OpenAI's code"][1])) as fake:
        said = command_line(fake, tmp_path, tasks=20)
    assert said.code == 0, said.err
    assert "19 of 20" in said.out
