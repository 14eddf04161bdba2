"""benchmarks/update_speed.py without TRL: both sides get the same batch, and credit is counted a step."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from benchmarks import update_speed
from benchmarks.gpu_check import PAD, REHEARSAL, build_model


def test_both_sides_get_the_same_tokens_at_their_own_places(tmp_path: Path) -> None:
    folder = build_model(tmp_path / "model", REHEARSAL.size)
    rows = update_speed.batch(REHEARSAL.size.vocabulary)
    assert rows == update_speed.batch(REHEARSAL.size.vocabulary) and len(rows) == update_speed.ROWS
    policy, known, update = update_speed.ours(folder, rows, update_speed.ROWS, tmp_path)
    given = update_speed.given_of(rows, known)
    for number, row in enumerate(rows):
        prompt = given["prompt_ids"][number][given["prompt_mask"][number].bool()].tolist()
        reply = given["completion_ids"][number][given["completion_mask"][number].bool()].tolist()
        assert tuple(prompt + reply) == row.ids and len(prompt) == row.start
        old = given["old_per_token_logps"][number][: len(reply)].tolist()
        assert old == known[row.sample.id].tolist()
    assert int(given["num_items_in_batch"]) == sum(sum(r.mask) for r in rows)
    assert (given["prompt_ids"][given["prompt_mask"] == 0] == PAD).all()
    before = {n: p.detach().clone() for n, p in policy.parameters.items()}
    first = update()
    # old and reference are what the policy is: the ratio is 1 and the loss is minus the mean advantage
    trained = [len(r.ids) - r.start for r in rows]
    mean = sum(r.sample.advantage * n for r, n in zip(rows, trained, strict=True)) / sum(trained)
    assert first == pytest.approx(-mean, abs=1e-4)
    assert any(not before[n].equal(p) for n, p in policy.parameters.items())


def test_credit_is_counted_a_step() -> None:
    played = update_speed.episodes(640)
    assert sum(len(t.steps) for t in played) == 640 and {t.task for t in played} == {
        f"task{k}" for k in range(5)
    }
    assert all(step.predictions[0] for t in played for step in t.steps)
    assert 0 < update_speed.credit_seconds(64) < 1
