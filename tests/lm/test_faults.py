"""What servers say is sorted into: again, never again, too long, filtered, not taken."""

from __future__ import annotations

import json
import time
from email.utils import formatdate

import pytest

from roleagent_lite import redact
from roleagent_lite.config import Limits
from roleagent_lite.errors import (
    ContentFiltered,
    ContextTooLong,
    FatalModelError,
    ModelError,
    TransientModelError,
    UnsupportedRequest,
)
from roleagent_lite.lm import faults
from roleagent_lite.lm.address import parse

ADDRESS = parse("fake", Limits(base_url="http://127.0.0.1:1"), {"OPENAI_API_KEY": "sk-secret-0123456789WXYZ"})
URL = "http://127.0.0.1:1/v1/chat/completions"


def error(status: int, body: object, **headers: str) -> ModelError:
    text = body if isinstance(body, str) else json.dumps(body)
    return faults.classify(status, headers, text, ADDRESS, URL)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "no", "code": "context_length_exceeded", "type": "invalid_request_error"}},
        {"error": {"message": "The input (9000 tokens) is longer than the model's context length (8192)."}},
        {"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000"}},
        {"error": {"code": 400, "type": "exceed_context_size_error",
                   "message": "request (731 tokens) exceeds the available context size (512 tokens)"}},
        {"object": "error", "message": "This model's maximum context length is 2048 tokens.", "code": 400},
        {"detail": "Input validation error: `inputs` must have less than 4096 tokens: input is too long"},
        "the input is longer than the model's context",
        "The prompt is too long",
        {"error": "Please reduce the length of the messages."},
    ],
)  # fmt: skip
def test_net_05_many_wordings_of_too_long(body: object) -> None:
    assert type(error(400, body)) is ContextTooLong


def test_net_05_an_unrelated_400_is_not_too_long() -> None:
    for body in (
        {"error": {"message": "Invalid value for 'tool_choice'."}},
        "bad request",
        {"error": "long live"},
    ):
        assert type(error(400, body)) is UnsupportedRequest
    assert type(error(413, "")) is ContextTooLong
    assert type(error(500, "the prompt is too long")) is ContextTooLong


def test_net_07_a_wrong_key_is_fatal_and_its_source_named() -> None:
    fault = error(401, {"error": {"message": "Incorrect API key provided: sk-secret-0123456789WXYZ"}})
    assert isinstance(fault, FatalModelError) and fault.fatal
    assert "the key from OPENAI_API_KEY (…WXYZ)" in str(fault)
    assert "sk-secret" not in str(fault)
    no_key = parse("fake", Limits(base_url="http://127.0.0.1:1"), {})
    assert "no key was sent (none in OPENAI_API_KEY)" in str(faults.classify(401, {}, "", no_key, URL))


@pytest.mark.parametrize("status", [402, 403, 429])
def test_net_01_no_credit_is_never_tried_again(status: int) -> None:
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    fault = error(status, body)
    assert fault.fatal
    if status != 403:
        assert "no credit or quota left" in str(fault)
    assert error(402, {"error": {"message": "pay"}}).fatal


def test_net_01_waits_in_seconds_milliseconds_and_as_a_date() -> None:
    assert faults.retry_after({"Retry-After": "2"}) == 2.0
    assert faults.retry_after({"retry-after": "0.5", "retry-after-ms": "250"}) == 0.25
    now = time.time()
    asked = faults.retry_after({"RETRY-AFTER": formatdate(now + 30, usegmt=True)}, now)
    assert asked is not None and 28.9 <= asked <= 30
    assert faults.retry_after({"Retry-After": formatdate(now - 30, usegmt=True)}, now) == 0.0
    assert faults.retry_after({"Retry-After": "soon"}) is None
    assert faults.retry_after({}) is None
    fault = error(429, "slow down", **{"Retry-After": "7"})
    assert type(fault) is TransientModelError and (fault.status, fault.retry_after) == (429, 7.0)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_the_server_s_own_troubles_are_transient(status: int) -> None:
    assert type(error(status, "<html><body>Bad gateway</body></html>")) is TransientModelError


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Please try again in 1.5s.", 1.5),
        ("Please try again in 20ms", 0.02),
        ("try again in 7m12.5s", 432.5),
        ("try again in 1h0m30s", 3630.0),
        ("Please retry after 60 seconds", 60.0),
        ("retry in 2 minutes", 120.0),
        ('{"retryDelay": "34s"}', 34.0),
        ("please try again later", None),
        ("retried 3 times; wait 10 minutes for the oven", None),
    ],
)
def test_net_01_a_wait_in_words(words: str, seconds: float | None) -> None:
    assert faults.wait_in(words) == seconds
    asked = error(429, words).retry_after
    assert asked == seconds
    assert error(500, words).retry_after is None, "a server that broke may echo anything"


def test_net_01_gemini_s_full_minute_is_no_empty_purse() -> None:
    words = "You exceeded your current quota, please check your plan and billing details."
    assert error(429, words).fatal
    assert not error(429, words + " Please retry in 34.5s.").fatal
    assert not error(429, words, **{"Retry-After": "3"}).fatal
    assert error(
        429, {"error": {"message": words, "code": "insufficient_quota"}}, **{"Retry-After": "3"}
    ).fatal


def test_a_web_page_is_its_title_and_a_422_its_field() -> None:
    page = "<html><head><title> 502 Bad\nGateway</title><style>a{}</style></head><body>x</body></html>"
    assert faults.read(page).message == "502 Bad Gateway"
    assert faults.read("<p>Only <b>words</b></p><script>no()</script>").message == "Only words"
    row = {"loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": "temperature"}
    said = faults.read(json.dumps({"detail": [row]}))
    assert said.param == "seed" and "temperature" not in said.message


def test_net_07_a_wrong_key_with_another_status() -> None:
    for body in (
        {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}},
        {"error": {"message": "no", "code": "invalid_api_key"}},
    ):
        fault = error(400, body)
        assert fault.fatal and "the key from OPENAI_API_KEY" in str(fault)
    assert not error(400, {"error": {"message": "the api key of the door"}}).fatal


def test_cfg_06_what_stands_on_the_way_is_named() -> None:
    asked = error(407, "<html><title>407 Proxy Authentication Required</title></html>")
    assert asked.fatal and "the proxy on the way" in str(asked) and "USER:PASSWORD" in str(asked)
    nginx = "<title>400 The plain HTTP request was sent to HTTPS port</title>"
    assert error(400, nginx).fatal and "write https://" in str(error(400, nginx))
    assert error(400, "Client sent an HTTP request to an HTTPS server.").fatal


def test_net_09_a_filter_is_neither_a_rate_limit_nor_fatal() -> None:
    azure = {"error": {"code": "content_filter", "message": "triggering Azure's content management policy",
                       "innererror": {"code": "ResponsibleAIPolicyViolation"}}}  # fmt: skip
    assert type(error(400, azure)) is ContentFiltered
    assert type(error(403, azure)) is ContentFiltered
    assert (
        type(error(400, {"error": {"message": "flagged", "code": "content_policy_violation"}}))
        is ContentFiltered
    )


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"error": {"message": "The model `gpt-9` does not exist", "code": "model_not_found"}}),
        (404, {"error": 'model "x" not found, try pulling it first'}),
        (400, {"error": {"message": "foo is not a valid model ID", "code": 400}}),
        (
            400,
            {"error": {"message": "The model `x` has been decommissioned", "code": "model_decommissioned"}},
        ),
        (404, {"error": {"message": "No endpoints found for foo/bar.", "code": 404}}),
        (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: claude-x"}}),
    ],
)
def test_an_unknown_model_is_fatal(status: int, body: object) -> None:
    fault = error(status, body)
    assert fault.fatal and fault.status == 404 and "no such model" in str(fault)
    assert faults.says_model(json.dumps(body))


def test_a_404_of_the_path_is_not_about_the_model() -> None:
    assert not faults.says_model("404 page not found")
    assert not faults.says_model('{"detail":"Not Found"}')
    assert "nothing answers at" in str(error(404, "404 page not found"))


def test_errors_inside_a_200() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert type(faults.in_ok_body(overloaded, ADDRESS, URL)) is TransientModelError
    coded = {"error": {"code": 429, "message": "Rate limited upstream"}}
    assert faults.in_ok_body(coded, ADDRESS, URL).status == 429
    broke = {"error": {"code": "insufficient_quota", "message": "no"}}
    assert faults.in_ok_body(broke, ADDRESS, URL).fatal
    filtered = {"error": {"code": "content_filter", "message": "no"}}
    assert type(faults.in_ok_body(filtered, ADDRESS, URL)) is ContentFiltered
    assert type(faults.in_ok_body({"error": "?"}, ADDRESS, URL)) is TransientModelError


def test_messages_are_one_short_line_without_keys() -> None:
    redact.register("a-key-of-mine")
    said = faults.read("<html>\n<h1>Error</h1> a-key-of-mine " + "x" * 1000)
    assert said.message.startswith("Error [key] xxx") and len(said.message) == 300
    assert faults.read('[{"error": {"message": "in a list", "status": "NOT_FOUND"}}]') == faults.Said(
        "in a list", "NOT_FOUND"
    )
    assert faults.read("7").message == "7"


def test_an_unknown_provider_ends_the_run_and_the_nearest_is_named() -> None:
    unknown = parse("opneai/x", Limits(), {})
    said = faults.Said("LLM Provider NOT provided. Pass in the LLM provider you are trying to call.")
    fault = faults.judge(400, said, unknown, "")
    assert fault.fatal and "no provider 'opneai'" in str(fault) and "did you mean 'openai'" in str(fault)
