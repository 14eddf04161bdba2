"""weights: what a model string means to the trainer, and that a GGUF file is converted once."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roleagent_lite.distill import weights
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.types import Progress
from tests import tiny


def test_a_folder_must_be_a_models(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config\.json"):
        weights.model_folder(str(tmp_path))
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert weights.model_folder(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("name", ["nothing", "/no/such/place", "./own/model", "a/b/c"])
def test_what_is_no_model(name: str) -> None:
    with pytest.raises(ConfigError, match="neither a folder"):
        weights.model_folder(name)


def test_a_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    assert weights.model_folder("some/model") == tmp_path

    def refuse(*_: Any, **__: Any) -> str:
        raise OSError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(RoleAgentError, match="cannot fetch some/model from the model hub: offline"):
        weights.model_folder("some/model")


class Model:
    """A stand-in for what transformers makes of a GGUF file: it saves only without its quantised marks."""

    def __init__(self) -> None:
        self.config = SimpleNamespace(quantization_config={})
        self.is_quantized = True
        self.hf_quantizer: Any = object()

    def to(self, _: Any) -> Model:
        return self

    def save_pretrained(self, folder: Path) -> None:
        assert not vars(self.config) and not self.is_quantized and self.hf_quantizer is None
        (folder / "config.json").write_text("{}", encoding="utf-8")


def stand_in(monkeypatch: pytest.MonkeyPatch, fault: Exception | None = None) -> list[str]:
    asked: list[str] = []

    def model(folder: str, gguf_file: str, **_: Any) -> Model:
        asked.append(gguf_file)
        if fault is not None:
            raise fault
        return Model()

    tokenizer = SimpleNamespace(save_pretrained=tiny.save_tokenizer)
    libraries = SimpleNamespace(
        AutoTokenizer=SimpleNamespace(from_pretrained=lambda *_, **__: tokenizer),
        AutoModelForCausalLM=SimpleNamespace(from_pretrained=model),
        float32=None, bfloat16=None,
    )  # fmt: skip
    monkeypatch.setattr(weights, "load", lambda name: libraries)
    return asked


def test_a_gguf_file_becomes_a_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path / "cache"))
    asked = stand_in(monkeypatch)
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF" + b"\0" * 60)
    heard: list[Progress] = []
    folder = weights.model_folder(str(file), heard.append)
    assert folder.name == "small-40" and (folder / "tokenizer.json").is_file()
    assert weights.model_folder(f"embedded:{file}", heard.append) == folder
    assert asked == ["small.gguf"] and [p.stage for p in heard] == ["convert"]


def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path / "cache"))
    stand_in(monkeypatch, ValueError("GGUF model with architecture odd is not supported yet."))
    file = tmp_path / "odd.gguf"
    file.write_bytes(b"GGUF" + b"\0" * 60)
    with pytest.raises(RoleAgentError, match=r"cannot make trainable weights from .*architecture odd"):
        weights.model_folder(str(file))
    assert list((tmp_path / "cache" / "converted").iterdir()) == []
    with pytest.raises(ConfigError, match="not a GGUF file"):
        file.write_bytes(b"ABCD" * 9)
        weights.model_folder(str(file))


@pytest.mark.embedded
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_embedded_model_as_trainable_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ids are llama.cpp's, for prompts of the real kind."""
    pytest.importorskip("transformers", reason="needs the distill extra", exc_type=ImportError)
    from roleagent_lite.distill.tokenizer import open_tokenizer
    from roleagent_lite.lm.weights import pull
    from roleagent_lite.types import Message

    file = pull("embedded")
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path))
    folder = weights.model_folder(f"embedded:{file}")
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] == "llama"
    ours, theirs = open_tokenizer(str(folder)), open_tokenizer(f"embedded:{file}")
    chat = (
        Message("system", "You act."),
        Message("user", "Write."),
        Message("assistant", "Goal: heat an egg\n>"),
    )
    assert ours.render(chat) == theirs.render(chat) and ours.end_id == theirs.end_id
    assert ours.prompt_ids(ours.render(chat)) == theirs.prompt_ids(theirs.render(chat))
    for text in (" go to cabinet 1", " take soapbar 2 from sinkbasin 1", '{"action": "é"}'):
        assert ours.encode(text) == theirs.encode(text)
