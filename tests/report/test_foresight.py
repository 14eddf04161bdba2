"""The section on predictions: measured on credited episodes only, its warnings are passed on."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from roleagent_lite.report import foresight
from tests.report import make


def test_only_credited_episodes_are_measured(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        found = foresight.measure(run)
        assert found is not None
        fidelity, left_out = found
    assert (
        fidelity.steps == 16 and left_out == 0
    )  # 8 training episodes of 2 steps; dev and test have no credit
    assert fidelity.alignment == pytest.approx(1.0)


def test_no_credit_no_section(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        make.play(run, make.episode(make.task(1, "train"), make.SEED))
        assert foresight.measure(run) is None


def test_a_long_run_is_measured_on_its_newest_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "MOST_STEPS", 8)
    with make.whole_run(tmp_path / "r") as run:
        found = foresight.measure(run)
    assert found is not None
    assert (found[0].steps, found[1]) == (8, 4)
    assert "4 earlier episodes were left out" in foresight.words(*found)


def test_a_text_that_many_steps_hold_is_held_once(tmp_path: Path) -> None:
    seen: dict[str, str] = {}
    steps = [make.step(f"act {n}") for n in range(3)]
    slim = [foresight._slim(replace(step, outcome="".join(["You see", " a box."])), seen) for step in steps]
    assert all(step.outcome is slim[0].observation for step in slim)
    assert [(s.admissible, s.thought, s.said, s.call_ids) for s in slim] == [((), "", "", ())] * 3
    assert [s.predictions for s in slim] == [s.predictions for s in steps] and len(seen) == 1


def test_wm_03_missing_predictions_are_said_with_the_rule(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        one = make.task(1, "train")
        steps = [make.step(foretold="The box is open.")] * 6 + [make.step(foretold=None)] * 4
        group = [make.episode(one, make.SEED, rollout=0, steps=steps)]
        make.play(run, *group)
        make.credit(run, group)
        found = foresight.measure(run)
        assert found is not None
        text = foresight.words(*found)
    assert "4 of 10 steps (40 %) carried no prediction" in text
    assert "6 comparisons in 6 of 10 steps" in text
    assert found[0].rule in text


def test_warnings_correlation_and_groups_are_in_the_words(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        found = foresight.measure(run)
        assert found is not None
    text = foresight.words(*found)
    assert "Correlation" in text and "state groups" in text
    assert all("**Note:** " in text for _ in found[0].warnings)
    assert text.count("**Note:**") == len(found[0].warnings)


def test_tables_and_plot_stand_beside_trivial_predictors(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        found = foresight.measure(run)
        assert found is not None
    fidelity = found[0]
    table = foresight.baseline_table(fidelity)
    assert all(b.name in table for b in fidelity.baselines)
    assert "| look | 8 |" in foresight.action_table(fidelity)
    svg = foresight.plot(fidelity)
    assert svg is not None and ET.fromstring(svg) is not None
