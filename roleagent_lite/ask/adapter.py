"""The door to DSPy: a signature made from a prompt file, an engine around one of our models, and an adapter
that renders the prompt, carries exactly one request and reads the reply.

Owns the translation between DSPy's typed requests and our nouns. Leaves out the re-ask and the error policy
(asker). `dspy.configure` is never called, and DSPy's cache, history and retries stay off: the recorder and
the one retry policy of `lm/` stand behind the engine.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from roleagent_lite.ask.form import reply_form, wanted
from roleagent_lite.ask.parse import Parsed, read_reply
from roleagent_lite.ask.prompts import REPLY_FORM, Output, PromptFile, fill
from roleagent_lite.ask.quote import headings, shown
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.lm.thinking import split
from roleagent_lite.redact import clean, mend
from roleagent_lite.types import Message, Model, Reply, Request


@dataclass(slots=True)
class Envelope:
    """One ask: what DSPy's request has no room for, and what came back.

    `request` holds all but the messages; `turns` are added behind them (the re-ask). The caller puts the
    envelope into a context variable; DSPy's thread hops copy the context, so that the engine answers into
    the same object.
    """

    module: PromptFile
    texts: Mapping[str, str]
    request: Request
    enums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    turns: tuple[Message, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    reply: Reply | None = None
    call_id: str = ""
    error: RoleAgentError | None = None

    @property
    def outputs(self) -> tuple[Output, ...]:
        return wanted(self.module.outputs, self.counts)

    @property
    def limit_setting(self) -> str:
        """What a user changes to allow a longer reply."""
        return f"max_tokens in {self.module.path}" if self.module.max_tokens else "limits.max_tokens"


_current: ContextVar[Envelope] = ContextVar("roleagent_ask")


def render(envelope: Envelope, inputs: Mapping[str, str]) -> tuple[Message, ...]:
    """The messages of an ask: stable text in the system message, what changes last in the user's.

    Inputs cannot pass for the prompt's own headings (`quote`), and no key leaves in a prompt.
    """
    file = envelope.module
    marks = headings(file.system, file.user, file.assistant)
    quoted = {name: shown(text, marks) for name, text in inputs.items()}
    values = {**envelope.texts, **quoted, REPLY_FORM: reply_form(envelope.outputs, envelope.counts)}
    system = str(clean(fill(file.system, values)))
    user = Message("user", str(clean(fill(file.user, values))))
    begun = str(clean(fill(file.assistant, values)))
    own = (Message("assistant", begun),) if begun and not envelope.turns else ()
    return ((Message("system", system),) if system else ()) + (user, *own, *envelope.turns)


def tidy(reply: Reply) -> Reply:
    """The reply with thinking out of its text and text that can be encoded."""
    text, thinking = split(reply.text)
    reasoning = "\n".join(part for part in (reply.reasoning, thinking) if part)
    return replace(reply, text=mend(text), reasoning=mend(reasoning) or None)


@cache
def _classes() -> tuple[type[Any], type[Any], type[Any]]:
    """Adapter, engine and asynchronous engine; made at first use, for importing DSPy takes a second."""
    import dspy
    from dspy import lm15

    for name in (
        "dspy.clients.lm",
        "dspy.clients.model_metadata",
    ):  # cut replies and prices are ours to report
        logging.getLogger(name).setLevel(logging.ERROR)

    class Engine:
        def __init__(self, model: Model) -> None:
            self.model = model

        def complete(self, request: Any) -> Any:
            raise NotImplementedError("an ask is asynchronous")

        def close(self) -> None:
            """The model belongs to its pool."""

    class AsyncEngine(Engine):
        async def complete(self, request: Any) -> Any:
            envelope = _current.get()
            reply = Reply("", finish="error")
            try:
                reply, envelope.call_id = await _send(self.model, _from_dspy(envelope.request, request))
            except RoleAgentError as error:  # DSPy would wrap it; the adapter raises it as it is
                envelope.error = error
            envelope.reply = reply
            return _to_dspy(lm15, request.model, reply)

    class OneRequest(dspy.Adapter):  # type: ignore[misc]
        def __init__(self, engine: AsyncEngine) -> None:
            super().__init__()
            self.engine = engine

        def format(self, signature: Any, demos: Any, inputs: Any) -> Any:
            return render(_current.get(), inputs)

        def parse(self, signature: Any, completion: str) -> Any:
            envelope = _current.get()
            return read_reply(completion, envelope.outputs, envelope.enums, tuple(envelope.inputs.values()))

        async def acall(self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: Any) -> Any:
            envelope = _current.get()
            messages = self.format(signature, demos, inputs)
            make = {"user": lm15.Message.user, "assistant": lm15.Message.assistant}
            request = lm15.Request(
                model=lm.model,
                system="\n\n".join(m.content for m in messages if m.role == "system") or None,
                messages=tuple(make[m.role](m.content) for m in messages if m.role != "system"),
                config=lm15.Config(**lm_kwargs),
            )
            # Straight to the engine: `lm.acall` would add two thread hops and nothing that is used here.
            await self.engine.complete(request)
            if envelope.error is not None:
                raise envelope.error
            assert envelope.reply is not None
            envelope.reply = tidy(envelope.reply)
            return [self.parse(signature, envelope.reply.text)]

    return OneRequest, Engine, AsyncEngine


def _from_dspy(request: Request, sent: Any) -> Request:
    """Our request with the messages and settings of DSPy's."""
    system = (Message("system", sent.system),) if sent.system else ()
    turns = tuple(Message(m.role, m.text or "") for m in sent.messages)
    config = sent.config
    return replace(
        request,
        messages=system + turns,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        seed=config.seed,
    )


def _to_dspy(lm15: Any, model: str, reply: Reply) -> Any:
    parts = [lm15.ThinkingPart(mend(reply.reasoning))] if reply.reasoning else []
    finish = reply.finish if reply.finish in ("stop", "length", "content_filter", "error") else "stop"
    usage = lm15.Usage(input_tokens=reply.usage.input or 0, output_tokens=reply.usage.output or 0)
    message = lm15.Message.assistant([*parts, lm15.TextPart(mend(reply.text))])
    return lm15.Response(id=None, model=model, message=message, finish_reason=finish, usage=usage)


async def _send(model: Model, request: Request) -> tuple[Reply, str]:
    """The reply and the recorder's id of the call ("" where the model is not a recorded one)."""
    call = getattr(model, "call", None)
    if call is None:
        return await model.complete(request), ""
    record = await call(request)
    return record.reply, record.id


def signature(module: PromptFile, instructions: str = "") -> Any:
    """A `dspy.Signature` of a module: named inputs, typed outputs, `instructions` or the description."""
    import dspy

    kinds: dict[str, Any] = {"string": str, "integer": int, "number": float, "list[string]": list[str]}
    fields: dict[str, Any] = {n: (str, dspy.InputField(desc=d)) for n, d in module.inputs.items()}
    for output in module.outputs:
        kind = kinds.get(output.type, list[dict[str, Any]])
        fields[output.name] = (
            kind if output.required else kind | None,
            dspy.OutputField(desc=output.description),
        )
    return dspy.Signature(fields, instructions or module.description)


class Wire:
    """One of our models behind DSPy's typed call."""

    def __init__(self, model: Model) -> None:
        import dspy

        adapter, engine, async_engine = _classes()
        self.model = model
        answering = async_engine(model)
        self._adapter = adapter(answering)
        self._lm = dspy.LM(
            "roleagent/model",
            engine=engine(model),
            async_engine=answering,
            cache=False,
            num_retries=0,
        )
        self._context = dspy.context

    async def send(self, envelope: Envelope, inputs: Mapping[str, str], signature: Any) -> Parsed:
        """Asks once; `envelope.reply` and `call_id` are filled. Raises what the model raises, unchanged."""
        asked, envelope.inputs = envelope.request, inputs
        config = {"temperature": asked.temperature, "max_tokens": asked.max_tokens, "seed": asked.seed}
        token = _current.set(envelope)
        try:
            with self._context(lm=self._lm, adapter=self._adapter, disable_history=True):
                answers = await self._adapter.acall(self._lm, config, signature, [], dict(inputs))
        finally:
            _current.reset(token)
        parsed: Parsed = answers[0]
        return parsed
