"""lora: MOD-02 (targets), MOD-06 (number types), the reference of an adapter that goes on (RL-12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch
from safetensors.torch import load_file

from roleagent_lite.distill import lora
from roleagent_lite.errors import ConfigError
from tests.distill import local

GPT2 = "c_attn (2), c_fc (2), c_proj (4)"


def gpt2(**adapter: Any) -> Any:
    return local.policy(local.recipe(model=str(local.model("gpt2")), adapter=adapter))


def test_mod_02_targets_of_another_family_are_named_with_what_there_is() -> None:
    with pytest.raises(ConfigError) as refused:
        gpt2(targets=["q_proj", "v_proj"])
    assert "no layer q_proj, v_proj; 0 of 2 names match" in str(refused.value) and GPT2 in str(refused.value)
    with pytest.raises(ConfigError, match="0 of 2 names match"):
        gpt2(targets=["q_proj", "v_proj"], missing_targets="warn")


def test_mod_02_one_of_two_targets() -> None:
    with pytest.raises(ConfigError, match="no layer q_proj; 1 of 2 names match"):
        gpt2(targets=["q_proj", "c_attn"])
    made = gpt2(targets=["q_proj", "c_attn"], missing_targets="warn")
    assert len(made.warnings) == 1 and "1 of 2 names match" in made.warnings[0]
    assert len(made.parameters) == 4 and all("c_attn" in name for name in made.parameters)


def test_all_linear_layers_but_the_output() -> None:
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(local.model())
    names = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    assert lora.linear_layers(base) == dict.fromkeys(names, 2)
    made = gpt2()
    assert {n.split(".")[-4] for n in made.parameters} == {"c_attn", "c_fc", "c_proj"}


def test_mod_02_nothing_to_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lora, "trained", lambda model: {})
    with pytest.raises(ConfigError, match="0 trainable parameters"):
        gpt2()


@pytest.mark.parametrize("base", ["float32", "bfloat16"])
@pytest.mark.parametrize("declared", ["float32", "bfloat16"])
def test_mod_06_trained_in_float32_saved_as_declared(tmp_path: Path, base: str, declared: str) -> None:
    made = local.policy(local.recipe(adapter={"dtype": declared}, train={"dtype": base}))
    assert {p.dtype for p in made.parameters.values()} == {torch.float32}
    assert made.model.get_input_embeddings().weight.dtype == getattr(torch, base)
    loss = made.logps(made.rows(local.rows())).sum()
    loss.backward()
    assert bool(torch.isfinite(loss)) and loss.dtype == torch.float32
    lora.save(made.model, tmp_path / "a", declared)
    saved = load_file(tmp_path / "a" / "adapter_model.safetensors")
    assert {t.dtype for t in saved.values()} == {getattr(torch, declared)}
    assert (tmp_path / "a" / "adapter_config.json").is_file()


def saved_adapter(folder: Path, dtype: str = "bfloat16") -> Path:
    made = local.policy(local.recipe())
    local.disturb(made)
    lora.save(made.model, folder, dtype)
    return folder


def test_mod_06_a_bfloat16_adapter_on_a_float32_base(tmp_path: Path) -> None:
    start = saved_adapter(tmp_path / "start")
    made = local.policy(local.recipe(adapter={"start": str(start)}))
    assert {p.dtype for p in made.parameters.values()} == {torch.float32}
    made.logps(made.rows(local.rows())).sum().backward()
    assert all(p.grad is not None for p in made.parameters.values())


def test_a_saved_adapter_plays_as_it_was_trained(tmp_path: Path) -> None:
    made = local.policy(local.recipe())
    local.disturb(made)
    rows = made.rows(local.rows())
    trained, base = made.fixed_logps(rows), made.reference_logps(rows)
    lora.save(made.model, tmp_path / "a", "float32")
    again = local.policy(local.recipe(adapter={"start": str(tmp_path / "a")}))
    assert bool(torch.equal(again.fixed_logps(rows), trained))
    assert float((trained - base).abs().max()) > 0.01


def test_rl_12_the_reference_of_an_adapter_that_goes_on_is_its_start(tmp_path: Path) -> None:
    start = saved_adapter(tmp_path / "start")
    made = local.policy(local.recipe(adapter={"start": str(start)}))
    rows = made.rows(local.rows())
    assert str(start) in made.reference
    assert bool(torch.equal(made.reference_logps(rows), made.fixed_logps(rows)))
    before = made.fixed_logps(rows)
    local.disturb(made, seed=2)
    assert bool(torch.equal(made.reference_logps(rows), before))  # frozen
    assert float((made.fixed_logps(rows) - before).abs().max()) > 0.01
    names = made.parameters
    assert names and all(".default." in n for n in names)  # only the one is trained


def test_a_start_that_is_none_or_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no adapter_config\.json"):
        local.policy(local.recipe(adapter={"start": str(tmp_path)}))
    start = saved_adapter(tmp_path / "start")
    with pytest.raises(ConfigError, match="does not fit this model"):
        local.policy(local.recipe(model=str(local.model("gpt2")), adapter={"start": str(start)}))
