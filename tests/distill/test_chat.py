"""chat: templates as Hugging Face renders them, and what they refuse."""

from __future__ import annotations

import pytest

from roleagent_lite.distill.chat import (
    SYSTEM_MERGED,
    TURNS_JOINED,
    Refused,
    left_open,
    prompt_text,
    template_render,
)
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Message
from tests import tiny

SYSTEM, USER, ASSISTANT = Message("system", "S"), Message("user", "U"), Message("assistant", "A")


def render(source: str):  # type: ignore[no-untyped-def]
    return template_render(source, {"bos_token": "<s>", "eos_token": "</s>"})


def test_the_prompt_ends_where_the_reply_begins() -> None:
    assert (
        render(tiny.CHATML)([SYSTEM, USER])
        == "<|start|>system\nS<|end|>\n<|start|>user\nU<|end|>\n<|start|>assistant\n"
    )
    assert render("{{ bos_token }}{{ messages[0]['content'] }}")([USER]) == "<s>U"


def test_a_begun_reply_is_left_open() -> None:
    text = render(tiny.CHATML)([USER, Message("assistant", "Goal: out\n>")])
    assert text.endswith("assistant\nGoal: out\n>")
    assert left_open("a reply </s>", " reply ") == "a reply "
    assert left_open("a reply</s>", " reply ") == "a reply"
    with pytest.raises(Refused, match="changes the reply"):
        left_open("other", "reply")


def test_a_system_text_that_is_refused_or_lost_goes_to_the_user() -> None:
    for source in (tiny.NO_SYSTEM, tiny.DEAF):
        text, notes = prompt_text(render(source), [SYSTEM, USER])
        assert text == "<|start|>user\nS\n\nU<|end|>\n<|start|>assistant\n"
        assert notes == (SYSTEM_MERGED,)
    assert prompt_text(render(tiny.CHATML), [SYSTEM, USER])[1] == ()


def test_turns_that_must_alternate_are_joined() -> None:
    text, notes = prompt_text(render(tiny.STRICT), [SYSTEM, USER, USER, ASSISTANT, USER])
    assert text.count("<|start|>user") == 2 and "S\n\nU\n\nU" in text
    assert notes == (SYSTEM_MERGED, TURNS_JOINED)


def test_a_template_that_takes_nothing_says_why() -> None:
    with pytest.raises(ConfigError, match="refuses the messages of this run: no chats here"):
        prompt_text(render("{{ raise_exception('no chats here') }}"), [USER])
    with pytest.raises(ConfigError, match="cannot be read"):
        render("{% for %}")


def test_a_template_cannot_reach_the_machine() -> None:
    with pytest.raises(Refused):
        render("{{ ''.__class__.__mro__[1].__subclasses__() }}")([USER])


def test_what_templates_use_of_huggingfaces_environment() -> None:
    source = (
        "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{% generation %}{{ m | tojson }}"
        "{% endgeneration %}{% endfor %}{{ strftime_now('%Y') }}"
    )
    assert render(source)([SYSTEM, Message("user", "é<")]).startswith('{"role": "user", "content": "é<"}20')
