"""bundle: a TINY training carried to another process that has none of the project's other dependencies."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill import bundle
from roleagent_lite.distill.job import distill, identity
from roleagent_lite.distill.prepare import Prepared, prepare
from roleagent_lite.errors import ConfigError, RoleAgentError
from tests.distill import local, make

STAYS_AT_HOME = ("dspy", "litellm", "openai", "anthropic", "lancedb", "xllamacpp", "gepa", "typer", "rich")


def prepared(folder: Path, **recipe: Any) -> Prepared:
    run = make.new_run(folder / "r")
    make.group(run, "a", [True, False, False])
    make.group(run, "b", [True, False])
    return prepare(run, local.recipe(name="tiny", **recipe), local.tokenizer())


def script(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The bundle's script, as on a machine that has what requirements.txt names and nothing else."""
    for name in STAYS_AT_HOME:
        (folder / f"{name}.py").write_text(f"raise ImportError('{name} stays at home')\n", encoding="utf-8")
    command = [sys.executable, "-P", str(folder / "train.py"), *more]
    return subprocess.run(
        command, cwd=folder.parent, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_script_trains_as_here_and_the_adapter_comes_back(tmp_path: Path) -> None:
    ready = prepared(tmp_path)
    parts = bundle.write(
        ready, local.tokenizer(), tmp_path / "b", "roleagent-lite distill r --take-back FILE"
    )
    assert parts == [
        "README.md", "bundle.json", "model", "recipe.json", "requirements.txt", "roleagent_lite",
        "samples.jsonl", "train.ipynb", "train.py",
    ]  # fmt: skip
    checked = script(tmp_path / "b", "--check")
    assert checked.returncode == 0 and "5 samples, on cpu" in checked.stdout, checked.stderr
    assert not (tmp_path / "b" / "out").exists()
    done = script(tmp_path / "b")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 steps; take home" in done.stdout and "learn 4/4: loss" in done.stdout
    told = bundle.take_back(tmp_path / "b" / bundle.BACK, tmp_path / "home", ready.recipe)
    assert told["steps"] == 4
    distill(ready, local.tokenizer(), tmp_path / "here")
    file = "adapter/adapter_model.safetensors"
    assert (tmp_path / "home" / file).read_bytes() == (tmp_path / "here" / file).read_bytes()
    assert (tmp_path / "home" / "steps.jsonl").is_file() and (tmp_path / "home" / "train.json").is_file()


def test_a_prompt_that_was_baked_in_goes_along_and_comes_back(tmp_path: Path) -> None:
    from tests.distill.test_bake import LONG, played

    run = played(tmp_path, "long", LONG, prompts="v1")
    plan = local.recipe(name="tiny", method="sft", sft={"bake": "none"}, data={"max_tokens": 4096})
    ready = prepare(run, plan, local.tokenizer())
    bundle.write(ready, local.tokenizer(), tmp_path / "b", "x")
    back, _ = bundle.read(tmp_path / "b")
    assert back.texts == ready.texts and back.report.bake == ready.report.bake
    assert [t.sent for t in back.tokens] == [t.sent for t in ready.usable]
    done = script(tmp_path / "b")
    assert done.returncode == 0, done.stdout + done.stderr
    told = bundle.take_back(tmp_path / "b" / bundle.BACK, tmp_path / "home", plan)
    assert told["bake"]["file"] == "prompt.json" and told["bake"]["saved_a_step"] > 50
    assert json.loads((tmp_path / "home" / "prompt.json").read_text(encoding="utf-8")) == ready.texts


def test_samples_are_the_same_and_hold_no_texts(tmp_path: Path) -> None:
    ready = prepared(tmp_path)
    bundle.write(ready, local.tokenizer(), tmp_path / "b", "x")
    back, names = bundle.read(tmp_path / "b")
    assert identity(ready.recipe, ready.usable) == identity(
        back.recipe.model_copy(update={"model": ready.recipe.model}), back.usable
    )
    assert back.report == ready.report and names.pad_id == local.tokenizer().pad_id
    for mine, theirs in zip(ready.usable, back.usable, strict=True):
        bare = replace(mine.sample, messages=(), text="", reasoning=None, choices=(), token_ids=None)
        assert theirs == replace(mine, sample=bare, messages=())
    assert "hall" not in (tmp_path / "b" / "samples.jsonl").read_text(encoding="utf-8")


def test_requirements_are_pinned_and_the_notebook_is_one() -> None:
    lines = bundle.requirements()
    assert [line.partition("==")[0] for line in lines] == list(bundle.NEEDED)
    assert all("==" in line and "+" not in line for line in lines)
    made = bundle.notebook()
    assert made["nbformat"] == 4 and made["cells"][0]["cell_type"] == "markdown"
    assert "!python train.py" in [c["source"] for c in made["cells"]]


def test_unsloth_goes_along_where_the_recipe_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = [*(metadata.requires("roleagent-lite") or ()), "unsloth>=2026.10.9; extra == 'unsloth'"]
    monkeypatch.setattr(metadata, "requires", lambda name: bounds)
    for more in ({"backend": "unsloth"}, {"train": {"four_bit": True, "batch": 3}}):
        lines = bundle.requirements(local.recipe(**more))
        assert lines[:-1] == bundle.requirements()
        assert lines[-1] == "unsloth>=2026.10.9" or lines[-1].startswith("unsloth==")
    assert bundle.requirements(local.recipe()) == bundle.requirements()


def test_what_is_not_installed_keeps_the_projects_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name in ("torch", "peft"):
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    bounds = ["pyarrow>=22", "torch<2.15,>=2.6; extra == 'distill'", "torch==2.13.0; extra == 'test'"]
    monkeypatch.setattr(metadata, "requires", lambda name: bounds)
    assert {line for line in bundle.requirements() if line.startswith(("torch", "peft"))} == {
        "torch<2.15,>=2.6",
        "peft",
    }


def test_a_damaged_bundle_is_told(tmp_path: Path) -> None:
    bundle.write(prepared(tmp_path), local.tokenizer(), tmp_path / "b", "x")
    samples = tmp_path / "b" / "samples.jsonl"
    lines = samples.read_text(encoding="utf-8").splitlines(keepends=True)
    samples.write_text("".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(ConfigError, match="damaged: 4 of 5 samples are there"):
        bundle.read(tmp_path / "b")
    assert bundle.train_here(tmp_path / "b") == 1
    samples.write_text("".join(lines)[:-20], encoding="utf-8")
    with pytest.raises(ConfigError, match="damaged: JSONDecodeError"):
        bundle.read(tmp_path / "b")
    told = json.loads((tmp_path / "b" / "bundle.json").read_text(encoding="utf-8"))
    (tmp_path / "b" / "bundle.json").write_text(json.dumps({**told, "version": "0"}), encoding="utf-8")
    with pytest.raises(ConfigError, match="was written by version 0"):
        bundle.read(tmp_path / "b")


def test_what_cannot_be_bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = prepared(tmp_path)
    (tmp_path / "there").mkdir()
    with pytest.raises(ConfigError, match="there exists; give the bundle a folder of its own"):
        bundle.write(ready, local.tokenizer(), tmp_path / "there", "x")
    adapter = ready.recipe.adapter.model_copy(update={"start": "x"})
    started = replace(ready, recipe=ready.recipe.model_copy(update={"adapter": adapter}))
    with pytest.raises(ConfigError, match=r"adapter\.start is a folder of this machine"):
        bundle.write(started, local.tokenizer(), tmp_path / "b", "x")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle, "_copy_code", full)
    with pytest.raises(RoleAgentError, match=r"cannot write the bundle to .*No space left"):
        bundle.write(ready, local.tokenizer(), tmp_path / "b", "x")
    assert not (tmp_path / "b").exists() and not (tmp_path / "b.part").exists()


def test_only_what_a_bundle_left_is_taken_back(tmp_path: Path) -> None:
    recipe = local.recipe()
    told = {"recipe": json.loads(recipe.model_dump_json()), "steps": 1}

    def archive(name: str, **members: str) -> Path:
        with zipfile.ZipFile(tmp_path / name, "w") as made:
            for member, text in members.items():
                made.writestr(member.replace("__", "."), text)
        return tmp_path / name

    whole = {"adapter_config__json": "{}", "adapter_model__safetensors": "x", "train__json": json.dumps(told)}
    evil = archive("evil.zip", **whole, **{"../../evil": "x"})
    bundle.take_back(evil, tmp_path / "a", recipe)
    assert sorted(p.name for p in (tmp_path / "a").rglob("*") if p.is_file()) == [
        "adapter_config.json", "adapter_model.safetensors", "train.json",
    ]  # fmt: skip
    assert not (tmp_path.parent / "evil").exists() and not (tmp_path / "evil").exists()
    with pytest.raises(ConfigError, match="exists; give another --out"):
        bundle.take_back(evil, tmp_path / "a", recipe)
    with pytest.raises(ConfigError, match="trained by another recipe: train differ"):
        bundle.take_back(evil, tmp_path / "c", local.recipe(train={"lr": 0.5}))
    with pytest.raises(ConfigError, match=r"is not what a bundle's train\.py leaves"):
        bundle.take_back(archive("part.zip", train__json="{}"), tmp_path / "c", recipe)
    (tmp_path / "no.zip").write_bytes(b"PK no")
    with pytest.raises(ConfigError, match="cannot be read: BadZipFile"):
        bundle.take_back(tmp_path / "no.zip", tmp_path / "c", recipe)
    with pytest.raises(RoleAgentError, match="there is no file"):
        bundle.take_back(tmp_path / "nothing.zip", tmp_path / "c", recipe)
    assert not (tmp_path / "c" / "adapter").exists()
