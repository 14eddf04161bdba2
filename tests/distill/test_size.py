"""size: dimensions without weights, from each place that a recipe may name."""

from __future__ import annotations

import json
import sys
import types as python_types
from pathlib import Path

import pytest

from roleagent_lite.distill import size as sizes
from roleagent_lite.distill.plan import Size
from roleagent_lite.distill.size import from_config, size_of
from roleagent_lite.distill.weights import made_from
from roleagent_lite.errors import ConfigError, MissingExtra, RoleAgentError
from tests.distill import local

LLAMA = {
    "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2,
    "intermediate_size": 64, "vocab_size": 400,
}  # fmt: skip
TINY = Size(2, 32, 64, 2, 1, 16, 400, False)


def config(folder: Path, **values: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


def test_a_folder_says_it_in_either_family_s_words(tmp_path: Path) -> None:
    assert size_of(str(config(tmp_path / "a", **LLAMA))) == TINY
    named = from_config(config(tmp_path / "b", **LLAMA, head_dim=24, tie_word_embeddings=True))
    assert named == Size(2, 32, 64, 2, 1, 24, 400, True)
    gpt2 = from_config(config(tmp_path / "c", n_embd=48, n_head=2, n_layer=3, vocab_size=10))
    assert gpt2 == Size(3, 48, 128, 2, 2, 24, 10, True)


def test_what_is_no_decoder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no 'hidden_size'; is it a decoder's"):
        from_config(config(tmp_path / "a", vocab_size=3))
    with pytest.raises(ConfigError, match=r"cannot read .*config\.json"):
        size_of(str(tmp_path))
    with pytest.raises(ConfigError, match="is neither a folder, a GGUF file"):
        size_of("nothing")


def test_a_gguf_file_says_the_same_as_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)
    from roleagent_lite.distill.to_gguf import write_model
    from tests import tiny_bpe

    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path / "cache"))
    folder = tiny_bpe.save_model(tmp_path / "m", "qwen3", tie_word_embeddings=True)
    write_model(folder, tmp_path / "m.gguf")
    assert size_of(str(tmp_path / "m.gguf")) == size_of(f"embedded:{tmp_path}/m.gguf") == from_config(folder)
    made = made_from(tmp_path / "m.gguf")
    made.mkdir(parents=True)
    config(made, **LLAMA)  # once converted, the folder is asked: reading a GGUF file takes seconds
    assert size_of(str(tmp_path / "m.gguf")) == TINY


def test_of_a_model_on_the_hub_only_the_config_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def download(name: str, file: str, cache_dir: Path) -> str:
        asked.append((name, file))
        if name == "O/gone":
            raise OSError("no route")
        return str(config(tmp_path, **LLAMA) / file)

    hub = python_types.SimpleNamespace(hf_hub_download=download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert size_of("O/N") == TINY and asked == [("O/N", "config.json")]
    with pytest.raises(RoleAgentError, match=r"cannot fetch config\.json of O/gone .*no route"):
        size_of("O/gone")


def test_memory_and_speed_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = local.recipe(device="cpu")
    room, where, card = sizes.memory(chosen)
    assert 2**28 < room < 2**50 and where == "this machine's memory" and not card
    torch = pytest.importorskip("torch", reason="needs the distill extra", exc_type=ImportError)
    assert (sizes.speed(chosen) or 0) > 1e6
    properties = python_types.SimpleNamespace(total_memory=10 * 2**30, name="Card 10")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    assert sizes.memory(local.recipe()) == (9 * 2**30, "the card Card 10", True)
    assert sizes.memory(chosen)[2] is False

    def absent(name: str) -> None:
        raise MissingExtra(name)

    monkeypatch.setattr("roleagent_lite.distill.stack.load", absent)
    assert sizes.speed(chosen) is None and sizes.memory(local.recipe())[2] is False
