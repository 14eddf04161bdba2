"""`distill --dry-run`: files, words and refusals, also where torch or transformers is broken (MOD-01)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import tiny
from tests.cli.conftest import Inside
from tests.cli.make import clear, cli
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
    assert "2 groups" not in done.stdout and "1 without signal" in done.stdout
    assert "warning: 1 of 2 groups without signal" in done.stderr
    rows = (here / "runs/r/distill/mine/samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(r)["trained_text"] for r in rows] == ["take key<|end|>"] * 4
    as_json = json.loads(
        inside("distill", "r", "--recipe", "mine.toml", "--dry-run", "--json", "--out", "d").stdout
    )
    assert as_json["used"] == 2 and as_json["out"] == "d" and (here / "d/summary.json").is_file()


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
    from tests.cli.make import ROOT

    env = {"PYTHONPATH": f"{here}:{ROOT}"}
    done = cli("distill", "r", "--recipe", "mine.toml", "--dry-run", cwd=here, env=env)
    assert done.returncode == 0, done.stderr
    assert (here / "runs/r/distill/mine/samples.jsonl").is_file()
    for words in (("--help",), ("distill", "--help"), ("runs",)):
        assert cli(*words, cwd=here, env=env).returncode == 0
