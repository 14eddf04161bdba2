"""Named providers through DSPy's own client, against the fake server: one request, our errors, no retries."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from roleagent_lite.config import Limits
from roleagent_lite.errors import (
    ConfigError,
    ContentFiltered,
    ContextTooLong,
    FatalModelError,
    ModelError,
    TransientModelError,
    UnsupportedRequest,
)
from roleagent_lite.lm import client, faults
from roleagent_lite.lm.address import Address, parse
from roleagent_lite.lm.client import ProviderModel
from roleagent_lite.types import Message, Usage
from tests.fake_server import (
    COUNTED,
    FakeServer,
    Raw,
    Say,
    Seen,
    always,
    anthropic_fail,
    fail,
    in_turn,
    refuse,
)
from tests.lm.kit import ask

KEY = "sk-secret-0123456789WXYZ"
ENV = {"GROQ_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": KEY, "TOGETHERAI_API_KEY": KEY}
SCHEMA = {
    "type": "object",
    "properties": {"action": {"type": "string"}},
    "required": ["action"],
    "additionalProperties": False,
}


@asynccontextmanager
async def provider(
    fake: FakeServer, name: str = "groq/fake", notes: list[str] | None = None, timeout: float = 10.0
) -> AsyncIterator[ProviderModel]:
    address = parse(f"{name}@{fake.url}", Limits(), ENV)
    model = ProviderModel(address, timeout, None if notes is None else notes.append)
    try:
        yield model
    finally:
        await model.close()


async def test_a_request_in_openai_s_dialect() -> None:
    with FakeServer(always("<think>hm</think>take key")) as fake:
        async with provider(fake) as model:
            reply = await model.complete(ask(temperature=0.7, max_tokens=16, seed=3, schema=SCHEMA))
    assert (reply.text, reply.reasoning, reply.finish, reply.usage) == (
        "take key",
        "hm",
        "stop",
        Usage(100, 10),
    )
    seen = fake.requests[0]
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert (seen.body["model"], seen.body["temperature"], seen.body["seed"]) == ("fake", 0.7, 3)
    assert [m["role"] for m in seen.body["messages"]] == ["system", "user"]
    assert seen.body["response_format"]["json_schema"]["schema"] == SCHEMA


async def test_a_request_in_anthropic_s_dialect() -> None:
    counted = {**COUNTED, "prompt_tokens": 40}
    turns = (
        Message("system", "You act."),
        Message("user", "a"),
        Message("assistant", "b"),
        Message("user", "c"),
    )
    with FakeServer(lambda seen: Say("take key", usage=counted)) as fake:
        async with provider(fake, "anthropic/fake") as model:
            reply = await model.complete(ask(messages=turns, max_tokens=16))
    assert (reply.text, reply.finish, reply.usage) == ("take key", "stop", Usage(40, 10))
    seen = fake.requests[0]
    assert seen.path == "/v1/messages" and seen.headers["x-api-key"] == KEY
    assert seen.body["system"] == "You act." and seen.body["max_tokens"] == 16
    assert [m["role"] for m in seen.body["messages"]] == ["user", "assistant", "user"]


async def test_anthropic_s_cached_tokens_are_part_of_the_input() -> None:
    body = {
        "id": "m", "type": "message", "role": "assistant", "model": "fake", "stop_reason": "end_turn",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "ok"}],
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5,
                  "output_tokens": 3},
    }  # fmt: skip
    with FakeServer(lambda seen: Raw(200, body)) as fake:
        async with provider(fake, "anthropic/fake") as model:
            reply = await model.complete(ask())
    assert reply.usage == Usage(105, 3, 90)
    assert (reply.text, reply.reasoning) == ("ok", "hm")


@pytest.mark.parametrize("name", ["groq/fake", "anthropic/fake"])
async def test_rep_07_cut_and_empty_replies(name: str) -> None:
    with FakeServer(lambda seen: Say('{"action": "ta' if seen.number == 0 else None, "length")) as fake:
        async with provider(fake, name) as model:
            reply = await model.complete(ask())
            assert (reply.text, reply.finish) == ('{"action": "ta', "length")
            reply = await model.complete(ask())
            assert (reply.text, reply.finish) == ("", "length")
    assert fake.count == 2


async def test_rep_08_a_refusal() -> None:
    with FakeServer(lambda seen: Say(None, message={"refusal": "No."})) as fake:
        async with provider(fake) as model:
            reply = await model.complete(ask())
    assert (reply.text, reply.finish) == ("No.", "refusal")


@pytest.mark.parametrize("name", ["groq/fake", "anthropic/fake"])
@pytest.mark.parametrize(
    ("answer", "kind", "status"),
    [
        (fail(500, "boom"), TransientModelError, 500),
        (fail(529, "Overloaded", "overloaded_error"), TransientModelError, 529),
        (fail(429, "slow", "rate_limit_exceeded", Retry_After="2"), TransientModelError, 429),
        (fail(401, f"bad key {KEY}", "invalid_api_key"), FatalModelError, 401),
        (fail(404, "The model `fake` does not exist", "model_not_found"), FatalModelError, 404),
        (fail(400, "prompt is too long: 9 tokens > 8 maximum"), ContextTooLong, None),
        (fail(400, "no", "content_filter"), ContentFiltered, None),
        (fail(400, "Invalid value for 'top_k'"), UnsupportedRequest, None),
    ],
)
async def test_errors_are_ours_after_one_request(
    name: str, answer: Raw, kind: type[ModelError], status: int | None
) -> None:
    with FakeServer(lambda seen: answer) as fake:
        async with provider(fake, name) as model:
            with pytest.raises(ModelError) as caught:
                await model.complete(ask())
    assert type(caught.value) is kind
    assert status is None or caught.value.status == status
    assert fake.count == 1
    assert KEY not in str(caught.value) and "To fix" not in str(caught.value)
    if status == 429:
        assert caught.value.retry_after == 2.0
    if status == 401:
        assert "the key from" in str(caught.value) and "(…WXYZ)" in str(caught.value)


async def test_net_01_no_credit_is_fatal() -> None:
    with FakeServer(lambda seen: fail(429, "You exceeded your current quota", "insufficient_quota")) as fake:
        async with provider(fake) as model:
            with pytest.raises(FatalModelError, match="no credit or quota left"):
                await model.complete(ask())
    assert fake.count == 1


async def test_net_03_a_cut_body_and_a_server_that_is_gone() -> None:
    body = {"choices": [{"message": {"content": "take key"}, "finish_reason": "stop"}]}
    with FakeServer(lambda seen: Raw(200, body, cut=10)) as fake:
        async with provider(fake) as model:
            with pytest.raises(TransientModelError, match="stream cut") as caught:
                await model.complete(ask())
    assert not isinstance(caught.value, faults.Unreachable)
    async with provider(fake) as model:
        with pytest.raises(faults.Unreachable, match="cannot reach the server of groq/fake"):
            await model.complete(ask())


async def test_a_redirect_ends_the_run_and_a_call_in_place_of_text_is_read() -> None:
    with FakeServer(lambda seen: Raw(307, "", {"Location": "/new"})) as fake:
        async with provider(fake, "anthropic/fake") as model:
            with pytest.raises(FatalModelError, match="redirect"):
                await model.complete(ask())
    called = {"type": "tool_use", "id": "1", "name": "act", "input": {"action": "öffnen"}}
    body = {"id": "m", "type": "message", "role": "assistant", "model": "f", "stop_reason": "tool_use"}
    with FakeServer(lambda seen: Raw(200, {**body, "content": [called] * (1 + seen.number)})) as fake:
        async with provider(fake, "anthropic/fake") as model:
            assert (await model.complete(ask())).text == '{"action": "öffnen"}'
            assert (await model.complete(ask())).text == ""


@pytest.mark.parametrize(
    ("kind", "meant"),
    [("authentication_error", FatalModelError), ("overloaded_error", TransientModelError),
     ("api_error", TransientModelError), ("rate_limit_error", TransientModelError),
     ("billing_error", FatalModelError), ("request_too_large", ContextTooLong)],
)  # fmt: skip
async def test_net_03_an_error_in_place_of_a_message(kind: str, meant: type[ModelError]) -> None:
    with FakeServer(lambda seen: anthropic_fail(200, kind)) as fake:
        async with provider(fake, "anthropic/fake") as model:
            with pytest.raises(ModelError) as caught:
                await model.complete(ask())
    assert type(caught.value) is meant and fake.count == 1


def of_gemini(text: str | None, reason: str = "STOP", **more: Any) -> Raw:
    parts = [{"text": "hm", "thought": True}, {"text": text}] if text is not None else []
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": reason}
    used = {"promptTokenCount": 5, "candidatesTokenCount": 2}
    return Raw(200, {"candidates": [candidate], "usageMetadata": used, **more})


async def test_gemini_s_own_dialect() -> None:
    answers = [of_gemini("take key"), of_gemini('{"act', "MAX_TOKENS")]
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "candidates": []}
    refused = [of_gemini(None, "SAFETY"), of_gemini(None, "PROHIBITED_CONTENT"), Raw(200, blocked)]
    with FakeServer(in_turn(*answers, *refused), paths=["/v1/models/fake:generateContent"]) as fake:
        async with provider(fake, "gemini/fake") as model:
            reply = await model.complete(ask())
            assert (reply.text, reply.reasoning, reply.finish) == ("take key", "hm", "stop")
            assert (reply.usage.input, reply.usage.output) == (5, 2)
            assert (await model.complete(ask())).finish == "length"
            for _ in refused:
                with pytest.raises(ContentFiltered):
                    await model.complete(ask())
    assert fake.count == 5


async def test_one_deadline_for_a_call() -> None:
    with FakeServer(latency=30.0) as fake:
        async with provider(fake, timeout=0.05) as model:
            with pytest.raises(TransientModelError):
                await model.complete(ask())


async def test_cfg_01_temperature_is_dropped_once_and_remembered() -> None:
    def script(seen: Seen) -> Raw | Say:
        return (
            refuse("temperature", "temperature is not supported") if "temperature" in seen.body else Say("ok")
        )

    notes: list[str] = []
    with FakeServer(script) as fake:
        async with provider(fake, notes=notes) as model:
            for _ in range(3):
                await model.complete(ask())
    assert fake.count == 4
    assert notes == ["groq/fake: temperature was not applied: the server refuses it"]


async def test_what_a_dialect_cannot_carry_is_noted() -> None:
    notes: list[str] = []
    with FakeServer() as fake:
        async with provider(fake, "anthropic/fake", notes) as model:
            await model.complete(ask(seed=3))
    assert any("seed was dropped" in note for note in notes)


async def test_cfg_03_the_system_text_is_folded_where_the_role_is_refused() -> None:
    def script(seen: Seen) -> Raw | Say:
        roles = [m["role"] for m in seen.body["messages"]]
        return fail(400, "System role not supported") if "system" in roles else Say("ok")

    with FakeServer(script) as fake:
        async with provider(fake) as model:
            await model.complete(ask())
            await model.complete(ask())
    assert fake.count == 3
    assert fake.requests[2].body["messages"][0]["content"] == "You act.\n\nTake the key."


@pytest.mark.slow
async def test_litellm_where_dspy_routes_there_and_its_retries_are_off() -> None:
    """One test for the slow door: importing LiteLLM takes seconds."""
    answers: list[Raw | Say] = [
        Say("uncounted", usage=None),
        fail(500, "boom"),
        Raw(200, {"choices": [{"message": {"content": "take key"}}]}, cut=20),
        fail(429, "slow", "rate_limit_exceeded", Retry_After="2"),
        Say("take key"),
    ]
    with FakeServer(lambda seen: answers[seen.number]) as fake:
        async with provider(fake, "together_ai/fake", timeout=120) as model:  # the import counts
            assert (await model.complete(ask())).usage == Usage(), "LiteLLM says 0 for what it does not know"
            with pytest.raises(TransientModelError):
                await model.complete(ask())
            assert fake.count == 2
            with pytest.raises(TransientModelError, match="stream cut"):
                await model.complete(ask())
            with pytest.raises(TransientModelError) as caught:
                await model.complete(ask())
            assert (fake.count, caught.value.retry_after) == (4, 2.0)
            reply = await model.complete(ask())
    assert (reply.text, reply.usage, fake.count) == ("take key", Usage(100, 10), 5)
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"


async def test_a_string_that_dspy_refuses_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        ProviderModel(Address("provider", "groq/", "groq/", "groq"), 10)


async def test_choices_cannot_be_scored() -> None:
    with FakeServer() as fake:
        async with provider(fake) as model:
            with pytest.raises(UnsupportedRequest, match="cannot score"):
                await model.complete(ask(choices=("a", "b")))
    assert fake.count == 0


async def test_cfg_06_this_machine_is_reached_past_any_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "internal.example")
    monkeypatch.setenv("no_proxy", "internal.example")
    with FakeServer() as fake:
        async with provider(fake, "anthropic/fake") as model:
            await model.complete(ask())
    assert fake.count == 1
    assert os.environ["NO_PROXY"].startswith("internal.example,127.0.0.1")


@pytest.mark.parametrize("name", ["groq/fake", "anthropic/fake"])
async def test_a_schema_with_choices_in_it_is_answered_as_text(name: str) -> None:
    """DSPy takes such a schema for a judgement, and hands the answer over as data."""
    action = {"type": "string", "enum": ["take key", "öffne Tür"]}
    schema = {**SCHEMA, "properties": {"action": action}}
    with FakeServer(always('{"action": "öffne Tür"}')) as fake:
        async with provider(fake, name) as model:
            reply = await model.complete(ask(schema=schema))
    assert (reply.text, reply.finish) == ('{"action": "öffne Tür"}', "stop")


async def test_more_callers_than_the_pool_holds_wait_outside_of_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "_POOL", 4)
    with FakeServer(always("take key"), latency=0.25) as fake:
        async with provider(fake, timeout=1.5) as model:  # 32 callers in turns of 4 wait for 2 seconds
            replies = await asyncio.gather(*(model.complete(ask(f"call {n}")) for n in range(32)))
    assert [reply.text for reply in replies] == ["take key"] * 32


def test_the_pool_is_as_large_as_dspy_makes_it() -> None:
    from dspy._vendor.lm15.transports import DEFAULT_MAX_CONNECTIONS

    assert client._POOL == DEFAULT_MAX_CONNECTIONS
