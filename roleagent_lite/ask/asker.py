"""Asker: asks a module of a model, once, and once more if the reply has the wrong form.

Owns the re-ask and which failure becomes which `ReplyError`. Leaves out retries of broken transport (one
policy, in `lm/`), rendering and reading. Nothing here buys a second reply in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from roleagent_lite.ask.adapter import Envelope, Wire, signature
from roleagent_lite.ask.form import reply_form, schema
from roleagent_lite.ask.parse import Parsed
from roleagent_lite.ask.prompts import PromptFile, Prompts
from roleagent_lite.errors import (
    ConfigError,
    ContentFiltered,
    ContextTooLong,
    ModelError,
    ReplyError,
    nearest,
)
from roleagent_lite.types import Message, Model, PromptSet, Reply, Request, Role

ASKS = 2  # the first and one re-ask


@dataclass(frozen=True, slots=True)
class Answer:
    """A usable reply. `values`: every output asked for by name, None where it is missing and may be.

    `scores`: log-probabilities of the tokens of each choice (nats), where choices were given. `call_ids` are
    the recorder's, in order; two after a re-ask. `text` without thinking, `reasoning` the thinking.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    call_ids: tuple[str, ...] = ()
    scores: tuple[tuple[float, ...], ...] | None = None
    text: str = ""
    reasoning: str | None = None


class ByRole(Protocol):
    """What gives the model of a role: the pool of `lm/`, or a plain dict."""

    def __getitem__(self, role: Role, /) -> Model: ...


class Asker:
    """`models`: a model a role. `max_tokens`: the limit of a reply where
    the prompt file states none (`limits.max_tokens`). `trim`, `note`: for agents, which may leave out their
    oldest steps where a prompt does not fit (`limits.trim`), and say so once to `note`."""

    def __init__(
        self,
        models: ByRole,
        prompts: Prompts,
        *,
        max_tokens: int = 1024,
        trim: bool = False,
        note: Callable[[str], object] | None = None,
    ) -> None:
        self.max_tokens = max_tokens
        self.trim = trim
        self.note = note or (lambda _: None)
        self.models = models
        self.prompts = prompts
        self._wires: dict[int, Wire] = {}
        self._signatures: dict[str, Any] = {}
        self._texts: dict[tuple[str, str], dict[str, str]] = {}

    def model(self, module: str) -> Model:
        """The model that answers a module."""
        return self.models[self.prompts.module(module).role]

    async def ask(
        self,
        module: str,
        inputs: Mapping[str, str],
        *,
        prompt_set: PromptSet | None,
        sample: str,
        temperature: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        enums: Mapping[str, Sequence[str]] | None = None,
        counts: Mapping[str, int] | None = None,
        choices: Sequence[str] | None = None,
        stop: Sequence[str] = (),
        role: Role | None = None,
        asks: int = ASKS,
        again: Callable[[tuple[str, ...]], bool] | None = None,
    ) -> Answer:
        """One answer of `module`.

        inputs: a text for each input of the prompt file, no more and no less. prompt_set: evolved texts;
        None = the files' own. sample: tells apart calls that are otherwise equal; an episode's id, usually.
        temperature, max_tokens: None = the prompt file's, else 0 and the asker's. enums: allowed values by
        enum name. counts: length of list outputs, 0 = leave the output out. choices: candidate replies to be
        scored instead of generating. stop: texts at which a free reply ends. role: another role's model
        instead of the file's. asks: 1 = no re-ask. again: whether to re-ask after the calls of these ids.

        Raises ReplyError (bad_format; cut_off with max_tokens, context, refused, filtered;
        infrastructure_error), FatalModelError and BudgetStop as they come, ConfigError for wrong inputs.
        """
        file = self.prompts.module(module)
        _check_inputs(file, inputs)
        model = self.models[role or file.role]
        if choices is not None and not model.can_score:
            raise ConfigError(f"model '{model.name}' cannot score choices; use the agent 'generate'")
        request = Request(
            role=role or file.role,
            module=module,
            messages=(),
            temperature=file.temperature if temperature is None else temperature,
            max_tokens=max_tokens or file.max_tokens or self.max_tokens,
            seed=seed,
            choices=tuple(choices) if choices is not None else None,
            sample=sample,
            stop=tuple(stop),
        )
        envelope = Envelope(file, self._module_texts(module, prompt_set), request, enums or {}, counts or {})
        if choices is None and envelope.outputs:
            form = schema(envelope.outputs, envelope.enums, envelope.counts)
            envelope.request = replace(request, schema=form)
        return await self._exchange(envelope, inputs, self._wire(model), asks, again)

    async def _exchange(
        self,
        envelope: Envelope,
        inputs: Mapping[str, str],
        wire: Wire,
        asks: int,
        again: Callable[[tuple[str, ...]], bool] | None,
    ) -> Answer:
        calls: tuple[str, ...] = ()
        problem = ""
        for attempt in range(asks):
            try:
                parsed = await wire.send(envelope, inputs, self._signature(envelope.module))
            except ModelError as error:
                if error.fatal:
                    raise
                raise _ended(error, calls) from error
            reply, calls = _taken(envelope, calls)
            if envelope.request.choices is not None:
                return Answer({}, calls, reply.scores, reply.text, reply.reasoning)
            problem = _problem(parsed, reply, envelope, calls)
            if not problem:
                return Answer(parsed.values, calls, reply.scores, reply.text, reply.reasoning)
            if again is not None and attempt + 1 < asks and not again(calls):
                break
            if attempt + 1 < asks:
                envelope.turns = _turns(reply, problem, envelope)
        where = f"module '{envelope.module.name}'"
        if problem == _REFUSED:
            times = " twice" if asks > 1 else ""
            raise ReplyError("cut_off", "refused", f"{where}: the model refused{times}", calls)
        raise ReplyError(
            "bad_format",
            "wrong form",
            f"{where}: no usable reply{' after the re-ask' if asks > 1 else ''}: {problem}",
            calls,
        )

    def _module_texts(self, module: str, prompt_set: PromptSet | None) -> dict[str, str]:
        key = (module, prompt_set.id if prompt_set is not None else "")
        if key not in self._texts:
            self._texts[key] = self.prompts.texts(module, prompt_set)
        return self._texts[key]

    def _wire(self, model: Model) -> Wire:
        if id(model) not in self._wires:
            self._wires[id(model)] = Wire(model)  # the wire holds the model, so the id stays its own
        return self._wires[id(model)]

    def _signature(self, file: PromptFile) -> Any:
        if file.name not in self._signatures:
            self._signatures[file.name] = signature(file)
        return self._signatures[file.name]


_REFUSED = "it is a refusal"


def _taken(envelope: Envelope, calls: tuple[str, ...]) -> tuple[Reply, tuple[str, ...]]:
    assert envelope.reply is not None
    return envelope.reply, (*calls, envelope.call_id) if envelope.call_id else calls


def _problem(parsed: Parsed, reply: Reply, envelope: Envelope, calls: tuple[str, ...]) -> str:
    """ "" for a usable reply, what was wrong for one that may be asked for again; raises for the others."""
    if reply.finish == "content_filter":
        raise ReplyError("cut_off", "filtered", "the provider's content filter stopped the reply", calls)
    if reply.finish == "length" and envelope.outputs and (parsed.problem or not parsed.structured):
        limit = f"output cut at max tokens {envelope.request.max_tokens}; raise {envelope.limit_setting}"
        raise ReplyError("cut_off", "max_tokens", limit, calls)
    if reply.finish == "refusal":
        return _REFUSED
    if not reply.text.strip():
        if reply.reasoning:
            return "it holds thinking only and no answer"
        raise ReplyError("infrastructure_error", "empty reply", "the model sent an empty reply", calls)
    return parsed.problem or ""


def _turns(reply: Reply, problem: str, envelope: Envelope) -> tuple[Message, ...]:
    """What the model said, and what was wrong with it."""
    wish = f"Your reply cannot be used: {problem}."
    form = reply_form(envelope.outputs, envelope.counts)
    again = f"{wish}\nReply with one JSON object and nothing else, in this form:\n{form}"
    return (Message("assistant", reply.text.strip() or "(no text)"), Message("user", again))


def _ended(error: ModelError, calls: tuple[str, ...]) -> ReplyError:
    """What a model's error that does not end the run means for an episode."""
    if isinstance(error, ContextTooLong):
        return ReplyError("cut_off", "context", str(error), calls)
    if isinstance(error, ContentFiltered):
        return ReplyError("cut_off", "filtered", str(error), calls)
    named = [words for words in ("empty reply", "stream cut") if words in str(error)]
    return ReplyError("infrastructure_error", named[0] if named else "provider", str(error), calls)


def _check_inputs(file: PromptFile, inputs: Mapping[str, str]) -> None:
    for name in inputs:
        if name not in file.inputs:
            raise ConfigError(
                f"module '{file.name}' ({file.path}) has no input '{name}'{nearest(name, file.inputs)}"
            )
    lacking = [name for name in file.inputs if name not in inputs]
    if lacking:
        raise ConfigError(
            f"module '{file.name}' ({file.path}) needs the input '{lacking[0]}', which was not given"
        )
