"""Fuzz of everything that reads what a model or a server said: no crash, no hang, whatever comes."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.aiw.vocabulary import load_vocabulary
from roleagent_lite.ask import free_form, load_prompts, near_miss, parse_score
from roleagent_lite.ask.adapter import tidy
from roleagent_lite.ask.objects import find_objects
from roleagent_lite.ask.parse import read_reply
from roleagent_lite.errors import ModelError
from roleagent_lite.evolve.propose import fault, unwrap
from roleagent_lite.lm import dialect, faults
from roleagent_lite.lm.thinking import split
from roleagent_lite.report.markdown import code, fence, plain
from roleagent_lite.types import Reply
from tests.fuzz.watch import SECONDS, watch

ACTIONS = ("take key", "open door", "say hello.", "look around", "put apple 1 in/on fridge 1", "go to desk 2")
MODULES = [*load_prompts("v1").modules.values(), *load_prompts("embedded").modules.values()]
VOCABULARY = load_vocabulary()
REPLIES = (
    '{"thought": "I need the key.", "action": "take key", "predictions": ["You hold the key."]}',
    'Sure! Here it is:\n```json\n{"action":"take key","prediction":"You hold the key."}\n```\nGood luck!',
    'maybe drop key first</think>\n{"action":"take key"}',
    "<think>The door is shut.\nThe key.</think>\n\n{\"action\": \"open door\", 'predictions': ['It opens.']}",
    "Thought: hm\nAction: `take key`\nPrediction: a page\nObservation: you hold it",
    "{'thought': 'x', 'action': 'take key', 'predictions': ['It\\'s yours.',],}",
    "> take key",
    "<action>open door</action>",
    '{"mode": "missing_precondition", "detail": "The door was shut.", "critical_step": 2, '
    '"lesson": "Open the door first.", "query": "open closed door"}',
    '{"chosen": [{"id": "train-heat-mug", "reason": "needs heat"}, {"id": "b", "reason": "same"}]}',
    '{"why": "as the feedback says", "text": "Open the microwave before you heat.\\n- Look first."}',
    "There are 3 issues. Final score: 7 out of 10",
    '{"score": "0.8", "reason": "close"}',
    "**Score:** 85%",
    '{"answer": {"action": "take key", "predictions": {"1": "You hold it.", "2": "The door opens."}}}',
    '[{"action": "take key"}, {"action": "open door"}]',
    '{"action": "take key", "predictions": [{"step": 1, "text": "You hold the key."}]}',
    "<|channel|>analysis<|message|>thinking<|end|><|start|>assistant<|channel|>final<|message|>take key",
    "I'm sorry, I cannot help with that.",
    '{"action": "\\ud83d\\udd11 \\ud83d", "predictions": ["\\u0000"]}',
)
BODIES = (
    '{"choices":[{"message":{"content":"take key","refusal":null},"finish_reason":"stop"}],'
    '"usage":{"prompt_tokens":100,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}}',
    'data: {"choices":[{"delta":{"content":"take"}}]}\n\ndata: {"choices":[{"delta":{"content":" key"},'
    '"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    '{"error":{"message":"Incorrect API key","type":"invalid_request_error","param":null,"code":"x"}}',
    '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    '{"detail":[{"loc":["body","temperature"],"msg":"field not permitted","type":"value_error"}]}',
    "<html><body><h1>502 Bad Gateway</h1></body></html>",
    '{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":null}]}}],"usage":null}',
    '{"error":{"code":429,"message":"Resource exhausted","status":"RESOURCE_EXHAUSTED"}}',
    "This model's maximum context length is 4097 tokens. However, your messages resulted in 5000 tokens.",
)


def encodable(value: Any) -> None:
    """Whatever came out can be written."""
    json.dumps(value, ensure_ascii=False).encode("utf-8")


def replies(text: str) -> None:
    reply = tidy(Reply(text))
    encodable([reply.text, reply.reasoning])
    module = MODULES[zlib.crc32(text.encode("utf-8", "surrogatepass")) % len(MODULES)]
    enums = {o.enum: ACTIONS for o in module.outputs if o.enum}
    parsed = read_reply(reply.text, module.outputs, enums)
    encodable(parsed.values)
    assert parsed.problem is None or parsed.problem.strip()
    assert set(parsed.values) == {o.name for o in module.outputs}


def pieces(text: str) -> None:
    split(text)
    encodable(find_objects(text))
    score = parse_score(text)
    assert score is None or 0.0 <= score <= 1.0
    assert near_miss(text, ACTIONS) in (None, *ACTIONS)
    free_form(text)
    fault(unwrap(text), "old", 2000, frozenset({"task"}))
    VOCABULARY.settle(text, text)


def bodies(text: str) -> None:
    faults.read(text)
    for read in (json.loads, dialect.join_stream):
        try:
            value = read(text)
            if isinstance(value, dict):
                encodable(dialect.reply(value, 0.0).text)
        except (ValueError, RecursionError, ModelError):
            continue


def shown(text: str) -> None:
    for make in (plain, code, fence):
        make(text)


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("target", "seeds", "share"),
    [(replies, REPLIES, 0.35), (pieces, REPLIES, 0.2), (bodies, BODIES, 0.1), (shown, REPLIES, 0.05)],
    ids=["replies", "pieces", "bodies", "shown"],
)
def test_no_crash_and_no_hang(target: Any, seeds: Any, share: float, tmp_path: Path) -> None:
    assert watch(target, seeds, share * SECONDS, tmp_path / "text") > 0
