"""The way through DSPy: one request, unchanged errors, our fields beside DSPy's, thinking cut off."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest

from roleagent_lite.ask.adapter import Envelope, Wire, render, signature, tidy
from roleagent_lite.ask.prompts import load_prompts
from roleagent_lite.errors import BudgetStop, FatalModelError, RoleAgentError
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.types import Call, Message, Model, Reply, Request, Usage

V1 = load_prompts("v1")
ACT = V1.module("act")
INPUTS = dict.fromkeys(ACT.inputs, "") | {"task": "Get out.", "observation": "A hall."}


def envelope(sample: str = "s", **changes: Any) -> Envelope:
    request = Request(
        "agent", "act", (), temperature=0.7, max_tokens=33, seed=5, schema={"x": 1}, sample=sample
    )
    return Envelope(ACT, V1.texts("act", None), request, **changes)


async def test_the_model_gets_our_request_once_with_messages_and_settings() -> None:
    seen: list[Request] = []

    def rule(request: Request) -> str:
        seen.append(request)
        return '{"action": "take key"}'

    model = ScriptedModel(rule)
    sent = envelope(turns=(Message("assistant", "hm"), Message("user", "again")))
    parsed = await Wire(model).send(sent, INPUTS, signature(ACT))
    assert parsed.values["action"] == "take key"
    assert model.requests == 1
    (request,) = seen
    assert [m.role for m in request.messages] == ["system", "user", "assistant", "user"]
    assert (request.temperature, request.max_tokens, request.seed) == (0.7, 33, 5)
    assert (request.role, request.module, request.sample) == ("agent", "act", "s")
    assert request.schema == {"x": 1}
    assert request.messages == render(sent, INPUTS)


async def test_concurrent_asks_keep_their_own_envelopes() -> None:
    async def rule(request: Request) -> str:
        await asyncio.sleep(0.001 * (int(request.sample) % 3))
        return f'{{"action": "go {request.sample}"}}'

    wire, shape = Wire(ScriptedModel(rule)), signature(ACT)
    asked = [envelope(str(i)) for i in range(40)]
    answers = await asyncio.gather(*(wire.send(e, INPUTS, shape) for e in asked))
    assert [a.values["action"] for a in answers] == [f"go {i}" for i in range(40)]
    assert [e.reply.text for e in asked if e.reply] == [f'{{"action": "go {i}"}}' for i in range(40)]


@pytest.mark.parametrize("error", [FatalModelError("no key", status=401), BudgetStop("spent")])
async def test_errors_come_through_unchanged_after_one_request(error: RoleAgentError) -> None:
    def rule(request: Request) -> str:
        raise error

    model = ScriptedModel(rule)
    with pytest.raises(type(error)) as caught:
        await Wire(model).send(envelope(), INPUTS, signature(ACT))
    assert caught.value is error
    assert model.requests == 1


async def test_a_recorded_models_call_id_is_kept() -> None:
    class Recorded(ScriptedModel):
        async def call(self, request: Request) -> Call:
            return Call("key-1", self.name, None, request, await self.complete(request))

    model: Model = Recorded(lambda _: Reply('{"action": "x"}', usage=Usage(3, 4)))
    sent = envelope()
    await Wire(model).send(sent, INPUTS, signature(ACT))
    assert sent.call_id == "key-1"
    assert sent.reply is not None and sent.reply.usage == Usage(3, 4)


async def test_dspy_keeps_no_history_and_no_global_settings() -> None:
    import dspy

    wire = Wire(ScriptedModel(lambda _: '{"action": "x"}'))
    await wire.send(envelope(), INPUTS, signature(ACT))
    assert dspy.settings.lm is None and dspy.settings.adapter is None
    assert wire._lm.history == []


@pytest.mark.parametrize(
    ("text", "answer", "thinking"),
    [
        (
            'maybe drop key first</think>\n{"action":"take key"}',
            '{"action":"take key"}',
            "maybe drop key first",
        ),
        ('<think>hm</think>{"action":"take key"}', '{"action":"take key"}', "hm"),
        ('{"action":"take key"}', '{"action":"take key"}', None),
        ("\ud83d\udd11 \ud83d", "\U0001f511 \ufffd", None),
    ],
)
def test_rep_03_thinking_goes_into_its_own_field(text: str, answer: str, thinking: str | None) -> None:
    tidied = tidy(Reply(text))
    assert (tidied.text, tidied.reasoning) == (answer, thinking)


def test_rep_03_thinking_of_the_server_and_in_the_text_are_joined() -> None:
    assert tidy(Reply("b</think>c", reasoning="a")).reasoning == "a\nb"


async def test_rep_10_lone_surrogates_in_an_observation_do_not_stop_the_request() -> None:
    seen: list[str] = []

    def rule(request: Request) -> str:
        seen.append(request.messages[-1].content)
        return '{"action": "x"}'

    odd = INPUTS | {"observation": "key \ud83d\udd11, half \ud83d, nul \x00, العربية"}
    await Wire(ScriptedModel(rule)).send(envelope(), odd, signature(ACT))
    assert "key \U0001f511, half \ufffd, nul \x00, العربية" in seen[0]


def test_a_signature_has_the_files_fields_and_types() -> None:
    act = signature(ACT, "Play well.")
    assert list(act.input_fields) == list(ACT.inputs)
    assert act.instructions == "Play well."
    assert act.output_fields["action"].annotation is str
    assert type(None) in get_args(act.output_fields["predictions"].annotation)
    assert signature(V1.module("diagnose")).output_fields["critical_step"].annotation is int
    assert signature(V1.module("judge")).instructions == V1.module("judge").description
