"""Splits a reply into answer and thinking, for servers that leave both in one text.

Owns the tag names and the rule. Leaves out fences and JSON (ask). Pure.

The rule: text inside a pair of tags is thinking; a closing tag without an opening one makes everything
before it thinking (the chat template had opened it); an opening tag without a closing one makes everything
after it thinking (the model never came to an answer). A text that is one JSON value is left alone, so that
a tag quoted inside an answer stays there.
"""

from __future__ import annotations

import json
import re

_NAMES = "think|thinking|thought|thoughts|reasoning|reflection|seed:think"
_TAG = re.compile(
    rf"<\s{{0,3}}(?P<close1>/?)\s{{0,3}}(?:{_NAMES})\s{{0,3}}>"  # DeepSeek, Qwen and most others
    r"|\[(?P<close2>/?)THINK\]"  # Mistral
    r"|◁(?P<close3>/?)think▷",  # Kimi
    re.IGNORECASE,
)
_FINAL = re.compile(r"<\|channel\|>\s*final\s*(?:<\|constrain\|>\s*\w+\s*)?<\|message\|>")  # gpt-oss
_CONTROL = re.compile(
    r"<\|(?:channel|message|start|end|return|constrain)\|>(?:analysis|commentary|assistant)?"
)


def split(text: str) -> tuple[str, str | None]:
    """(answer, thinking or None). The answer is stripped only where something was taken out of it."""
    if "<" not in text and "[" not in text and "◁" not in text:
        return text, None
    finals = list(_FINAL.finditer(text))
    if finals:
        thinking = _CONTROL.sub(" ", text[: finals[-1].start()]).strip()
        return _CONTROL.sub("", text[finals[-1].end() :]).strip(), thinking or None
    tags = list(_TAG.finditer(text))
    if not tags or _is_json(text):
        return text, None
    answer: list[str] = []
    thinking_parts: list[str] = []
    open_at: int | None = None
    last = 0
    for tag in tags:
        closing = any(tag.group(f"close{i}") for i in (1, 2, 3))
        if not closing and open_at is None:
            answer.append(text[last : tag.start()])
            open_at = tag.end()
        elif closing and open_at is not None:
            thinking_parts.append(text[open_at : tag.start()])
            open_at = None
        elif closing:
            thinking_parts += [*answer, text[last : tag.start()]]
            answer = []
        else:
            continue  # an opening tag inside thinking is part of it
        last = tag.end()
    if open_at is None:
        answer.append(text[last:])
    else:
        thinking_parts.append(text[open_at:])
    thinking = "\n".join(part.strip() for part in thinking_parts if part.strip())
    return "".join(answer).strip(), thinking or None


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[", '"')):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
