"""train: order, accumulation, what is kept when numbers go wrong, and that a resume is the same training."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch
from safetensors.torch import load_file

from roleagent_lite.distill import checkpoint
from roleagent_lite.distill.loss import Totals
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.sft import Imitation
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.distill.train import Trained, Trainer, batch_at, schedule, totals_of
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.types import Progress
from tests.distill import local


class Odd(Imitation):
    """Imitation whose loss or gradient goes wrong at one step, or which finds its limit there."""

    def __init__(self, at: int, how: str) -> None:
        self.at, self.how, self.step = at, how, -1

    def loss(self, policy: Policy, batch: Sequence[Tokens], totals: Totals) -> tuple[Any, dict[str, float]]:
        self.step += 1
        loss, told = super().loss(policy, batch, totals)
        if self.step == self.at and self.how in ("nan", "inf"):
            loss = loss * float(self.how)
        if self.step == self.at and self.how == "gradient":
            loss = loss + sum((p - p.detach()).abs().sqrt().sum() for p in policy.parameters.values())
        return loss, told

    def limit(self, report: Mapping[str, float]) -> str:
        return "it went too far" if (self.step, self.how) == (self.at, "limit") else ""


def trained(
    out: Path, recipe: Recipe, objective: Any = None, rows: Any = None
) -> tuple[Trained, dict[str, Any]]:
    rows = rows or local.rows()
    made = Trainer(local.policy(recipe), objective or Imitation(), recipe, out, {"who": "test"})
    result = made.run(rows)
    return result, load_file(out / "adapter" / "adapter_model.safetensors")


def equal(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def reports(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "steps.jsonl").read_text(encoding="utf-8").splitlines()]


ONE = {"train": {"micro_batch": 3}}  # one micro-batch an update, so that `Odd` counts steps


def test_steps_and_their_samples() -> None:
    rows = local.rows()
    recipe = local.recipe(train={"batch": 4, "epochs": 3})
    assert schedule(6, recipe) == 6 and schedule(8, recipe) == 6
    assert schedule(6, local.recipe(train={"batch": 4, "epochs": 3, "steps": 5})) == 5
    passes = [[t.sample.id for s in (2 * p, 2 * p + 1) for t in batch_at(rows, s, recipe)] for p in range(3)]
    assert all(sorted(ids) == [f"e/{k}" for k in range(6)] for ids in passes)
    assert len({tuple(ids) for ids in passes}) == 3
    assert [len(batch_at(rows, s, recipe)) for s in range(4)] == [4, 2, 4, 2]
    assert batch_at(rows, 3, recipe) == batch_at(rows, 3, recipe)


def test_samples_behind_the_same_prompt_stay_together() -> None:
    rows = [replace(r, sample=replace(r.sample, id=f"{r.sample.id}{n}")) for n in "ab" for r in local.rows()]
    ids = [t.sample.id for s in range(3) for t in batch_at(rows, s, local.recipe(train={"batch": 4}))]
    assert len(set(ids)) == 12 and all(a[:-1] == b[:-1] for a, b in zip(ids[::2], ids[1::2], strict=True))


def test_totals_count_trained_tokens_only() -> None:
    rows = local.rows()
    recipe = local.recipe(loss={"length": 7})
    count = sum(len(r.ids) - r.start for r in rows)
    assert totals_of(rows, recipe) == Totals(rows=6, tokens=count, predicted=0, length=7)


def test_micro_batches_change_nothing(tmp_path: Path) -> None:
    results = [
        trained(tmp_path / str(size), local.recipe(train={"micro_batch": size}))[1] for size in (1, 2, 3)
    ]
    for other in results[1:]:
        for name, value in results[0].items():
            assert float((value - other[name]).abs().max()) < 1e-5, name


def test_it_learns_and_says_so(tmp_path: Path) -> None:
    heard: list[Progress] = []
    recipe = local.recipe(train={"epochs": 10, "lr": 0.05})
    made = Trainer(local.policy(recipe), Imitation(), recipe, tmp_path, {})
    result = made.run(local.rows(), heard.append)
    losses = [r["loss"] for r in reports(tmp_path)]
    assert result.last["loss"] < losses[0] / 2 and not result.stopped
    assert (result.steps, result.total) == (20, 20) == (heard[-1].done, heard[-1].total)
    assert [r["step"] for r in reports(tmp_path)] == list(range(20))


def test_warm_up_starts_small(tmp_path: Path) -> None:
    recipe = local.recipe(train={"warmup": 4, "epochs": 1, "steps": 1})
    made = Trainer(local.policy(recipe), Imitation(), recipe, tmp_path, {})
    made.run(local.rows())
    assert made.optimizer.param_groups[0]["lr"] == pytest.approx(0.0025)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("nan", "the loss of step 3 is nan"),
        ("inf", "the loss of step 3 is inf"),
        ("gradient", "the gradient of step 3 is"),
        ("limit", "it went too far"),
    ],
)
def test_rl_03_what_is_not_finite_stops_and_keeps_the_last_good_adapter(
    tmp_path: Path, how: str, words: str
) -> None:
    """The adapter after two updates gave the bad number, so the one after one update is the last good one."""
    whole = local.recipe(**{"train": {**ONE["train"], "epochs": 3}})
    result, kept = trained(tmp_path / "odd", whole, Odd(2, how))
    assert result.stopped.startswith(words) and result.steps == 1
    assert all(bool(torch.isfinite(t).all()) for t in kept.values())
    first = local.recipe(**{"train": {**ONE["train"], "epochs": 3, "steps": 1}})
    assert equal(kept, trained(tmp_path / "one", first)[1])


def test_rl_03_bad_from_the_start_keeps_the_start(tmp_path: Path) -> None:
    recipe = local.recipe(**ONE)
    result, kept = trained(tmp_path, recipe, Odd(0, "nan"))
    assert result.steps == 0 and all(not bool(v.any()) for k, v in kept.items() if "lora_B" in k)
    assert checkpoint.latest(tmp_path) is None


def test_rl_03_an_update_that_breaks_the_model_is_taken_back(tmp_path: Path) -> None:
    """The last update is measured too: one that leads to nonsense does not become the result."""
    recipe = local.recipe(train={"lr": 1e30, "epochs": 1, "clip_norm": 1e30, "batch": 6, "micro_batch": 6})
    result, kept = trained(tmp_path, recipe)
    assert "not a finite number" in result.stopped and result.steps == 0
    assert all(bool(torch.isfinite(t).all()) for t in kept.values())


def test_rl_05_a_fully_masked_update_is_no_division_by_zero(tmp_path: Path) -> None:
    rows = [replace(r, start=len(r.ids)) for r in local.rows()[:3]] + local.rows()[3:]
    result, _ = trained(tmp_path, local.recipe(train={"batch": 1, "micro_batch": 1}), rows=rows)
    assert not result.stopped and all(math.isfinite(r["loss"]) for r in reports(tmp_path))
    assert sum(r["loss"] == 0.0 for r in reports(tmp_path)) == 6


def test_a_resume_is_the_same_training(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"adapter": {"dropout": 0.2}, "train": {"epochs": 3, "checkpoint_every": 2}}
    _, whole = trained(tmp_path / "whole", local.recipe(**settings))
    short = {**settings, "train": {**settings["train"], "steps": 4}}
    assert trained(tmp_path / "parts", local.recipe(**short))[0].steps == 4
    result, parts = trained(tmp_path / "parts", local.recipe(**settings))
    assert result.steps == 6 and equal(whole, parts)
    assert reports(tmp_path / "whole") == reports(tmp_path / "parts")
    assert equal(trained(tmp_path / "parts", local.recipe(**settings))[1], whole)  # done already


def test_steps_after_the_last_checkpoint_are_done_again(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"train": {"epochs": 3, "checkpoint_every": 2}}
    _, whole = trained(tmp_path / "whole", local.recipe(**settings))
    result, _ = trained(tmp_path / "parts", local.recipe(**settings), Odd(9, "nan"))
    assert result.stopped  # two micro-batches a step: in its fifth step
    assert checkpoint.latest(tmp_path / "parts") is not None
    log = tmp_path / "parts" / "steps.jsonl"
    log.write_text(log.read_text(encoding="utf-8") + '{"step": 4, "lo', encoding="utf-8")
    _, parts = trained(tmp_path / "parts", local.recipe(**settings))
    assert equal(whole, parts) and reports(tmp_path / "parts") == reports(tmp_path / "whole")


def test_a_resume_with_other_settings_is_refused(tmp_path: Path) -> None:
    recipe = local.recipe()
    trained(tmp_path, recipe)
    with pytest.raises(
        ConfigError, match="was begun with other settings \\(who: 'test' then, 'other' now\\)"
    ):
        Trainer(local.policy(recipe), Imitation(), recipe, tmp_path, {"who": "other"}).run(local.rows())


@pytest.mark.parametrize("name", ["adapter.part", "steps.jsonl"])
def test_a_disk_that_takes_no_more(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, before = trained(tmp_path, local.recipe(train={"epochs": 1}))
    real = Path.open

    def full(self: Path, *arguments: Any, **named: Any) -> Any:
        if self.name == name:
            raise OSError(28, "No space left on device")
        return real(self, *arguments, **named)

    if name == "adapter.part":

        def refuse(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("roleagent_lite.distill.lora.save", refuse)
    else:
        monkeypatch.setattr(Path, "open", full)
    with pytest.raises(RoleAgentError, match="No space left on device"):
        trained(tmp_path, local.recipe())
    monkeypatch.undo()
    assert equal(load_file(tmp_path / "adapter" / "adapter_model.safetensors"), before)


def test_recomputed_activations_train_the_same_adapter(tmp_path: Path) -> None:
    _, kept = trained(tmp_path / "kept", local.recipe())
    _, again = trained(tmp_path / "again", local.recipe(train={"recompute": True}))
    assert equal(kept, again)
