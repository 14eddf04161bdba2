"""`distill RUN --samples FILE`: files and words, without torch, transformers or a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roleagent_lite.memory import parquet_rows
from tests.cli.conftest import Inside
from tests.cli.make import ROOT, clear, cli
from tests.distill import make


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a run `r` and a recipe whose model is nowhere."""
    run = make.new_run(tmp_path / "runs" / "r")
    make.group(run, "a", [True, False])
    make.group(run, "b", [False, False])
    run.close()
    make.OPENED.clear()
    (tmp_path / "mine.toml").write_text('model = "no/where"\n', encoding="utf-8")
    (tmp_path / "sft.toml").write_text('model = "no/where"\nmethod = "sft"\n', encoding="utf-8")
    return tmp_path


def test_samples_for_trl_and_for_verl(here: Path, inside: Inside) -> None:
    done = inside("distill", "r", "--recipe", "mine.toml", "--samples", "s.jsonl")
    assert done.returncode == 0, done.stderr
    assert "written to s.jsonl, layout trl" in done.stdout
    rows = [json.loads(line) for line in (here / "s.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [r["completion"][0]["content"] for r in rows] == ["take key"] * 4
    told = inside(
        "distill", "r", "--recipe", "mine.toml", "--samples", "s.parquet", "--layout", "verl", "--json"
    )
    said = json.loads(told.stdout)
    assert (said["samples"], said["layout"], said["out"]) == (4, "verl", "s.parquet")
    assert [r["extra_info"]["advantage"] for r in parquet_rows(here / "s.parquet")] == [
        r["advantage"] for r in rows
    ]


def test_imitation_writes_what_it_would_imitate(here: Path, inside: Inside) -> None:
    done = inside("distill", "r", "--recipe", "sft.toml", "--samples", "s.jsonl")
    assert "left out: not solved" in done.stdout
    assert len((here / "s.jsonl").read_text(encoding="utf-8").splitlines()) == 1


def test_what_is_wrong_is_named(here: Path, inside: Inside) -> None:
    words = ("distill", "r", "--recipe", "mine.toml", "--samples")
    clear(inside(*words, "s.csv"), 2, "*.jsonl or *.parquet")
    clear(inside(*words, "s.jsonl", "--layout", "tlr"), 2, "did you mean 'trl'?")
    clear(inside("distill", "--samples", "s.jsonl"), 2, "distill needs a RUN")
    assert not list(here.glob("s.*"))


def test_mod_01_samples_are_written_where_torch_is_broken(here: Path) -> None:
    for name in ("torch", "transformers", "peft", "tokenizers"):
        (here / f"{name}.py").write_text("raise RuntimeError('broken')\n", encoding="utf-8")
    words = ("distill", "r", "--recipe", "mine.toml", "--samples", "s.parquet")
    done = cli(*words, cwd=here, env={"PYTHONPATH": f"{here}:{ROOT}"})
    assert done.returncode == 0, done.stderr
    assert len(list(parquet_rows(here / "s.parquet"))) == 4
