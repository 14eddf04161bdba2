"""to_gguf: what llama.cpp reads from the files says what transformers says of the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import numpy
import torch
from transformers import AutoModelForCausalLM

from roleagent_lite.distill import lora, to_gguf
from roleagent_lite.distill.to_gguf import shape_of, write_adapter, write_model
from roleagent_lite.distill.weights import _converted
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.lm.embedded import Engine, start
from roleagent_lite.types import Message, Request
from tests import tiny_bpe
from tests.distill import local

ASK = (Message("system", "Act in the hall."), Message("user", "You are in a hall. There is a key."))
CHOICES = ("take key", "open door 2", "look around 365 times")


def by_llama_cpp(engine: Engine) -> list[list[float]]:
    scores = engine.score(Request("agent", "choose", ASK, choices=CHOICES)).scores
    assert scores is not None
    return [list(s) for s in scores]


def by_torch(model: Any, engine: Engine) -> list[list[float]]:
    prompt = engine.prompt_ids(ASK)
    out = []
    for choice in CHOICES:
        ids = list(engine.tokenize(choice))
        with torch.no_grad():
            rows = model(torch.tensor([[*prompt, *ids]])).logits[0].log_softmax(-1)
        out.append([float(rows[len(prompt) - 1 + k, t]) for k, t in enumerate(ids)])
    return out


def read(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def near(a: list[list[float]], b: list[list[float]]) -> float:
    return max(abs(x - y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True))


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True, "attention_bias": True}),
        ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}}),
        (
            "llama",
            {
                "rope_parameters": {
                    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64, "rope_theta": 1000.0,
                }
            },
        ),
        ("qwen2", {"tie_word_embeddings": True}),
        ("qwen3", {"rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}}),
    ],
    ids=["llama", "tied and biased", "linear rope", "llama3 rope", "qwen2", "qwen3"],
)  # fmt: skip
def test_llama_cpp_says_of_the_file_what_torch_says_of_the_folder(
    tmp_path: Path, kind: str, more: dict[str, Any]
) -> None:
    folder = tiny_bpe.save_model(tmp_path / "m", kind, seed=3, **more)
    write_model(folder, tmp_path / "m.gguf")
    engine = start(tmp_path / "m.gguf", 512)
    assert near(by_llama_cpp(engine), by_torch(read(folder), engine)) < 0.02


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_an_adapter_beside_its_base_says_what_peft_says(tmp_path: Path, kind: str) -> None:
    from peft import PeftModel

    folder = tiny_bpe.model(kind)
    made = local.policy(local.recipe(model=str(folder)))
    local.disturb(made, 0.1)
    lora.save(made.model, tmp_path / "a", "float32")
    write_model(folder, tmp_path / "m.gguf")
    write_adapter(tmp_path / "a", folder, tmp_path / "a.gguf")
    engine = start(tmp_path / "m.gguf", 512, tmp_path / "a.gguf")
    served = by_llama_cpp(engine)
    assert (
        near(served, by_torch(PeftModel.from_pretrained(read(folder), tmp_path / "a").eval(), engine)) < 0.03
    )
    assert near(served, by_torch(read(folder), engine)) > 0.3


def test_a_file_goes_there_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """weights.py reads what to_gguf.py writes: names, order of rows and shapes are those it came from."""
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path / "cache"))
    folder = tiny_bpe.model()
    write_model(folder, tmp_path / "m.gguf")
    back = read(_converted(tmp_path / "m.gguf", None)).state_dict()
    for name, weight in read(folder).state_dict().items():
        assert torch.allclose(back[name], weight, atol=4e-3), name


def test_what_a_gguf_file_cannot_say(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"this model is GPT2LMHeadModel.*convert_hf_to_gguf\.py"):
        write_model(local.model("gpt2"), tmp_path / "x.gguf")
    folder = tiny_bpe.model()
    made = local.policy(local.recipe(model=str(folder)))
    lora.save(made.model, tmp_path / "a", "float32")
    file = tmp_path / "a" / "adapter_config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**config, "use_dora": True, "bias": "all"}), encoding="utf-8")
    with pytest.raises(ConfigError, match="uses use_dora, bias, which a GGUF adapter cannot say"):
        write_adapter(tmp_path / "a", folder, tmp_path / "x.gguf")
    odd = tiny_bpe.save_model(tmp_path / "odd")
    values = json.loads((odd / "config.json").read_text(encoding="utf-8"))
    values["rope_parameters"] = {"rope_type": "longrope", "rope_theta": 1.0}
    (odd / "config.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ConfigError, match="rope scaling 'longrope'"):
        write_model(odd, tmp_path / "x.gguf")
    with pytest.raises(ConfigError, match=r"cannot read .*config\.json"):
        shape_of(tmp_path / "nowhere")


def test_weights_beyond_f16_are_refused(tmp_path: Path) -> None:
    folder = tiny_bpe.save_model(tmp_path / "m")
    model = read(folder)
    model.model.layers[0].mlp.up_proj.weight.data[0, 0] = 1e6
    model.save_pretrained(folder)
    with pytest.raises(RoleAgentError, match="hold values that F16 has not"):
        write_model(folder, tmp_path / "x.gguf")


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gguf.GGUFWriter.write_ti_data_to_file", full)
    with pytest.raises(RoleAgentError, match=r"cannot write .*x\.gguf: No space left"):
        write_model(tiny_bpe.model(), tmp_path / "x.gguf")


def test_rows_change_places_and_back() -> None:
    rows = numpy.arange(8).reshape(8, 1)
    # Two heads of four rows: halves (0 1 | 2 3) become neighbours 0 2 1 3.
    assert to_gguf._interleaved(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
