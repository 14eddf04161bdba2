"""export: every format made and checked on TINY, and nothing kept of what does not play alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill import export as exporting
from roleagent_lite.distill import lora
from roleagent_lite.distill.export import export, wanted
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.to_gguf import write_model
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.lm.embedded import EmbeddedModel
from roleagent_lite.types import Progress, Request
from tests import tiny_bpe
from tests.distill import local
from tests.distill.test_parity import PROBES


def trained(folder: Path, size: float = 0.1, **recipe: Any) -> Recipe:
    """A training's folder with an adapter that does something (seeded random weights)."""
    plan = local.recipe(model=str(tiny_bpe.model()), name="tiny", **recipe)
    made = local.policy(plan)
    local.disturb(made, size)
    lora.save(made.model, folder / "adapter", "float32")
    return plan


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("exported")
    return folder, export(folder, trained(folder), wanted("all"), PROBES)


def test_every_format_is_there_and_checked(exported: tuple[Path, dict[str, Any]]) -> None:
    folder, told = exported
    assert told == json.loads((folder / "export" / "parity.json").read_text(encoding="utf-8"))
    made = {p.name for p in (folder / "export").iterdir()}
    assert made == {"adapter", "merged", "model-f16.gguf", "adapter.gguf", "Modelfile", "parity.json"}
    sides = {side["side"]: side for side in told["sides"]}
    assert list(sides) == ["adapter", "merged", "model-f16.gguf", "F16 base + adapter.gguf"]
    for side in sides.values():
        assert side["faults"] == [] and side["required"] and side["of_actions"] == 2
        assert side["to_reference"] < 0.01 < side["to_base"]
    assert told["merged_logits"]["to_adapter"] < 1e-4 < told["merged_logits"]["to_base"]
    assert sorted(p.name for p in folder.iterdir()) == ["adapter", "export"]
    config = json.loads((folder / "export/adapter/adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == str(tiny_bpe.model())


async def test_the_files_are_played_back_by_their_model_strings(
    exported: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder = exported[0] / "export"
    write_model(tiny_bpe.model(), tmp_path / "base.gguf")
    merged = EmbeddedModel.open(f"embedded:{folder / 'model-f16.gguf'}")
    beside = EmbeddedModel.open(f"embedded:{tmp_path / 'base.gguf'}+{folder / 'adapter.gguf'}")
    plain = EmbeddedModel.open(f"embedded:{tmp_path / 'base.gguf'}")
    assert merged.name == "embedded:model-f16" and beside.name.startswith("embedded:base+adapter-")
    request = Request("agent", "choose", PROBES[0].messages, choices=PROBES[0].choices)
    a, b, c = [[sum(s) for s in (await m.complete(request)).scores or ()] for m in (merged, beside, plain)]
    assert a == pytest.approx(b, abs=0.05) and a != pytest.approx(c, abs=0.05)


def test_one_format_leaves_the_others_where_they_are(tmp_path: Path) -> None:
    plan = trained(tmp_path)
    heard: list[Progress] = []
    told = export(tmp_path, plan, wanted("adapter"), PROBES, heard.append)
    assert [s["side"] for s in told["sides"]] == ["adapter"] and told["merged_logits"] is None
    assert heard[-1].stage == "export" and heard[-1].note.startswith("adapter: 2 of 2 first actions")
    export(tmp_path, plan, wanted("gguf-adapter"), PROBES)
    made = sorted(p.name for p in (tmp_path / "export").iterdir())
    assert made == ["adapter", "adapter.gguf", "parity.json"]


def test_an_adapter_that_does_nothing_fails_loudly(tmp_path: Path) -> None:
    plan = trained(tmp_path, size=0.0)
    with pytest.raises(RoleAgentError, match="the merged model is the base"):
        export(tmp_path, plan, wanted("merged"), PROBES)
    with pytest.raises(
        RoleAgentError, match=r"does not play as base \+ adapter: .*cannot be told from the base"
    ):
        export(tmp_path, plan, wanted("gguf-adapter"), PROBES)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["adapter", "parity-failed.json"]
    told = json.loads((tmp_path / "parity-failed.json").read_text(encoding="utf-8"))
    assert any(side["faults"] for side in told["sides"])


def test_a_file_that_plays_otherwise_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = trained(tmp_path)
    export(tmp_path, plan, wanted("gguf"), PROBES)
    before = (tmp_path / "export/model-f16.gguf").read_bytes()

    def of_the_base(folder: Path, out: Path, words: Path | None = None) -> None:
        write_model(tiny_bpe.model(), out, words)

    monkeypatch.setattr(exporting, "write_model", of_the_base)
    with pytest.raises(RoleAgentError, match=r"model-f16\.gguf: .*Nothing was kept of it"):
        export(tmp_path, plan, wanted("gguf"), PROBES)
    assert (tmp_path / "export/model-f16.gguf").read_bytes() == before
    monkeypatch.undo()
    export(tmp_path, plan, wanted("gguf"), PROBES)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["adapter", "export"]


def test_what_cannot_be_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="holds no adapter yet: train first"):
        export(tmp_path, local.recipe(), ["adapter"], PROBES)
    plan = trained(tmp_path)
    gpt2 = plan.model_copy(update={"model": str(local.model("gpt2"))})
    with pytest.raises(ConfigError, match=r"this model is GPT2LMHeadModel.*convert_hf_to_gguf"):
        export(tmp_path, gpt2, ["gguf"], PROBES)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "_copy_adapter", full)
    with pytest.raises(RoleAgentError, match=r"cannot write the export to .*No space left"):
        export(tmp_path, plan, ["adapter"], PROBES)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["adapter"]


def test_formats_by_name() -> None:
    assert wanted("all") == list(exporting.FORMATS)
    assert wanted("gguf, adapter,gguf") == ["gguf", "adapter"]
    with pytest.raises(ConfigError, match="no export format 'gguff'; did you mean 'gguf'"):
        wanted("gguff")
    with pytest.raises(ConfigError, match="--export takes"):
        wanted(",")


@pytest.mark.slow
@pytest.mark.embedded
async def test_real_exports_of_the_embedded_model_play_household_tasks_alike(tmp_path: Path) -> None:
    """As benchmarks/export_parity.py, on two tasks: a random adapter of the embedded model, every format."""
    from benchmarks.export_parity import first_steps, random_adapter
    from roleagent_lite.distill.parity import probes_of
    from roleagent_lite.distill.recipe import load_recipe
    from roleagent_lite.store import Run

    plan = load_recipe("smollm2-cpu")
    await first_steps(tmp_path / "run", 2)
    random_adapter(plan, tmp_path / "adapter")
    with Run.open(tmp_path / "run") as run:
        probes = probes_of(run)
    told = export(tmp_path, plan, wanted("all"), probes)
    assert told["merged_logits"]["to_adapter"] < 1e-4
    exact, quantised = told["sides"][:-1], told["sides"][-1]
    for side in exact:
        assert side["faults"] == [] and side["of_actions"] == 2
        assert side["actions"] + sum("token" not in line for line in side["excused"]) == 2
    assert quantised["side"].startswith("SmolLM2-135M-Instruct.Q4_1.gguf + ") and not quantised["required"]
