"""A chat as one text: the template of a model's folder, and the rules for what a template refuses.

Owns rendering a Jinja chat template the way Hugging Face's tokenizers do, and three stated rules: a system
role that the template refuses or loses goes in front of the first user message; neighbours of one role are
joined where the template wants turns to alternate; a last message of the assistant is left open. Leaves out
tokens (tokenizer.py). The only door to jinja2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Message

Render = Callable[[Sequence[Message]], str]
SYSTEM_MERGED = "system text moved into the first user message"
TURNS_JOINED = "neighbouring messages of one role joined"


class Refused(Exception):
    """A template that does not take these messages; the text says why."""


def template_render(source: str, special: Mapping[str, str]) -> Render:
    """A function from messages to the prompt text, ready for the model's reply.

    source: the Jinja template; special: bos_token, eos_token and so on, as the template names them. A last
    message of the assistant is left open. The function raises Refused. Raises ConfigError where `source` is
    no template.
    """
    from jinja2 import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise Refused(message)

    def tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = _fixed_date
    try:
        template = environment.from_string(_without_generation(source))
    except TemplateError as error:
        raise ConfigError(f"the model's chat template cannot be read: {error}") from None

    def render(messages: Sequence[Message]) -> str:
        begun = bool(messages) and messages[-1].role == "assistant"
        plain = [{"role": m.role, "content": m.content} for m in messages]
        try:
            text = template.render(messages=plain, add_generation_prompt=not begun, **special)
        except TemplateError as error:
            raise Refused(str(error)) from None
        return left_open(text, messages[-1].content) if begun else text

    return render


def left_open(text: str, last: str) -> str:
    """`text` up to the end of its last message `last`. Raises Refused where the template changed it."""
    for form in (last, last.strip()):
        at = text.rfind(form)
        if form and at >= 0:
            return text[: at + len(form)]
    raise Refused("the template changes the reply that was begun, so it cannot be left open")


def _fixed_date(pattern: str) -> str:
    """Some templates write today's date into the prompt; training data must not change overnight."""
    import datetime

    return datetime.date(2026, 1, 1).strftime(pattern)


def _without_generation(source: str) -> str:
    """Without the tags that mark replies for Hugging Face's own masks: ours are by position."""
    import re

    return re.sub(r"\{%-?\s*(?:end)?generation\s*-?%\}", "", source)


def prompt_text(render: Render, messages: Sequence[Message]) -> tuple[str, tuple[str, ...]]:
    """The prompt of `messages`, and which of the rules at the head of this file were used.

    Raises ConfigError where the template takes the messages in no form.
    """
    notes: list[str] = []
    current = list(messages)
    try:
        text = render(current)
        if _all_there(text, current):
            return text, ()
    except Refused:
        pass
    if any(m.role == "system" for m in current):
        current = _system_merged(current)
        notes.append(SYSTEM_MERGED)
        try:
            return render(current), tuple(notes)
        except Refused:
            pass
    joined = _joined(current)
    if len(joined) < len(current):
        notes.append(TURNS_JOINED)
    try:
        return render(joined), tuple(notes)
    except Refused as error:
        raise ConfigError(f"the model's chat template refuses the messages of this run: {error}") from None


def _all_there(text: str, messages: Sequence[Message]) -> bool:
    """Whether the template kept the system text: some leave it out without a word."""
    return all(m.content.strip() in text for m in messages if m.role == "system")


def _system_merged(messages: Sequence[Message]) -> list[Message]:
    system = "\n\n".join(m.content for m in messages if m.role == "system")
    rest = [m for m in messages if m.role != "system"]
    first = next((k for k, m in enumerate(rest) if m.role == "user"), None)
    if first is None:
        return [Message("user", system), *rest]
    rest[first] = Message("user", f"{system}\n\n{rest[first].content}")
    return rest


def _joined(messages: Sequence[Message]) -> list[Message]:
    out: list[Message] = []
    for message in messages:
        if out and out[-1].role == message.role:
            out[-1] = Message(message.role, f"{out[-1].content}\n\n{message.content}")
        else:
            out.append(message)
    return out
