"""A Modelfile for Ollama: the GGUF file, the chat template in Go's words, and where a reply ends.

Owns reading a chat template's form off what it renders, for Ollama does not run Jinja: what stands before and
behind a message of each role. The form is played again and compared with the template before it is used.
Leaves out the GGUF file itself (to_gguf.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roleagent_lite.distill.chat import Refused
from roleagent_lite.distill.tokenizer import Tokenizer
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Message

_SYSTEM = Message("system", "qzsystemqz")
_USER = Message("user", "qzuserqz")
_REPLY = Message("assistant", "qzreplyqz")
_WHOLE = (_SYSTEM, _USER, _REPLY, _USER)


@dataclass(frozen=True, slots=True)
class Form:
    """A chat template as pieces. around: by role, what stands before a message and behind it; head: what
    every chat begins with; opening: what opens a reply; system: the system text of a chat that has none."""

    around: Mapping[str, tuple[str, str]]
    head: str
    opening: str
    system: str

    def render(self, chat: Sequence[Message]) -> str:
        """`chat` as Ollama plays it, ready for the reply."""
        if self.system and chat[0].role != "system":
            chat = (Message("system", self.system), *chat)
        parts = [self.around[m.role][0] + m.content + self.around[m.role][1] for m in chat]
        return self.head + "".join(parts) + self.opening


def form_of(tokenizer: Tokenizer) -> Form:
    """The form of a model's chat template.

    Raises ConfigError where it is not made of such pieces, for example where it treats places differently.
    """
    end = tokenizer.decode([tokenizer.end_id])
    try:
        whole, roles = tokenizer.render(_WHOLE), ["system", "user", "assistant"]
    except Refused:
        whole, roles = tokenizer.render(_WHOLE[1:]), ["user", "assistant"]
    try:
        alone = tokenizer.render([_USER]).split(_USER.content)[0]
        start, between, _ = whole.split(_USER.content)
        after_user, opening = _cut(between.split(_REPLY.content)[0], end)
        after_reply, before_user = _cut(between.split(_REPLY.content)[1], end)
        around = {"user": (before_user, after_user), "assistant": (opening, after_reply)}
        lead = alone.removesuffix(before_user)  # a beginning, or a system message that the template has ready
        system = ""
        if "system" in roles:
            before, behind = start.split(_SYSTEM.content)
            around["system"] = (before, behind.removesuffix(before_user))
            if lead.startswith(before) and lead.endswith(around["system"][1]):
                system = lead[len(before) : len(lead) - len(around["system"][1])]
                lead = ""
            around["system"] = (before.removeprefix(lead), around["system"][1])
    except ValueError:  # a message is missing or stands there twice
        raise ConfigError(_NOT_ALIKE) from None
    form = Form(around, lead, opening, system)
    chats = [_WHOLE, _WHOLE[:2], [Message("system", "a b"), *_WHOLE[1:]]] if "system" in roles else []
    for chat in [*chats, _WHOLE[1:], [_USER], [_USER, _REPLY, _USER, _REPLY, _USER]]:
        if form.render(chat) != tokenizer.render(chat):
            raise ConfigError(_NOT_ALIKE)
    return form


_NOT_ALIKE = (
    "the model's chat template treats messages differently by their place, which an Ollama template made of "
    "fixed pieces cannot; export gguf, and serve it with a program that runs Jinja (llama-server --jinja)"
)


def modelfile(tokenizer: Tokenizer, file: str, adapter: str = "") -> str:
    """The text of a Modelfile for the GGUF `file` beside it (and a GGUF adapter).

    Raises ConfigError for a chat template that Ollama's cannot say.
    """
    form = form_of(tokenizer)
    roles = [role for role in ("system", "user", "assistant") if role in form.around]
    branches = "".join(
        f'{{{{ {"if" if n == 0 else "else if"} eq .Role "{role}" }}}}'
        f"{form.around[role][0]}{{{{ .Content }}}}{form.around[role][1]}"
        for n, role in enumerate(roles)
    )
    template = f"{form.head}{{{{ range .Messages }}}}{branches}{{{{ end }}}}{{{{ end }}}}{form.opening}"
    if '"""' in template + form.system:
        raise ConfigError("the model's chat template holds three quotes in a row, which a Modelfile cannot")
    lines = [f"FROM ./{file}"]
    lines += [f"ADAPTER ./{adapter}"] if adapter else []
    lines += [f'TEMPLATE """{template}"""']
    lines += [f'SYSTEM """{form.system}"""'] if form.system else []
    lines += [f'PARAMETER stop "{tokenizer.decode([tokenizer.end_id])}"']
    return "\n".join(lines) + "\n"


def _cut(joint: str, end: str) -> tuple[str, str]:
    """What stands between two messages, cut behind the token that ends a turn and its white space."""
    before, found, rest = joint.partition(end)
    if not found:
        return "", joint
    kept = rest.lstrip()
    return before + found + rest[: len(rest) - len(kept)], kept
