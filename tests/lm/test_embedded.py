"""The embedded model: scoring by shared prefixes against brute force, bounds of schemas, errors, threads."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.errors import ConfigError, ContextTooLong, ModelError, UnsupportedRequest
from roleagent_lite.lm.embedded import EmbeddedModel, Engine, load
from roleagent_lite.types import Message, Progress, Request

ASK = (Message("system", "be brief"), Message("user", "Which way?"))
ACTIONS = ("go to cabinet 1", "go to cabinet 2", "go to fridge 1", "look", "take mug 1")


class StandIn:
    """A server with letters for tokens, whose distribution depends on everything before."""

    def __init__(self, top: int = 0) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.posts: list[str] = []
        self.threads: set[int] = set()
        self.top = top  # how many of the true alternatives it shows
        self.chat: dict[str, Any] = {}

    @staticmethod
    def logprob(before: list[int], token: int) -> float:
        digest = hashlib.sha256(repr((before, token)).encode()).digest()
        return math.log((1 + digest[0]) / 512)

    def post(self, path: str, body: Any) -> dict[str, Any]:
        self.posts.append(path)
        if path == "/apply-template":
            return {"prompt": "".join(f"[{m['role']}]{m['content']}" for m in body["messages"])}
        return {"tokens": [ord(c) for c in body["content"]]}

    def handle_completions(self, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(body)
        self.threads.add(threading.get_ident())
        if "stop" in body:
            return {"choices": [{"text": " onward", "finish_reason": "stop"}]}
        usage = {
            "prompt_tokens": len(body["prompt"]),
            "completion_tokens": body["max_tokens"],
            "prompt_tokens_details": {"cached_tokens": 3},
        }
        if len(body["prompt"]) > 200:
            return {"error": {"code": 400, "type": "exceed_context_size_error", "message": "too long"}}
        if "grammar" not in body:
            return {"choices": [{"text": "x"}], "usage": usage}
        ids = [int(i) for i in re.findall(r"<\[(\d+)\]>", body["grammar"])]
        before, content = list(body["prompt"]), []
        for token in ids:
            shown = [ord(c) for c in "abcdefghijklmnopqrstuvwxyz 0123456789"][: self.top]
            tops = [{"id": t, "logprob": self.logprob(before, t)} for t in shown]
            content.append({"id": token, "logprob": self.logprob(before, token), "top_logprobs": tops})
            before.append(token)
        return {"choices": [{"logprobs": {"content": content}}], "usage": usage}

    def handle_chat_completions(self, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(body)
        if body["messages"][0]["content"] == "odd":
            raise ValueError("unrecognized type nonsense")
        return self.chat


def model(server: StandIn) -> EmbeddedModel:
    return EmbeddedModel("embedded:stand-in", Engine(server, server.post))


def answer(text: str, finish: str = "stop", **message: str) -> dict[str, Any]:
    return {
        "choices": [{"finish_reason": finish, "message": {"content": text, **message}}],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }


def brute_force(server: StandIn) -> list[list[float]]:
    prompt = [ord(c) for c in "[system]be brief[user]Which way?"]
    out = []
    for action in ACTIONS:
        ids = [ord(c) for c in action]
        out.append([server.logprob(prompt + ids[:k], ids[k]) for k in range(len(ids))])
    return out


@pytest.mark.parametrize("top", [0, 3, 40])
async def test_scores_equal_one_chain_per_choice_however_much_is_shared(top: int) -> None:
    server = StandIn(top)
    reply = await model(server).complete(Request("agent", "act", ASK, choices=ACTIONS))
    assert reply.scores is not None
    assert [list(s) for s in reply.scores] == brute_force(server)


async def test_shared_first_tokens_are_asked_for_once() -> None:
    server = StandIn()
    reply = await model(server).complete(Request("agent", "act", ASK, choices=ACTIONS))
    # "go to cabinet 1" in full, then "2", "fridge 1", "look", "take mug 1"
    assert reply.usage.output == 15 + 1 + 8 + 4 + 10
    scored = [b for b in server.bodies if "grammar" in b]
    assert len(scored) == 5
    assert [len(b["prompt"]) - len(scored[0]["prompt"]) for b in scored] == [0, 14, 6, 0, 0]


async def test_a_sibling_among_the_shown_alternatives_costs_no_request() -> None:
    server = StandIn(top=40)
    await model(server).complete(Request("agent", "act", ASK, choices=("go 1", "go 2", "go 3")))
    assert len([b for b in server.bodies if "grammar" in b]) == 1


async def test_every_choice_is_scored_on_a_prompt_that_was_read_before() -> None:
    server = StandIn()
    reply = await model(server).complete(Request("agent", "act", ASK, choices=ACTIONS))
    assert "grammar" not in server.bodies[0]
    assert server.bodies[0]["max_tokens"] == 1
    assert (reply.usage.input, reply.usage.cached, reply.usage.dollars) == (32, 3, 0.0)


async def test_the_reply_names_the_choice_with_the_best_mean() -> None:
    server = StandIn()
    reply = await model(server).complete(Request("agent", "act", ASK, choices=ACTIONS))
    means = [sum(s) / len(s) for s in brute_force(server)]
    assert reply.text == ACTIONS[means.index(max(means))]


async def test_equal_choices_get_equal_scores() -> None:
    reply = await model(StandIn()).complete(Request("agent", "act", ASK, choices=("look", "look")))
    assert reply.scores is not None and reply.scores[0] == reply.scores[1]


@pytest.mark.parametrize("choices", [(), ("look", "")])
async def test_nothing_to_score_is_an_error(choices: tuple[str, ...]) -> None:
    with pytest.raises(ModelError, match="non-empty"):
        await model(StandIn()).complete(Request("agent", "act", ASK, choices=choices))


async def test_tokens_other_than_those_asked_for_are_refused() -> None:
    class Odd(StandIn):
        def handle_completions(self, body: dict[str, Any]) -> dict[str, Any]:
            out = super().handle_completions(body)
            if "grammar" in body:
                out["choices"][0]["logprobs"]["content"][0]["id"] += 1
            return out

    with pytest.raises(ModelError, match="did not score"):
        await model(Odd()).complete(Request("agent", "act", ASK, choices=ACTIONS))


async def test_choices_are_tokenised_once() -> None:
    server = StandIn()
    embedded = model(server)
    for _ in range(3):
        await embedded.complete(Request("agent", "act", ASK, choices=("look",)))
    assert server.posts.count("/tokenize") == 3 + 1  # the prompt each time, the action once


async def test_one_worker_thread_serves_concurrent_requests() -> None:
    server = StandIn()
    embedded = model(server)
    asks = [embedded.complete(Request("agent", "act", ASK, choices=(a,))) for a in ACTIONS]
    replies = await asyncio.gather(*asks)
    assert [r.text for r in replies] == list(ACTIONS)
    assert len(server.threads) == 1 and threading.get_ident() not in server.threads


async def test_a_prompt_beyond_the_context_says_so() -> None:
    long = (Message("user", "x" * 300),)
    with pytest.raises(ContextTooLong, match="too long"):
        await model(StandIn()).complete(Request("agent", "act", long, choices=("look",)))


async def test_generation_passes_settings_and_reads_usage() -> None:
    server = StandIn()
    server.chat = answer("north", "length", reasoning_content="hm")
    reply = await model(server).complete(Request("agent", "act", ASK, temperature=0.7, max_tokens=9, seed=5))
    assert server.bodies[-1] == {
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "Which way?"},
        ],
        "temperature": 0.7,
        "max_tokens": 9,
        "seed": 5,
    }
    assert (reply.text, reply.finish, reply.reasoning) == ("north", "length", "hm")
    assert (reply.usage.input, reply.usage.output, reply.usage.cached) == (7, 5, 4)
    assert reply.usage.dollars == 0.0
    assert reply.seconds >= 0


async def test_a_reply_that_was_begun_is_continued_from_there_up_to_a_stop() -> None:
    server = StandIn()
    begun = (*ASK, Message("assistant", "Go"))
    reply = await model(server).complete(Request("agent", "act", begun, max_tokens=4, stop=("\n",)))
    assert reply.text == " onward"
    assert server.bodies == [
        {
            "temperature": 0.0,
            "max_tokens": 4,
            "stop": ["\n"],
            "prompt": [ord(c) for c in "[system]be brief[user]Which way?[assistant]Go"],
        }
    ]


async def test_a_missing_usage_is_unknown_not_zero() -> None:
    server = StandIn()
    server.chat = {"choices": [{"message": {"content": None}}]}
    reply = await model(server).complete(Request("agent", "act", ASK))
    assert (reply.text, reply.usage.input, reply.usage.output) == ("", None, None)


async def test_a_schema_becomes_a_compact_grammar() -> None:
    server = StandIn()
    server.chat = answer('{"a": "b"}')
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    await model(server).complete(Request("agent", "act", ASK, schema=schema, max_tokens=40))
    grammar = server.bodies[-1]["grammar"]
    held = json.loads(grammar.split("%json ")[1])
    assert held["properties"]["a"] == {"type": "string", "maxLength": 80, "minLength": 4}
    assert held["x-guidance"]["whitespace_flexible"] is False


async def test_a_grammar_that_was_dropped_is_noticed() -> None:
    server = StandIn()
    server.chat = answer("I go north.")
    with pytest.raises(UnsupportedRequest, match="did not hold"):
        await model(server).complete(Request("agent", "act", ASK, schema={"type": "nonsense"}))


async def test_a_cut_reply_is_passed_on_as_cut() -> None:
    server = StandIn()
    server.chat = answer('{"a": "bbb', "length")
    reply = await model(server).complete(Request("agent", "act", ASK, schema={"type": "object"}))
    assert reply.finish == "length"


async def test_a_refused_request_and_a_fault_are_model_errors() -> None:
    with pytest.raises(UnsupportedRequest, match="nonsense"):
        await model(StandIn()).complete(Request("agent", "act", (Message("user", "odd"),)))
    server = StandIn()
    server.chat = {"error": {"code": 500, "type": "server_error", "message": "broken"}}
    with pytest.raises(ModelError, match="broken") as caught:
        await model(server).complete(Request("agent", "act", ASK))
    assert caught.value.status == 500


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 a zip", b"GG"])
def test_a_bad_file_is_refused_before_loading(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "model.gguf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"model\.gguf"):
        load(file, 512)


def test_a_file_that_llama_cannot_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "odd.gguf"
    file.write_bytes(b"GGUF\x03\0\0\0 and then nothing of use")
    with pytest.raises(ConfigError, match="damaged"):
        load(file, 512)


# --- the real model -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real() -> EmbeddedModel:
    return EmbeddedModel.open("embedded")


@pytest.mark.embedded
async def test_real_shared_scoring_equals_one_request_a_choice(real: EmbeddedModel) -> None:
    together = await real.complete(Request("agent", "act", ASK, choices=ACTIONS))
    assert together.scores is not None
    for action, scores in zip(ACTIONS, together.scores, strict=True):
        alone = await real.complete(Request("agent", "act", ASK, choices=(action,)))
        assert alone.scores is not None
        assert alone.scores[0] == pytest.approx(scores, abs=1e-4)


@pytest.mark.embedded
async def test_real_scores_are_those_of_the_full_distribution(real: EmbeddedModel) -> None:
    """A greedy reply's own token log-probabilities are what scoring that reply gives."""
    engine = real._engine
    prompt = engine.prompt_ids(ASK)
    body = {"prompt": prompt, "max_tokens": 6, "temperature": 0, "logprobs": 1, "n_probs": 1}
    for _ in range(2):  # the second time on the cached prompt, as scoring does
        out = engine._server.handle_completions(body)["choices"][0]
    content = out["logprobs"]["content"]
    engine._tokens[out["text"]] = tuple(t["id"] for t in content)
    reply = await real.complete(Request("agent", "act", ASK, choices=(out["text"],)))
    assert reply.scores is not None
    assert reply.scores[0] == pytest.approx([t["logprob"] for t in content], abs=0.02)


@pytest.mark.embedded
async def test_real_replies_hold_to_a_schema(real: EmbeddedModel) -> None:
    schema = {
        "type": "object",
        "properties": {
            "thought": {"type": "string"},
            "action": {"type": "string", "enum": list(ACTIONS)},
            "step": {"type": "integer", "minimum": 0, "maximum": 9},
        },
        "required": ["thought", "action", "step"],
        "additionalProperties": False,
    }
    for temperature in (0.0, 0.9):
        request = Request("agent", "act", ASK, schema=schema, max_tokens=80, temperature=temperature)
        reply = await real.complete(request)
        body = json.loads(reply.text)
        assert list(body) == ["thought", "action", "step"] and body["action"] in ACTIONS
        assert "\n" not in reply.text.replace("\\n", "")
    assert reply.usage.cached is not None and reply.usage.cached > 10


@pytest.mark.embedded
async def test_real_a_bad_schema_and_a_long_prompt_are_told(real: EmbeddedModel) -> None:
    with pytest.raises(UnsupportedRequest):
        await real.complete(Request("agent", "act", ASK, schema={"type": "nonsense"}, max_tokens=400))
    with pytest.raises(ContextTooLong):
        await real.complete(Request("agent", "act", (Message("user", "way " * 5000),)))


@pytest.mark.embedded
async def test_real_an_open_assistant_turn_is_continued(real: EmbeddedModel) -> None:
    turn = (*ASK, Message("assistant", "Action:"))
    text = real._engine._post(
        "/apply-template", {"messages": [{"role": m.role, "content": m.content} for m in turn]}
    )
    assert text["prompt"].endswith("assistant\nAction:")


@pytest.mark.embedded
def test_real_one_file_is_loaded_once_and_told() -> None:
    heard: list[Progress] = []
    first = EmbeddedModel.open("embedded", heard.append)
    second = EmbeddedModel.open("embedded")
    assert first._engine is second._engine
    assert first.name == "embedded:SmolLM2-135M-Instruct.Q4_1" and first.can_score


@pytest.mark.embedded
def test_real_the_loopback_side_asks_for_its_key(real: EmbeddedModel) -> None:
    import http.client

    address = real._engine._server.listening_address  # type: ignore[attr-defined]
    connection = http.client.HTTPConnection(address.split("//")[-1], timeout=10)
    connection.request("POST", "/tokenize", b'{"content": "a"}', {"Content-Type": "application/json"})
    assert connection.getresponse().status == 401
    connection.close()
