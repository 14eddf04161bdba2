"""benchmarks/gpu_check.py on the CPU: all its parts, so that it works the first time there is a card."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from benchmarks import gpu_check
from benchmarks.gpu_check import CARD, END, REHEARSAL, Outcome, samples
from tests.distill import stand_in_unsloth


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    gpu_check.build_model(tmp_path / "model", REHEARSAL.size)
    return tmp_path


def test_the_model_and_the_samples_are_what_is_promised(folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert 30e6 < CARD.size.parameters < 100e6
    made = AutoModelForCausalLM.from_pretrained(folder / "model")
    assert sum(p.numel() for p in made.parameters()) == REHEARSAL.size.parameters
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (END, gpu_check.PAD)
    assert tokenizer("w5 w6").input_ids == [8, 9] and len(tokenizer) == REHEARSAL.size.vocabulary
    for scale in (CARD, REHEARSAL):
        rows = samples(scale)
        assert rows == samples(scale) and len(rows) == scale.groups * scale.rollouts
        groups = {t.sample.group: t.ids[: t.start] for t in rows}
        assert all(t.ids[: t.start] == groups[t.sample.group] for t in rows)
        assert {t.sample.advantage for t in rows} == {1.0, -1.0}
        assert all(t.ids[-1] == END and max(t.ids) < scale.size.vocabulary for t in rows)
        longest = max(len(t.ids) for t in rows)
        recipe = gpu_check.recipe_of("plain", folder, scale, 10)
        assert longest <= recipe.data.max_tokens <= 2048 and recipe.train.recompute


def test_both_back_ends_begin_alike_and_stay_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the stand-in for Unsloth: nothing is measured here, the columns are filled."""
    stand_in_unsloth.put_in(monkeypatch)
    plain, fast, narrow = (gpu_check.train(kind, folder, "cpu", 3) for kind in gpu_check.KINDS)
    for one in (plain, fast, narrow):
        assert (one.failed, one.stage, len(one.losses), len(one.seconds)) == ("", "done", 3, 3)
        assert one.speed is not None and one.speed > 0 and one.peak > 0 and one.loading > 0
        assert all(math.isfinite(loss) for loss in one.losses) and one.tokens == plain.tokens
    assert plain.losses == pytest.approx(fast.losses, abs=1e-4)
    assert plain.losses == sorted(plain.losses, reverse=True) and len(set(plain.losses)) == 3
    assert plain.start == pytest.approx(fast.start, abs=1e-4)
    assert fast.words.startswith("Unsloth") and plain.words == "transformers and peft"
    shown = gpu_check.table([plain, fast, narrow])
    assert shown.count("loss at step") == 3 and "tokens per second" in shown and "0.0000" in shown


@pytest.mark.parametrize(
    ("broken", "stage"),
    [
        ("Unsloth", "import"),
        ("Policy", "load"),
        ("Offline.prepare", "log-probabilities"),
        ("Trainer", "training"),
    ],
)
def test_the_part_that_failed_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, broken: str, stage: str
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no kernel image\nis available")

    stand_in_unsloth.put_in(monkeypatch)
    monkeypatch.setattr(f"benchmarks.gpu_check.{broken}", fail)
    done = gpu_check.train("unsloth", folder, "cpu", 2)
    assert (done.stage, done.failed) == (stage, "RuntimeError: no kernel image")
    assert f"failed at {stage}: RuntimeError: no kernel image" in gpu_check.verdicts([done])[0]
    assert "-" in gpu_check.table([done])


def test_without_a_card_it_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main([]) == 2
    assert capsys.readouterr().out.startswith("no CUDA card: nothing was measured")


def test_where_unsloth_is_absent_one_line_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "installed", lambda name: False)
    assert "not installed (pip install 'roleagent-lite[unsloth]')" in gpu_check.absent()
    monkeypatch.setattr(gpu_check, "installed", lambda name: True)
    assert gpu_check.absent() == ""


def test_a_child_that_dies_or_hangs_is_an_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "child.py"
    monkeypatch.setattr(gpu_check, "__file__", str(script))
    script.write_text("import sys; sys.exit('killed by the driver')", encoding="utf-8")
    done = gpu_check.ask("plain", tmp_path, "cpu", 1, 60)
    assert (done.stage, done.failed) == ("the process", "exit code 1: killed by the driver")
    script.write_text("import time; time.sleep(60)", encoding="utf-8")
    done = gpu_check.ask("plain", tmp_path, "cpu", 1, 0.5)
    assert done.stage == "the time allowed" and "not done after" in done.failed


def test_columns_stand_side_by_side() -> None:
    outcomes = [
        Outcome("plain", "p", "done", "", 1.0, 2 << 30, [9.0, 1.0], [100, 400], [0.5, 0.25], [-1.0, -2.0]),
        Outcome("unsloth", "u", "done", "", 2.0, 1 << 30, [9.0, 0.5], [100, 400], [0.5, 0.125], [-1.0, -1.0]),
        Outcome("unsloth 4-bit", stage="load", failed="ImportError: bitsandbytes"),
    ]
    lines = gpu_check.table(outcomes).splitlines()
    assert lines[0].split() == ["plain", "unsloth", "unsloth", "4-bit"]
    assert lines[2].split()[-3:] == ["400", "800", "-"] and lines[3].split()[-3:] == ["2.00", "1.00", "-"]
    assert lines[4].split()[-3:] == ["0.0000", "0.5000", "-"]
    assert lines[-1].split()[-3:] == ["+0.25000", "+0.12500", "-"]
    assert gpu_check.verdicts(outcomes)[2] == "unsloth 4-bit: it failed at load: ImportError: bitsandbytes"


@pytest.mark.slow
def test_the_script_rehearses_as_a_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_check, "absent", lambda: "Unsloth is not installed")
    assert gpu_check.main(["--cpu", "--steps", "2"]) == 0
    out = capsys.readouterr().out
    assert "rehearsal on the CPU: no figure of a card" in out and "unsloth: Unsloth is not installed" in out
    assert "loss at step 2" in out and "plain: transformers and peft trained 2 steps" in out
