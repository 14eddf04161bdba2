"""`distill --dry-run`: files, words and refusals, also where torch or transformers is broken (MOD-01)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import tiny
from tests.cli.conftest import Inside
from tests.cli.make import ROOT, clear, cli, toy_tasks
from tests.distill import make

BROKEN = "raise RuntimeError('this installation is broken')\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a run `r`, a model folder and a recipe."""
    run = make.new_run(tmp_path / "runs" / "r")
    make.group(run, "a", [True, False])
    make.group(run, "b", [False, False])
    run.close()
    make.OPENED.clear()
    tiny.save_tokenizer(tmp_path / "model")
    (tmp_path / "mine.toml").write_text('model = "model"\n', encoding="utf-8")
    return tmp_path


def test_the_dry_run_writes_samples_and_says_what_it_found(here: Path, inside: Inside) -> None:
    done = inside("distill", "r", "--recipe", "mine.toml", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "2, 1 without signal" in done.stdout and "tokenizer" in done.stdout
    assert "warning: 1 of 2 groups without signal" in done.stderr
    rows = (here / "runs/r/distill/mine/samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(r)["trained_text"] for r in rows] == ["take key<|end|>"] * 4
    as_json = json.loads(
        inside("distill", "r", "--recipe", "mine.toml", "--dry-run", "--json", "--out", "d").stdout
    )
    assert as_json["used"] == 2 and as_json["out"] == "d" and (here / "d/summary.json").is_file()


def test_a_prompt_that_is_baked_in_is_shown_with_what_it_saves(here: Path, inside: Inside) -> None:
    from tests.distill.test_bake import LONG, played

    played(here / "runs", "long", LONG, prompts="v1").close()
    make.OPENED.clear()
    (here / "bake.toml").write_text(
        'model = "model"\nmethod = "sft"\n[sft]\nbake = "none"\n[data]\nmax_tokens = 9000\n', encoding="utf-8"
    )
    done = inside("distill", "long", "--recipe", "bake.toml", "--dry-run")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("prompt baked in")]
    told = json.loads(inside("distill", "long", "--recipe", "bake.toml", "--dry-run", "--json").stdout)[
        "bake"
    ]
    assert f"{told['saved_a_step']:.0f} saved" in line and "0 of them as short before" in line
    assert (here / "runs/long/distill/bake/prompt.json").is_file()
    run = make.again(make.new_run(here / "runs" / "seedless"))
    make.group(run, "a", [True])
    run.close()
    (here / "seed.toml").write_text(
        'model = "model"\nmethod = "sft"\n[sft]\nbake = "seed"\n', encoding="utf-8"
    )
    clear(
        inside("distill", "seedless", "--recipe", "seed.toml", "--dry-run"),
        2,
        "does not hold its seed prompt",
    )


def test_rl_01_nothing_to_learn_is_said_after_the_files_are_written(here: Path, inside: Inside) -> None:
    run = make.new_run(here / "runs" / "flat")
    make.group(run, "a", [True, True])
    run.close()
    done = inside("distill", "flat", "--recipe", "mine.toml", "--dry-run", "--out", "d")
    assert done.returncode == 1 and "1 of 1 groups without signal" in done.stderr
    assert len((here / "d/samples.jsonl").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("q",), "no run 'q'"),
        (("r", "--recipe", "smollm"), "did you mean 'smollm2-cpu'"),
        (("r", "--recipe", "odd.toml"), "unknown setting 'modle'; did you mean 'model'?"),
        (("r", "--recipe", "nowhere.toml"), "neither a folder"),
    ],
)
def test_what_is_wrong_is_named(here: Path, inside: Inside, words: tuple[str, ...], message: str) -> None:
    (here / "odd.toml").write_text('modle = "x"\n', encoding="utf-8")
    (here / "nowhere.toml").write_text('model = "nothing"\n', encoding="utf-8")
    done = inside("distill", *words, "--dry-run")
    clear(done, 2, message)


@pytest.mark.parametrize("broken", [True, False], ids=["broken", "absent"])
def test_mod_01_the_dry_run_needs_neither_torch_nor_transformers(here: Path, broken: bool) -> None:
    """Fake packages that raise at import stand before the real ones; absent ones raise as Python does."""
    for name in ("torch", "transformers", "peft", "unsloth"):
        missing = f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"
        (here / f"{name}.py").write_text(BROKEN if broken else missing, encoding="utf-8")
    env = {"PYTHONPATH": f"{here}:{ROOT}"}
    done = cli("distill", "r", "--recipe", "mine.toml", "--dry-run", cwd=here, env=env)
    assert done.returncode == 0, done.stderr
    assert (here / "runs/r/distill/mine/samples.jsonl").is_file()
    toy_tasks(here / "t.jsonl")
    playing = ("eval", "--tasks", "t.jsonl", "--agent", "random", "--run", "e")
    for words in (("--help",), ("distill", "--help"), ("runs",), playing):
        ran = cli(*words, cwd=here, env=env)
        assert ran.returncode == 0, ran.stderr
    refused = cli("distill", "r", "--recipe", "mine.toml", cwd=here, env=env)
    clear(refused, 2, "roleagent-lite[distill]", "does not load" if broken else "the package 'torch'")
    assert not (here / "runs/r/distill/mine/checkpoints").exists()


def test_mod_01_the_plain_back_end_trains_and_says_so(here: Path, inside: Inside) -> None:
    pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)
    tiny.save_model(here / "model")
    (here / "mine.toml").write_text(
        'model = "model"\n[adapter]\nrank = 2\n[train]\nbatch = 2\nepochs = 2\n', encoding="utf-8"
    )
    done = inside("distill", "r", "--recipe", "mine.toml")
    assert done.returncode == 0, done.stderr
    assert "transformers and peft on cpu" in done.stdout and "2 of 2" in done.stdout
    assert "training · 2/2 · loss" in done.stderr and "warning: 1 of 2 groups without signal" in done.stderr
    assert (here / "runs/r/distill/mine/adapter/adapter_model.safetensors").is_file()
    again = json.loads(inside("distill", "r", "--recipe", "mine.toml", "--json").stdout)
    assert again["steps"] == 2 and again["method"] == "advantage-weighted fine-tuning"


def test_mod_01_a_recipe_for_a_card_says_so_before_anything_loads(
    here: Path, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="needs the distill extra", exc_type=ImportError)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (here / "mine.toml").write_text('model = "nowhere/at all"\ndevice = "cuda"\n', encoding="utf-8")
    clear(inside("distill", "r", "--recipe", "mine.toml"), 2, "recipe 'mine' needs a CUDA card")


def test_training_that_stops_says_what_is_kept(
    here: Path, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"stopped": "the loss of step 3 is nan", "adapter": "A", "warnings": ["KL"], "steps": 1, "of": 9}
    told |= dict.fromkeys(("method", "backend", "backend_why", "device", "reference"), "x")
    monkeypatch.setattr("roleagent_lite.distill.stack.device_for", lambda plan: "cpu")
    monkeypatch.setattr("roleagent_lite.distill.job.distill", lambda *_: told)
    done = inside("distill", "r", "--recipe", "mine.toml")
    assert done.returncode == 1 and "warning: KL" in done.stderr
    assert "training stopped: the loss of step 3 is nan; the last good adapter is A" in done.stderr
