"""`distill --online`: a training from the command line, and what it refuses before anything loads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roleagent_lite.cli.distill_online import share
from tests.cli.conftest import Inside
from tests.cli.make import clear

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from tests.distill import local, online_world

RECIPE = """
model = "{model}"
{more}
[adapter]
rank = 4
[train]
lr = 0.003
[loss]
max_kl = 100
[online]
updates = {updates}
tasks = 6
temperature = 2.0
dev = 2
prompts = "{prompts}"
"""


def recipe(folder: Path, updates: int = 1, more: str = "") -> str:
    prompts = online_world.write_prompts(folder / "prompts")
    text = RECIPE.format(model=local.model(), prompts=prompts, updates=updates, more=more)
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    online_world.write_tasks(folder / "tasks.jsonl")
    return "mine.toml"


def test_a_training_says_what_it_did(tmp_path: Path, inside: Inside) -> None:
    done = inside("distill", "--online", "--recipe", recipe(tmp_path), "--tasks", "tasks.jsonl", "--sealed")
    assert done.returncode == 0, done.stderr
    assert "dev after 0 updates" in done.stdout and "dev after 1 updates" in done.stdout
    assert "sealed, base" in done.stdout and "adapter - base" in done.stdout and "noise" in done.stdout
    assert "plan: 1 updates of 48 episodes each, 4 dev episodes" in done.stderr
    assert "updated · 1/1 · solved" in done.stderr and "playing training tasks · " in done.stderr
    assert "tests.distill.online_world" in done.stderr
    assert (tmp_path / "runs/mine-online/report.md").is_file()
    as_json = inside("distill", "--online", "--recipe", "mine.toml", "--tasks", "tasks.jsonl", "--json")
    told = json.loads(as_json.stdout)
    assert told["updates"] == 1 and Path(told["adapter"]).is_dir()
    samples = inside("distill", "mine-online", "--recipe", "mine.toml", "--dry-run", "--json")
    assert json.loads(samples.stdout)["samples"] > 0


def test_what_cannot_be_is_refused(tmp_path: Path, inside: Inside) -> None:
    clear(inside("distill"), 2, "distill needs a RUN", "--online")
    imitating = recipe(tmp_path, more='method = "sft"')
    clear(inside("distill", "--online", "--recipe", imitating), 2, "has method sft")
    clear(
        inside("distill", "--online", "--recipe", recipe(tmp_path), "--tasks", "household"),
        2,
        "did you mean",
    )


def test_a_stop_is_an_error_with_the_adapter_named(
    tmp_path: Path, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roleagent_lite.distill.online.apart", lambda *_: 0.5)
    done = inside("distill", "--online", "--recipe", recipe(tmp_path), "--tasks", "tasks.jsonl")
    assert done.returncode == 1
    assert "sampler and trainer are apart" in done.stderr and "the last good adapter is" in done.stderr


def test_a_share_in_words() -> None:
    assert share({"solved": None, "n": 0}) == "unknown (no episode counts)"
    found = {"solved": 0.5, "n": 36, "low": 0.345, "high": 0.655}
    assert share(found) == "50% solved of 36 (95 % interval 34% to 66%)"
