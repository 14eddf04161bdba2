"""gguf_words: llama.cpp reads text as the folder's tokenizer does, whatever splits it; what is not covered
is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill.gguf_words import by_llama_cpp, fields_for, fields_of, splitting, template_of
from roleagent_lite.distill.to_gguf import write_model
from roleagent_lite.distill.tokenizer import open_tokenizer
from roleagent_lite.errors import ConfigError
from roleagent_lite.lm.embedded import start
from roleagent_lite.types import Message
from tests import tiny, tiny_bpe

TEXTS = (
    "go to cabinet 12", " take  key", "It's 365 DON'T", "a\n\n  b\t", "né → 中文 1234567",
    "x=1; y=22\r\n", "  ", "<|end|> spelt out",
)  # fmt: skip
CHAT = (Message("system", "Act."), Message("user", "You see 123 doors."))


@pytest.mark.parametrize("rule", ["gpt-2", "smollm", "qwen2", "llama-bpe"])
def test_both_read_text_as_the_same_tokens(tmp_path: Path, rule: str) -> None:
    folder = tiny_bpe.model("llama", rule)
    assert splitting(json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))) == rule
    write_model(folder, tmp_path / "m.gguf")
    engine, tokenizer = start(tmp_path / "m.gguf", 512), open_tokenizer(str(folder))
    for text in TEXTS:
        assert list(engine.tokenize(text)) == tokenizer.encode(text), text
    prompt = tokenizer.render(CHAT)
    assert engine.render(CHAT) == prompt
    assert engine.tokenize_prompt(prompt) == tokenizer.prompt_ids(prompt)
    ids = tokenizer.prompt_ids(prompt)
    assert engine.detokenize(ids) == tokenizer.decode(ids)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    folder = tiny_bpe.model()
    write_model(folder, tmp_path / "m.gguf")
    made, read = fields_for(folder, tiny_bpe.SIZE), fields_of(tmp_path / "m.gguf")
    assert {k: f.value for k, f in made.items()} == {k: f.value for k, f in read.items()}
    tokens, kinds = (read[f"tokenizer.ggml.{k}"].value for k in ("tokens", "token_type"))
    assert len(tokens) == len(kinds) == tiny_bpe.SIZE
    assert kinds[:3] == [3, 3, 3] and kinds[-1] == 5 and tokens[-1] == f"[PAD{tiny_bpe.SIZE - 1}]"
    write_model(folder, tmp_path / "copy.gguf", tmp_path / "m.gguf")
    assert {k: f.value for k, f in fields_of(tmp_path / "copy.gguf").items()} == {
        k: f.value for k, f in read.items()
    }
    assert read["tokenizer.ggml.eos_token_id"].value == open_tokenizer(str(folder)).end_id


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}


@pytest.mark.parametrize(
    "pre",
    [
        None,
        {"type": "Whitespace"},
        {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True},
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
        {"type": "Sequence", "pretokenizers": [split(r"\w+"), {"type": "ByteLevel", "use_regex": False}]},
        {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}]},
    ],
)
def test_rules_that_llama_cpp_does_not_have_by_these_names(pre: Any) -> None:
    assert splitting({"pre_tokenizer": pre}) is None


def test_another_kind_of_tokenizer_gets_llama_cpps_own_command(tmp_path: Path) -> None:
    folder = tiny.save_tokenizer(tmp_path / "m")
    with pytest.raises(ConfigError, match=r"is no byte-level BPE .*python convert_hf_to_gguf\.py .*/m --out"):
        fields_for(folder, 200)
    assert "convert_lora_to_gguf.py" in by_llama_cpp(folder)


def test_a_template_by_itself_and_one_of_several(tmp_path: Path) -> None:
    named = [{"name": "tools", "template": "x"}, {"name": "default", "template": "y"}]
    assert template_of(tmp_path, {"chat_template": named}) == "y"
    (tmp_path / "chat_template.jinja").write_text("z", encoding="utf-8")
    assert template_of(tmp_path, {"chat_template": named}) == "z"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF and nothing more")
    with pytest.raises(ConfigError, match=r"cannot read the GGUF file .*x\.gguf"):
        fields_of(tmp_path / "x.gguf")
    with pytest.raises(ConfigError, match=r"cannot read .*tokenizer\.json"):
        fields_for(tmp_path, 10)
