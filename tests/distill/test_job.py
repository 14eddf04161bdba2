"""job: from a run to an adapter, what is written beside it, and a resume after the samples have changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill.job import distill, identity
from roleagent_lite.distill.prepare import prepare
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.store import Run
from roleagent_lite.types import Progress
from tests.distill import local, make, stand_in_unsloth


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = make.new_run(tmp_path / "r")
    make.group(run, "a", [True, False, False])
    make.group(run, "b", [True, True])
    key = make.call(run, "z", "open door")
    make.episode(run, "b", 2, False, steps=[make.step("open door", key)])
    return run


def train(run: Run, out: Path, listener: Any = None, **recipe: Any) -> dict[str, Any]:
    tokenizer = local.tokenizer()
    return distill(prepare(run, local.recipe(**recipe), tokenizer), tokenizer, out, listener)


def test_grpo_from_a_run_to_an_adapter(run: Run, tmp_path: Path) -> None:
    heard: list[Progress] = []
    told = train(run, tmp_path / "out", heard.append)
    assert told == json.loads((tmp_path / "out" / "train.json").read_text(encoding="utf-8"))
    assert (told["method"], told["device"]) == ("advantage-weighted fine-tuning", "cpu")
    assert (told["backend"], told["reference"]) == ("transformers and peft", "the base model (adapter off)")
    assert told["backend_why"] == "there is no CUDA card in use" and told["backend_why"] in heard[0].note
    assert (told["steps"], told["of"], told["samples"], told["stopped"]) == (4, 4, 6, "")
    assert told["kl_at_start"] < 1e-4 and told["staleness"] is None
    assert (Path(told["adapter"]) / "adapter_model.safetensors").is_file()
    assert [p.stage for p in heard] == ["load", "rehearse", *["learn"] * 4]
    assert told["rehearsal"]["rows"] == 2 and "minutes" in heard[1].note


def test_unsloth_is_told_where_it_trained(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the stand-in: the same job, another back end."""
    stand_in = stand_in_unsloth.put_in(monkeypatch)
    told = train(run, tmp_path / "out", train={"lr": 1e-3})
    assert told["backend"] == f"Unsloth {stand_in_unsloth.VERSION}" and "for_training" in stand_in.names()
    assert told["backend_why"] == "a CUDA card, and Unsloth is installed" and told["steps"] == 4


def test_sft_takes_solved_episodes_only(run: Run, tmp_path: Path) -> None:
    told = train(run, tmp_path / "out", method="sft")
    assert (told["method"], told["samples"]) == ("supervised fine-tuning", 3)
    assert "staleness" not in told


def test_a_prompt_is_baked_in_and_what_it_saves_is_said(tmp_path: Path) -> None:
    from tests.distill.test_bake import LONG, played

    run = played(tmp_path, "long", LONG, prompts="v1")
    data = {"max_tokens": 4096}
    told = train(run, tmp_path / "out", method="sft", sft={"bake": "none"}, data=data, train={"steps": 2})
    assert told == json.loads((tmp_path / "out" / "train.json").read_text(encoding="utf-8"))
    baked = told["bake"]
    assert baked["prompt"] == "none" and baked["samples"] == told["samples"] > 0
    assert baked["prompt_sent"] - baked["prompt_baked"] == pytest.approx(baked["saved_a_step"])
    assert baked["saved_a_step"] > 50 and baked["already_short"] == 0
    assert baked["file"] == "prompt.json"
    assert set(json.loads((tmp_path / "out" / "prompt.json").read_text(encoding="utf-8"))) == set(LONG)
    plain = train(run, tmp_path / "plain", method="sft", data=data, train={"steps": 2})
    assert "bake" not in plain and not (tmp_path / "plain" / "prompt.json").exists()
    with pytest.raises(ConfigError, match=r"sft\.bake: 'none' then, '' now"):
        train(run, tmp_path / "out", method="sft", data=data, train={"steps": 2})


def test_rl_01_nothing_to_learn_stops_before_any_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make.new_run(tmp_path / "flat")
    make.group(run, "a", [True, True])

    def never(*_: Any) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr("roleagent_lite.distill.job.open_policy", never)
    with pytest.raises(RoleAgentError, match="1 of 1 groups without signal"):
        train(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_samples_are_another_training(run: Run, tmp_path: Path) -> None:
    train(run, tmp_path / "out")
    make.group(run, "c", [True, False])
    with pytest.raises(ConfigError, match="other settings \\(samples: "):
        train(run, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"train\.lr: 0\.01 then, 0\.02 now"):
        train(make.again(run), tmp_path / "out", train={"lr": 0.02})


def test_more_passes_go_on_from_what_is_there(run: Run, tmp_path: Path) -> None:
    train(run, tmp_path / "parts", train={"epochs": 1})
    train(run, tmp_path / "parts", train={"epochs": 2})
    train(run, tmp_path / "whole", train={"epochs": 2})
    file = "adapter/adapter_model.safetensors"
    assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_what_identifies_a_training() -> None:
    rows = local.rows()
    first = identity(local.recipe(), rows)
    assert first == identity(local.recipe(name="x", train={"epochs": 9}), rows)
    assert first != identity(local.recipe(loss={"kl": 0.5}), rows)
    assert first["samples"] != identity(local.recipe(), rows[:-1])["samples"]
