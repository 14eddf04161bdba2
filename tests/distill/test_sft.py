"""sft: the mean cross-entropy of the replies, and that imitation raises them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill.sft import Imitation
from roleagent_lite.distill.train import Trainer, totals_of
from tests.distill import local


def test_the_loss_is_the_mean_over_reply_tokens() -> None:
    recipe = local.recipe()
    made, rows = local.policy(recipe), local.rows()
    batch = made.rows(rows)
    logps = made.fixed_logps(batch)
    expected = -float((logps * batch.mask).sum() / batch.mask.sum())
    loss, told = Imitation().loss(made, rows, totals_of(rows, recipe))
    assert loss.item() == pytest.approx(expected, abs=1e-6) and told["tokens"] == float(batch.mask.sum())
    parts = [Imitation().loss(made, rows[k : k + 2], totals_of(rows, recipe))[0].item() for k in (0, 2, 4)]
    assert sum(parts) == pytest.approx(expected, abs=1e-5)


def test_imitation_raises_what_it_saw_and_its_end(tmp_path: Path) -> None:
    recipe = local.recipe(train={"epochs": 15, "lr": 0.05})
    made = local.policy(recipe)
    rows = local.rows(["take key"] * 3, [0.0] * 3)
    batch = made.rows(rows[:1])
    before = made.fixed_logps(batch)[0]
    Trainer(made, Imitation(), recipe, tmp_path, {}).run(rows)
    after = made.fixed_logps(batch)[0]
    assert len(after) == 4 and bool(
        (after > before + 1).all()
    )  # `take`, blank, `key` and the end of the turn
