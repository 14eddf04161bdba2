"""`distill --export` on TINY: from a run to files, played back at once by `eval`; refusals and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.store import Run
from tests import tiny_bpe
from tests.cli.conftest import Inside
from tests.cli.make import clear, toy_tasks
from tests.distill import make

RECIPE = """
model = "model"
[adapter]
rank = 4
[train]
batch = 2
epochs = 2
lr = 0.002
[loss]
max_kl = 1e9
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a run `r` whose agent chose among actions, a TINY model, and a recipe that learns."""
    tiny_bpe.save_model(tmp_path / "model")
    (tmp_path / "mine.toml").write_text(RECIPE, encoding="utf-8")
    run = make.new_run(tmp_path / "runs" / "r")
    for task in "ab":
        for rollout, action in enumerate(("take key", "open door 2")):
            said = make.chat(f"You are in hall {task}.")
            key = make.call(run, f"{task}{rollout}", action, said, choices=(" take key", " open door 2"))
            make.episode(run, task, rollout, rollout == 0, steps=[make.step(action, key, state=task)])
    run.close()
    make.OPENED.clear()
    return tmp_path


def test_what_was_trained_is_exported_and_played_at_once(here: Path, inside: Inside) -> None:
    clear(inside("distill", "r", "--recipe", "mine.toml", "--export", "gguf"), 2, "holds no adapter yet")
    assert inside("distill", "r", "--recipe", "mine.toml").returncode == 0
    done = inside("distill", "r", "--recipe", "mine.toml", "--export", "merged,gguf,gguf-adapter")
    assert done.returncode == 0, done.stderr
    assert "2 of 2 first actions, " in done.stdout and "eval --model embedded:" in done.stdout
    folder = here / "runs/r/distill/mine/export"
    told = json.loads((folder / "parity.json").read_text(encoding="utf-8"))
    assert [side["faults"] for side in told["sides"]] == [[]] * 4
    toy_tasks(here / "t.jsonl")
    merged = f"embedded:{folder / 'model-f16.gguf'}"
    common = (
        "eval",
        "--tasks",
        "t.jsonl",
        "--agent",
        "choose",
        "--set",
        "wia.predict=off",
        "--model",
        merged,
    )
    for name, more in (("e", ()), ("f", ("--adapter", str(folder / "adapter.gguf")))):
        played = inside(*common, "--run", name, *more, "--json")
        kinds = {one["kind"] for one in json.loads(played.stdout)["outcomes"]["test"]}
        assert kinds <= {"solved", "failed"}, played.stdout
    with Run.open(here / "runs/f") as run:
        names = {e.data["role"]: e.data["name"] for e in run.events if e.kind == "model"}
        assert (
            names["agent"].startswith("embedded:model-f16+adapter-")
            and names["world"] == "embedded:model-f16"
        )
        assert {call.model for call in run.calls} == {names["agent"]}


def test_an_export_that_does_not_play_alike_ends_with_a_message_and_a_code(
    here: Path, inside: Inside
) -> None:
    slow = RECIPE.replace("0.002", "1e-12")  # an adapter that is as good as none
    (here / "mine.toml").write_text(slow, encoding="utf-8")
    assert inside("distill", "r", "--recipe", "mine.toml").returncode == 0
    done = inside("distill", "r", "--recipe", "mine.toml", "--export", "gguf-adapter")
    clear(done, 1, "does not play as base + adapter", "too weak to matter", "Nothing was kept")
    assert not (here / "runs/r/distill/mine/export").exists()


def test_formats_and_runs_that_are_not_there(here: Path, inside: Inside) -> None:
    clear(inside("distill", "r", "--recipe", "mine.toml", "--export", "ggml"), 2, "no export format 'ggml'")
    clear(inside("distill", "q", "--recipe", "mine.toml", "--export", "gguf"), 2, "no run 'q'")
    clear(inside("eval", "--adapter", "model", "--run", "x"), 2, "model is a folder, a GGUF file is needed")
    clear(
        inside("eval", "--adapter", "a.gguf", "--model", "openai/x"), 2, "--adapter is for the embedded model"
    )


# --- the plan -----------------------------------------------------------------------------------------


def test_the_plan_says_what_it_takes_and_loads_nothing(
    here: Path, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr("roleagent_lite.distill.policy.open_policy", never)
    alone = json.loads(inside("distill", "--plan", "--recipe", "mine.toml", "--json").stdout)
    assert alone["fits"] and not alone["samples"]["measured"] and alone["samples"]["longest"] == 2048
    done = inside("distill", "r", "--plan", "--recipe", "mine.toml")
    assert done.returncode == 0, done.stderr
    assert "4 of the run, the longest " in done.stdout and "recipe mine fits" in done.stdout
    assert "memory at the peak" in done.stdout and "disk: checkpoints" in done.stdout
    assert not (here / "runs/r/distill").exists()


def test_what_does_not_fit_goes_down_the_ladder_only_when_allowed(
    here: Path, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    from roleagent_lite.distill import rehearsal
    from roleagent_lite.distill.plan import plan
    from roleagent_lite.distill.recipe import load_recipe
    from roleagent_lite.distill.size import from_config

    # a process that has run many tests holds more than a training of TINY needs
    monkeypatch.setattr(rehearsal, "_measured", lambda policy, heaviest: (0.1, 1))
    (here / "mine.toml").write_text(
        RECIPE.replace("batch = 2", "batch = 2\nmicro_batch = 2"), encoding="utf-8"
    )
    total = plan(from_config(here / "model"), load_recipe(str(here / "mine.toml")), card=False).total
    room = "roleagent_lite.distill.size.memory"
    monkeypatch.setattr(room, lambda recipe: (total - 1, "this machine's memory", False))
    done = inside("distill", "--plan", "--recipe", "mine.toml")
    assert "does not fit; --smaller takes these steps" in done.stdout
    assert "train.micro_batch 2 -> 1" in done.stdout
    told = inside("distill", "r", "--recipe", "mine.toml", "--smaller", "--out", "d", "--json")
    assert told.returncode == 0 and "smaller: train.micro_batch 2 -> 1" in told.stderr
    assert json.loads(told.stdout)["recipe"]["train"]["micro_batch"] == 1
    monkeypatch.setattr(room, lambda recipe: (1, "this machine's memory", False))
    clear(inside("distill", "r", "--recipe", "mine.toml", "--smaller"), 2, "even the smallest form")
    done = inside("distill", "--plan", "--recipe", "mine.toml")
    assert "nor does its smallest form; take a smaller model" in done.stdout


def test_what_the_rehearsal_finds_too_large_goes_down_only_when_allowed(
    here: Path, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    from roleagent_lite.distill import rehearsal, size

    real, seen = rehearsal._measured, []

    def first_too_large(policy: Any, pass_: Any) -> tuple[float, int]:
        seen.append(pass_.rows)
        seconds, peak = real(policy, pass_)
        return seconds, peak + (pass_.rows > 1) * size.memory(policy.recipe)[0]

    monkeypatch.setattr(rehearsal, "_measured", first_too_large)
    text = RECIPE.replace("batch = 2", "batch = 2\nmicro_batch = 2").replace(
        "[loss]", '[loss]\npolicy = "tokens"'
    )
    (here / "mine.toml").write_text(text, encoding="utf-8")
    done = inside("distill", "r", "--recipe", "mine.toml", "--out", "d")
    clear(done, 1, "of its longest pass, 2 x ")
    assert "--smaller takes these steps" in done.stderr and "train.micro_batch 2 -> 1" in done.stderr
    assert not (here / "d").exists() and seen == [2]
    done = inside("distill", "r", "--recipe", "mine.toml", "--out", "d", "--smaller", "--json")
    assert done.returncode == 0, done.stderr
    assert "smaller: train.micro_batch 2 -> 1" in done.stderr and "of all, 1 x" in done.stderr
    told = json.loads(done.stdout)
    assert told["recipe"]["train"]["micro_batch"] == 1 and told["rehearsal"]["rows"] == 1
    assert seen == [2, 2, 1]


# --- a bundle -----------------------------------------------------------------------------------------


def test_a_bundle_goes_out_and_its_adapter_comes_back(here: Path, inside: Inside) -> None:
    from roleagent_lite.distill.bundle import train_here

    done = inside("distill", "r", "--recipe", "mine.toml", "--bundle", "b")
    assert done.returncode == 0 and "4 samples and all that training needs in b" in done.stdout, done.stderr
    back = "roleagent-lite distill r --recipe mine.toml --take-back adapter.zip"
    assert back in (here / "b/README.md").read_text(encoding="utf-8")
    clear(inside("distill", "r", "--recipe", "mine.toml", "--bundle", "b"), 2, "b exists")
    assert train_here(here / "b") == 0
    home = inside("distill", "r", "--recipe", "mine.toml", "--take-back", "b/adapter.zip")
    assert home.returncode == 0 and "4 of 4 steps; adapter in runs/r/distill/mine/adapter" in home.stdout
    done = inside("distill", "r", "--recipe", "mine.toml", "--export", "adapter")
    assert done.returncode == 0, done.stderr
    clear(
        inside("distill", "r", "--recipe", "mine.toml", "--take-back", "b/adapter.zip"), 2, "adapter exists"
    )
