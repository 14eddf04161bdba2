"""tokenizer: what is opened for a model string, which token ends a turn, and that nothing gets lost."""

from __future__ import annotations

import builtins
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.distill.tokenizer import GgufTokenizer, open_tokenizer, wrap
from roleagent_lite.errors import ConfigError, MissingExtra, ModelError, RoleAgentError
from roleagent_lite.types import Message
from tests import tiny

CHAT = (Message("system", "Act."), Message("user", "Get out."))


def test_a_folder_gives_text_back_exactly(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(str(tiny.save_tokenizer(tmp_path)))
    for text in ("take key", "You take key from hook.", ' {"a": 1}\n\n→', "zebra", "  two  blanks "):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    prompt = tokenizer.render(CHAT)
    assert tokenizer.decode(tokenizer.prompt_ids(prompt)) == prompt


def test_control_tokens_spelt_in_a_reply_are_plain_text(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(str(tiny.save_tokenizer(tmp_path)))
    assert tokenizer.prompt_ids("<|end|>") == [tokenizer.end_id]
    ids = tokenizer.encode("<|end|>")
    assert tokenizer.end_id not in ids and tokenizer.decode(ids) == "<|end|>"


@pytest.mark.parametrize(
    ("template", "end"),
    [
        (tiny.CHATML, "<|end|>"),
        (tiny.CHATML.replace("<|end|>", ""), "<|text|>"),  # the template marks no end: end of text
        ("{{ raise_exception('one turn only') if messages | length > 1 }}", "<|text|>"),
    ],
)
def test_the_token_that_ends_a_turn(tmp_path: Path, template: str, end: str) -> None:
    # In the second case the next control token is the user's start, which the template puts on a new line.
    if "end" not in end:
        template = template.replace("\n{% endfor %}", "\nNext{% endfor %}")
    tokenizer = open_tokenizer(str(tiny.save_tokenizer(tmp_path, template)))
    assert tokenizer.decode([tokenizer.end_id]) == end


def test_no_end_no_template_no_files(tmp_path: Path) -> None:
    tiny.save_tokenizer(tmp_path / "a", tiny.CHATML.replace("<|end|>", "Next"), eos_token=None)
    with pytest.raises(ConfigError, match="would never stop"):
        open_tokenizer(str(tmp_path / "a"))
    tiny.save_tokenizer(tmp_path / "b", "")
    with pytest.raises(ConfigError, match="no chat template"):
        open_tokenizer(str(tmp_path / "b"))
    (tmp_path / "c").mkdir()
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        open_tokenizer(str(tmp_path / "c"))
    with pytest.raises(ConfigError, match="neither a folder, a GGUF file"):
        open_tokenizer("nothing-of-the-kind")
    with pytest.raises(ConfigError, match="cannot read the model file"):
        open_tokenizer(str(tmp_path / "no.gguf"))


def test_padding_is_the_models_or_the_end(tmp_path: Path) -> None:
    own = open_tokenizer(str(tiny.save_tokenizer(tmp_path / "a", pad={"content": "<|pad|>"})))  # type: ignore[arg-type]
    assert own.decode([own.pad_id]) == "<|pad|>"
    without = open_tokenizer(str(tiny.save_tokenizer(tmp_path / "b", pad=None)))
    assert without.pad_id == without.end_id


def test_a_template_file_and_named_templates(tmp_path: Path) -> None:
    folder = tiny.save_tokenizer(tmp_path)
    (folder / "chat_template.jinja").write_text("<|start|>{{ messages[0].content }}<|end|>", encoding="utf-8")
    assert open_tokenizer(str(folder)).render(CHAT) == "<|start|>Act.<|end|>"
    (folder / "chat_template.jinja").unlink()
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    named = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**config, "chat_template": named}), encoding="utf-8"
    )
    assert open_tokenizer(str(folder)).render(CHAT) == "D"
    (folder / "tokenizer_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot read"):
        open_tokenizer(str(folder))


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("No module named 'transformers'"), RuntimeError("broken")]
)
def test_mod_01_a_folder_that_only_transformers_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    real = builtins.__import__

    def broken(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "transformers":
            raise error
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(MissingExtra, match=r"roleagent-lite\[distill\]"):
        open_tokenizer(str(tmp_path))


def test_a_hub_that_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def refuse(*_: Any, **__: Any) -> str:
        raise OSError("offline\nmore")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(
        RoleAgentError, match="cannot fetch the tokenizer of some/model from the model hub: offline;"
    ):
        open_tokenizer("some/model")


def test_a_hub_that_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    tiny.save_tokenizer(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    assert open_tokenizer("some/model").name == "some/model"


class Engine:
    """A stand-in for llama.cpp's tokenizer over TINY's; it refuses system messages."""

    def __init__(self, folder: Path) -> None:
        self.inner = open_tokenizer(str(folder))

    def render(self, messages: Sequence[Message]) -> str:
        if messages[0].role == "system":
            raise ModelError("System role not supported")
        return self.inner.render(messages)

    def tokenize_prompt(self, text: str) -> list[int]:
        return self.inner.prompt_ids(text)

    def tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(self.inner.encode(text))

    def detokenize(self, ids: Sequence[int]) -> str:
        return self.inner.decode(ids)


def test_a_gguf_file_through_llama_cpp(tmp_path: Path) -> None:
    from roleagent_lite.distill.chat import Refused

    tokenizer = GgufTokenizer("embedded:x", Engine(tiny.save_tokenizer(tmp_path)))
    assert tokenizer.decode([tokenizer.end_id]) == "<|end|>" and tokenizer.pad_id == tokenizer.end_id
    assert tokenizer.decode(tokenizer.encode("take key")) == "take key"
    assert tokenizer.prompt_ids("<|end|>") == [tokenizer.end_id]
    with pytest.raises(Refused, match="System role"):
        tokenizer.render(CHAT)


@pytest.mark.embedded
def test_the_embedded_models_own(tmp_path: Path) -> None:
    tokenizer = open_tokenizer("embedded")
    assert tokenizer.decode([tokenizer.end_id]) == "<|im_end|>"
    for text in (" go to cabinet 1", 'é → {"a": "b"}', "<|im_end|>"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.end_id not in tokenizer.encode("<|im_end|>")
    text = tokenizer.render((*CHAT, Message("assistant", "Goal: x\n>")))
    assert text.endswith("<|im_start|>assistant\nGoal: x\n>")
    assert tokenizer.decode(tokenizer.prompt_ids(text)) == text


def test_transformers_tokenizer_gives_the_same(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the distill extra", exc_type=ImportError)
    from transformers import AutoTokenizer

    folder = tiny.save_tokenizer(tmp_path)
    ours, theirs = open_tokenizer(str(folder)), wrap(AutoTokenizer.from_pretrained(folder))
    assert (ours.end_id, ours.pad_id) == (theirs.end_id, theirs.pad_id)
    for chat in (
        CHAT,
        (*CHAT, Message("assistant", "take")),
        (*CHAT, Message("assistant", "a"), Message("user", "b")),
    ):
        assert ours.render(chat) == theirs.render(chat)
        assert ours.prompt_ids(ours.render(chat)) == theirs.prompt_ids(theirs.render(chat))
    for text in ("take key", "<|end|>", "zebra →"):
        assert ours.encode(text) == theirs.encode(text)
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text))
