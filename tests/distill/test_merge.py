"""merge: MOD-04, the merged model is base + adapter and nothing else, and its folder is complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch
from transformers import AutoModelForCausalLM

from roleagent_lite.distill import lora, merge
from roleagent_lite.distill.tokenizer import open_tokenizer
from roleagent_lite.errors import ConfigError, RoleAgentError
from tests.distill import local


def adapter(folder: Path, size: float = 0.1, dtype: str = "float32", kind: str = "llama") -> Path:
    made = local.policy(local.recipe(model=str(local.model(kind))))
    if size:
        local.disturb(made, size)
    lora.save(made.model, folder, dtype)
    return folder


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_mod_04_the_merged_model_is_base_and_adapter(tmp_path: Path, kind: str) -> None:
    model = local.model(kind)
    parity = merge.merge(str(model), adapter(tmp_path / "a", kind=kind), tmp_path / "m")
    assert parity.to_adapter < 1e-5 < 0.01 < parity.to_base and parity.allowed == 1e-4
    from peft import PeftModel

    ids = torch.tensor([[5, 6, 7, 8, 9]])
    both = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), tmp_path / "a").eval()
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "m").eval()
    base = AutoModelForCausalLM.from_pretrained(model).eval()
    with torch.no_grad():
        a, b, c = (m(ids).logits for m in (merged, both, base))
    assert float((a - b).abs().max()) < 1e-4 < float((a - c).abs().max())
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []


def test_mod_04_a_large_model_is_compared_in_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "EXACT", 10)
    parity = merge.merge(str(local.model()), adapter(tmp_path / "a"), tmp_path / "m")
    assert parity.to_adapter < parity.allowed < 1e-3 and parity.to_base > 0.01
    assert parity.allowed > 1e-4  # its largest logits are above 1


def test_mod_04_the_folder_has_all_that_playing_needs(tmp_path: Path) -> None:
    merge.merge(str(local.model()), adapter(tmp_path / "a"), tmp_path / "m")
    tokenizer = open_tokenizer(str(tmp_path / "m"))
    original = local.tokenizer()
    assert (tokenizer.end_id, tokenizer.pad_id) == (original.end_id, original.pad_id)
    chat = local.rows()[0].messages
    assert tokenizer.render(chat) == original.render(chat)
    settings = json.loads((tmp_path / "m" / "generation_config.json").read_text(encoding="utf-8"))
    assert tokenizer.end_id in settings["eos_token_id"]
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json", "model.safetensors"):
        assert (tmp_path / "m" / name).is_file(), name


def test_mod_04_an_adapter_that_does_nothing_fails_loudly(tmp_path: Path) -> None:
    with pytest.raises(RoleAgentError, match="the merged model is the base"):
        merge.merge(str(local.model()), adapter(tmp_path / "a", size=0.0), tmp_path / "m")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("value", [1.0, float("nan")])
def test_mod_04_a_merge_that_goes_wrong_fails_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    real = merge._complete

    def garbled(folder: Path, partial: Path, end: int) -> None:
        real(folder, partial, end)
        model = AutoModelForCausalLM.from_pretrained(partial)
        next(iter(model.parameters())).data[0] = value
        for parameter in model.parameters():
            parameter.data += 0.01 * value
        model.save_pretrained(partial)

    monkeypatch.setattr(merge, "_complete", garbled)
    with pytest.raises(RoleAgentError, match=r"not base \+ adapter: logits differ by up to"):
        merge.merge(str(local.model()), adapter(tmp_path / "a"), tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_mod_06_a_bfloat16_adapter_merges_into_float32(tmp_path: Path) -> None:
    parity = merge.merge(str(local.model()), adapter(tmp_path / "a", dtype="bfloat16"), tmp_path / "m")
    assert parity.to_adapter < 1e-4


def test_what_cannot_be_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = adapter(tmp_path / "a")
    (tmp_path / "m").mkdir()
    with pytest.raises(ConfigError, match="exists; give the merged model a folder of its own"):
        merge.merge(str(local.model()), own, tmp_path / "m")
    with pytest.raises(ConfigError, match=r"holds no adapter_config\.json"):
        merge.merge(str(local.model()), tmp_path / "m", tmp_path / "x")
    with pytest.raises(ConfigError, match="does not fit this model"):
        merge.merge(str(local.model("gpt2")), own, tmp_path / "x")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(merge, "_complete", full)
    with pytest.raises(RoleAgentError, match=r"cannot write the merged model to .*No space left"):
        merge.merge(str(local.model()), own, tmp_path / "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "m"]
