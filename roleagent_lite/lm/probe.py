"""Asks a server with a few tiny calls what it takes: system role, temperature, seed, schema, limits, counts.

Owns the questions and how an answer is read. Leaves out when to ask (the caller: these calls are paid) and
how a refusal is learned (`dialect.Quirks`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from roleagent_lite.config import Limits
from roleagent_lite.errors import FatalModelError, ModelError, TransientModelError
from roleagent_lite.lm import dialect
from roleagent_lite.lm.address import Address
from roleagent_lite.lm.catalog import list_models
from roleagent_lite.lm.http import HttpModel
from roleagent_lite.types import Message, Reply, Request

CALLS = 7  # at most, but for those resent without what the server refuses
TOKENS = 64  # of a reply, at most
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["green"]}},
    "required": ["colour"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Feature:
    """`works` None = it could not be told."""

    name: str
    works: bool | None
    words: str
    advice: str = ""


async def listed(address: Address, limits: Limits) -> list[str]:
    """Names of the models that the address offers. Costs nothing. Raises as `catalog.list_models`."""
    if address.kind != "http":
        return list_models(address.provider, limits)
    model = HttpModel(address, limits.timeout)
    try:
        return sorted(await model.models())
    finally:
        await model.close()


def _ask(text: str, *, system: str = "", **how: Any) -> Request:
    turns = (Message("system", system),) if system else ()
    return Request("agent", "probe", (*turns, Message("user", text)), **{"max_tokens": TOKENS, **how})


async def features(address: Address, timeout: float) -> list[Feature]:
    """What the model at `address` takes, one entry a feature. Raises FatalModelError, ConfigError where it
    cannot be asked at all; a model that only fails is a Feature that does not work."""
    model: Any
    if address.kind == "http":
        model = await HttpModel.open(address, timeout)
    else:
        from roleagent_lite.lm.client import ProviderModel

        model = ProviderModel(address, timeout)
    try:
        return await _all(model)
    finally:
        await model.close()


async def _all(model: Any) -> list[Feature]:
    try:
        first = await model.complete(_ask("Say hello.", temperature=0.7))
    except FatalModelError:
        raise
    except ModelError as error:
        return [Feature("answers", False, str(error), "try again later, or look at the server's log")]
    found = [_answers(first), _counted(first), _temperature(model)]
    for probe in (_system, _seed, _schema, _limit, _logprobs):
        try:
            found.append(await probe(model))
        except FatalModelError:
            raise
        except ModelError as error:
            found.append(Feature(probe.__name__.strip("_"), None, f"not known ({error})"))
    return found


def _answers(reply: Reply) -> Feature:
    if reply.text.strip():
        return Feature("answers", True, f"in {reply.seconds:.1f} s")
    if reply.finish == "length":
        return Feature(
            "answers", True, f"only thinking within {TOKENS} tokens: give limits.max_tokens room for it"
        )
    return Feature("answers", False, "the reply is empty", "look at the server's log and chat template")


def _counted(reply: Reply) -> Feature:
    used = reply.usage
    if used.input is None or used.output is None:
        return Feature(
            "usage", False, "tokens are not counted", "caps in dollars cannot be kept: --max-calls"
        )
    return Feature("usage", True, f"tokens are counted ({used.input} in, {used.output} out)")


def _temperature(model: Any) -> Feature:
    if model.quirks.temperature:
        return Feature("temperature", True, "taken")
    return Feature("temperature", False, "refused: rollouts differ only as the server's default lets them")


async def _system(model: Any) -> Feature:
    await model.complete(_ask("Say hello.", system="You are terse."))
    if model.quirks.system:
        return Feature("system role", True, "taken")
    return Feature("system role", False, "refused: the system text is folded into the first user turn")


async def _seed(model: Any) -> Feature:
    asked = _ask("Write ten random letters.", temperature=1.0, seed=7)
    first = await model.complete(asked)
    second = await model.complete(asked)
    if not model.quirks.seed:
        return Feature("seed", False, "refused: two runs differ more than they need to")
    if first.text == second.text:
        return Feature("seed", True, "taken; two equal calls gave equal replies")
    return Feature("seed", False, "taken, but two equal calls gave different replies")


async def _schema(model: Any) -> Feature:
    reply = await model.complete(_ask("Name a colour, as JSON.", schema=_SCHEMA))
    if not model.quirks.schema:
        return Feature("JSON schema", False, "refused: replies are read as they come and asked for again")
    try:
        held = json.loads(reply.text) == {"colour": "green"}
    except ValueError:
        held = False
    if held:
        return Feature("JSON schema", True, "kept")
    return Feature(
        "JSON schema", False, "taken, but the reply did not keep it: replies are read as they come"
    )


async def _limit(model: Any) -> Feature:
    reply = await model.complete(_ask("Count from 1 to 100.", max_tokens=16))
    if reply.finish == "length" or (reply.usage.output or 99) <= 16:
        return Feature("max tokens", True, f"kept (sent as {model.quirks.max_tokens})")
    return Feature("max tokens", False, "not kept: replies may be longer, and dearer, than limits.max_tokens")


async def _logprobs(model: Any) -> Feature:
    if not isinstance(model, HttpModel):
        return Feature("logprobs", None, "not asked of this provider; nothing here needs them")
    body = dialect.body(replace(_ask("Say hello."), temperature=0.0), model.name, model.quirks)
    status, _, text, _ = await model._send("POST", "/chat/completions", {**body, "logprobs": True})
    if status >= 300:
        return Feature("logprobs", None, f"refused ({status}); nothing here needs them from a server")
    try:
        given = json.loads(text)["choices"][0].get("logprobs")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise TransientModelError("the reply holds no choice") from None
    if given:
        return Feature("logprobs", True, "given")
    return Feature("logprobs", None, "not given; nothing here needs them from a server")
