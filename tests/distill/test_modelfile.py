"""modelfile: Ollama's words for a chat template, read off what it renders, and played back by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roleagent_lite.distill.modelfile import form_of, modelfile
from roleagent_lite.distill.tokenizer import Tokenizer, open_tokenizer
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Message
from tests import tiny

CHAT = (
    Message("system", "Act."),
    Message("user", "You see a door."),
    Message("assistant", "open door"),
    Message("user", "It is open."),
)
DEFAULT = "{% if messages[0].role != 'system' %}<|start|>system\nBe good.<|end|>\n{% endif %}" + tiny.CHATML
LLAMA3 = (
    "{% for m in messages %}<|start|>{{ m.role }}<|text|>\n\n{{ m.content | trim }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant<|text|>\n\n{% endif %}"
)


def tokenizer(folder: Path, template: str) -> Tokenizer:
    return open_tokenizer(str(tiny.save_tokenizer(folder, template)))


def played(text: str, chat: tuple[Message, ...]) -> str:
    """What Ollama makes of `chat` by a Modelfile: its template has one loop over messages by role."""
    found = re.search(r'TEMPLATE """(.*?)"""', text, re.S)
    assert found is not None
    loop = re.fullmatch(r"(.*?)\{\{ range \.Messages \}\}(.*)\{\{ end \}\}\{\{ end \}\}(.*)", found[1], re.S)
    assert loop is not None
    branches = re.split(r'\{\{ (?:else )?if eq \.Role "(\w+)" \}\}', loop[2])[1:]
    by_role = dict(zip(branches[::2], branches[1::2], strict=True))
    said = re.search(r'SYSTEM """(.*?)"""', text, re.S)
    if said is not None and chat[0].role != "system":
        chat = (Message("system", said[1]), *chat)
    return loop[1] + "".join(by_role[m.role].replace("{{ .Content }}", m.content) for m in chat) + loop[3]


@pytest.mark.parametrize("template", [tiny.CHATML, DEFAULT, LLAMA3], ids=["chatml", "default", "llama3"])
def test_ollama_makes_the_same_prompt(tmp_path: Path, template: str) -> None:
    own = tokenizer(tmp_path, template)
    text = modelfile(own, "model-f16.gguf")
    for chat in (CHAT, CHAT[1:], CHAT[:2], CHAT[1:2]):
        assert played(text, chat) == own.render(chat)
    assert text.startswith("FROM ./model-f16.gguf\n") and 'PARAMETER stop "<|end|>"' in text
    assert ("SYSTEM" in text) == (template is DEFAULT)


def test_an_adapter_stands_beside_its_base(tmp_path: Path) -> None:
    text = modelfile(tokenizer(tmp_path, tiny.CHATML), "base.gguf", "adapter.gguf")
    assert text.splitlines()[:2] == ["FROM ./base.gguf", "ADAPTER ./adapter.gguf"]


def test_a_template_without_a_system_role(tmp_path: Path) -> None:
    own = tokenizer(tmp_path, tiny.NO_SYSTEM)
    form = form_of(own)
    assert sorted(form.around) == ["assistant", "user"] and form.opening == "<|start|>assistant\n"
    assert form.system == form.head == ""
    assert played(modelfile(own, "x.gguf"), CHAT[1:]) == own.render(CHAT[1:]) == form.render(CHAT[1:])


def test_a_token_that_begins_every_chat_stands_once(tmp_path: Path) -> None:
    own = tokenizer(tmp_path, "<|text|>" + tiny.CHATML)
    assert form_of(own).head == "<|text|>"
    text = modelfile(own, "x.gguf")
    assert played(text, CHAT) == own.render(CHAT) and played(text, CHAT[1:2]) == own.render(CHAT[1:2])


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ loop.index }}{{ m.content }}<|end|>{% endfor %}",
        tiny.THINKING,
        tiny.CHATML.replace("{{ m.content }}", "{{ m.content if loop.index < 4 else 'x' }}"),
        tiny.DEAF,
    ],
    ids=["by number", "thinking", "loses a message", "deaf to system"],
)
def test_a_template_that_ollama_cannot_say(tmp_path: Path, template: str) -> None:
    with pytest.raises(ConfigError, match="treats messages differently by their place"):
        form_of(tokenizer(tmp_path, template))


def test_three_quotes_end_a_modelfile(tmp_path: Path) -> None:
    quoted = tiny.CHATML.replace("<|start|>", '<|start|>"""')
    with pytest.raises(ConfigError, match="three quotes in a row"):
        modelfile(tokenizer(tmp_path, quoted), "x.gguf")
