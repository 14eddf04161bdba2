"""OpenAI's chat dialect: builds the body of a request and reads the body of a reply.

Owns field names, what a server was found not to take (`Quirks`) and the joining of event streams. Leaves
out sending (http), error classes (faults) and splitting thinking tags (thinking). Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from roleagent_lite.errors import ModelError, TransientModelError, UnsupportedRequest
from roleagent_lite.lm.faults import Said, said
from roleagent_lite.lm.thinking import split
from roleagent_lite.redact import mend
from roleagent_lite.types import Message, Reply, Request, Usage

_NO_SYSTEM = re.compile(
    r"system (role|message|prompt|instruction)|\brole\b.{0,40}\bsystem|\bsystem\b.{0,40}(not|n't|only)"
    r"|alternat|\broles? must|conversation roles|developer instruction|consecutive|only\b.{0,40}\broles?\b"
)
# Words for the end of a reply that are not simply "stop"; an unknown word is one more for that.
_FINISH = {
    "length": "length", "max_tokens": "length", "model_length": "length", "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter", "safety": "content_filter", "recitation": "content_filter",
    "prohibited_content": "content_filter", "blocklist": "content_filter", "spii": "content_filter",
    "refusal": "refusal",
    "error": "error", "abort": "error", "insufficient_system_resource": "error",
}  # fmt: skip
_SCHEMA = re.compile(
    r"response[ _]format|schema|grammar|guided|output_config|structured[ _]output", re.IGNORECASE
)
# A 500 of a chat template or of a grammar, not of the server.
_TEMPLATE = re.compile(
    r"\brole|template|alternat|json[ _]?schema|guided|grammar|response_format", re.IGNORECASE
)
_UNKNOWN = re.compile(r"unsupported|not (supported|permitted|allowed)|unknown|unrecogni[sz]ed|unexpected")
_THINKING = ("thinking", "reasoning")  # types of content parts


@dataclass(slots=True)
class Quirks:
    """What this server was found not to take. Set by its own 400s, kept as long as the transport lives."""

    temperature: bool = True
    schema: bool = True
    seed: bool = True
    system: bool = True
    max_tokens: str = "max_tokens"

    def learn(self, error: Said, sent: Mapping[str, Any]) -> str | None:
        """Change what a 400 complains about, if it was sent; a note in words, or None: nothing to change."""
        text = f"{error.param} {error.all}".lower()
        about = error.param.lower()
        unknown = about == "max_tokens" and _UNKNOWN.search(text)
        if "max_tokens" in sent and ("max_completion_tokens" in text or unknown):
            self.max_tokens = "max_completion_tokens"
            return "the output limit is sent as max_completion_tokens"
        if "temperature" in sent and (about == "temperature" or (not about and _names("temperature", text))):
            self.temperature = False
            return "temperature was not applied: the server refuses it"
        if "response_format" in sent and _SCHEMA.search(about or text):
            self.schema = False
            return "replies are not constrained to a schema: the server refuses response_format"
        if "seed" in sent and (about == "seed" or (not about and _names("seed", text))):
            self.seed = False
            return "the seed was not applied: the server refuses it"
        roles = [m["role"] for m in sent["messages"]]
        strict = "system" in roles or any(a == b for a, b in pairwise(roles))
        if self.system and strict and _NO_SYSTEM.search(text):
            self.system = False
            return "the system text was folded into the first user turn: the server refuses role 'system'"
        return None


def teaches(error: ModelError, said: Said) -> bool:
    """Whether an error may say what a server does not take, so that `Quirks.learn` should look at it."""
    if isinstance(error, UnsupportedRequest):
        return True
    return error.status == 500 and _TEMPLATE.search(said.all) is not None


def _names(field: str, text: str) -> bool:
    """Whether a message in lower case is about that field, and not about the same word in a text."""
    before = r"['\"`\[(.]|\b(parameter|field|argument|property|key|value|unsupported|unknown|extra)\W{1,3}"
    after = r"['\"`\])]*\W{0,3}(is|are|does|do|may|must|should|can|cannot|not|parameter|value|extra)\b"
    return re.search(f"({before}){field}|\\b{field}{after}|^{field}\\b", text.strip()) is not None


def body(request: Request, model: str, quirks: Quirks) -> dict[str, Any]:
    """The JSON body for one request, without what the server was found not to take."""
    messages = request.messages if quirks.system else fold(request.messages)
    out: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": mend(m.content)} for m in messages],
        quirks.max_tokens: request.max_tokens,
    }
    if quirks.temperature:
        out["temperature"] = request.temperature
    if request.seed is not None and quirks.seed:
        out["seed"] = request.seed
    if request.schema is not None and quirks.schema:
        out["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": re.sub(r"\W", "_", request.module) or "reply", "schema": request.schema},
        }
    return out


def fold(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same text with strictly alternating user and assistant turns, the system text first, once."""
    out: list[Message] = []
    for message in messages:
        role = "user" if message.role == "system" else message.role
        if out and out[-1].role == role:
            out[-1] = Message(role, out[-1].content + "\n\n" + message.content)
        else:
            out.append(Message(role, message.content))
    return tuple(out)


def finish(word: Any) -> str:
    """stop, length, content_filter, refusal or error, for what any server calls the end of a reply."""
    return _FINISH.get(str(word or "stop").lower(), "stop")


def is_error(value: Mapping[str, Any]) -> bool:
    """Whether the body of a 200 answer reports an error in place of a reply."""
    return bool(value.get("error") or value.get("type") == "error") and not value.get("choices")


def reply(value: Mapping[str, Any], seconds: float) -> Reply:
    """The Reply in the body of a 200 answer.

    Raises TransientModelError where there is no choice in it, or one that an error ended.
    """
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping):
        raise TransientModelError("empty reply: it holds no choice")
    message = choice.get("message")
    if not isinstance(message, Mapping):
        message = {"content": choice.get("text")}
    end = finish(choice.get("finish_reason"))
    if end == "error":
        why = said(choice["error"]).message if choice.get("error") else choice.get("finish_reason")
        raise TransientModelError(f"stream cut: the server broke off its reply ({why})")
    content, thoughts, refusal = _parts(message.get("content"))
    text, inner = split(mend(content or _called(message)))
    for name in ("reasoning_content", "reasoning", "thinking"):
        given = message.get(name)
        if isinstance(given, str) and given.strip():
            thoughts.append(given)
            break
    thought = "\n".join([*map(mend, thoughts), *([inner] if inner else [])])
    given = message.get("refusal")
    refusal = refusal or (given if isinstance(given, str) else "")
    if refusal.strip():
        text, end = text or mend(refusal), "refusal"
    used = credible(usage(value.get("usage")), text or thought)
    return Reply(text, end, thought or None, used, seconds)


def _parts(content: Any) -> tuple[str, list[str], str]:
    """(text, thinking, refusal) of a content, which is a text or a list of typed parts."""
    text, thoughts, refusal = "", [], ""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            text += part
        elif isinstance(part, Mapping):
            kind = str(part.get("type") or "text")
            inside = part.get("text") or part.get(kind) or ""
            if isinstance(inside, list):
                inside = _parts(inside)[0]
            if kind in _THINKING:
                thoughts.append(str(inside))
            elif kind == "refusal":
                refusal += str(inside)
            else:
                text += str(inside)
    return text, thoughts, refusal


def _called(message: Mapping[str, Any]) -> str:
    """The arguments of the one function call that some models make of a JSON reply, unasked."""
    calls = message.get("tool_calls")
    call = calls[0] if isinstance(calls, list) and len(calls) == 1 else message
    function = call.get("function") or call.get("function_call") if isinstance(call, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if isinstance(arguments, Mapping):
        return json.dumps(arguments, ensure_ascii=False)
    return arguments if isinstance(arguments, str) else ""


def usage(value: Any) -> Usage:
    """Token counts as far as the server gave them; None for what it did not say."""
    if not isinstance(value, Mapping):
        return Usage()

    def count(*path: str) -> int | None:
        at: Any = value
        for name in path:
            at = at.get(name) if isinstance(at, Mapping) else None
        return at if isinstance(at, int) and not isinstance(at, bool) and at >= 0 else None

    cached = count("prompt_tokens_details", "cached_tokens")
    return Usage(
        input=count("prompt_tokens") if "prompt_tokens" in value else count("input_tokens"),
        output=count("completion_tokens") if "completion_tokens" in value else count("output_tokens"),
        cached=count("prompt_cache_hit_tokens") if cached is None else cached,
        reasoning=count("completion_tokens_details", "reasoning_tokens"),
    )


def credible(used: Usage, text: str) -> Usage:
    """`used` without counts of 0 that cannot be: some gateways say 0 for what they do not know."""
    output = None if used.output == 0 and text else used.output
    return replace(used, input=used.input or None, output=output)


def join_stream(text: str) -> Mapping[str, Any]:
    """The one body that an event stream adds up to, for servers that stream unasked.

    A mapping with `error` where an event reported one. Raises TransientModelError("stream cut ...") when
    neither a finish reason nor an end marker came.
    """
    parts: dict[str, list[str]] = {"content": [], "reasoning_content": [], "refusal": []}
    finish: str | None = None
    ended = False
    counted: Any = None
    for line in re.split(r"\r\n|\r|\n", text):  # not `splitlines`: a text may hold other ends of a line
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            ended = True
            continue
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            raise TransientModelError("stream cut: one of its events is not whole JSON") from None
        if not isinstance(event, Mapping):
            continue
        if event.get("error") or event.get("type") == "error":
            return event if event.get("error") else {"error": event}
        counted = event.get("usage") or counted
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            delta = choice.get("delta") if isinstance(choice, Mapping) else None
            if not isinstance(delta, Mapping):
                delta, choice = {}, choice if isinstance(choice, Mapping) else {}
            for name, pieces in parts.items():
                piece = delta.get(name)
                if isinstance(piece, str):
                    pieces.append(piece)
            finish = choice.get("finish_reason") or finish
    if finish is None and not ended:
        raise TransientModelError("stream cut: it ended without a finish reason")
    message = {name: "".join(pieces) for name, pieces in parts.items()}
    return {"choices": [{"message": message, "finish_reason": finish or "stop"}], "usage": counted}
