"""grpo: which old policy stands in the ratio, staleness, the reference and its limit, and what is learned."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

from roleagent_lite.distill import lora
from roleagent_lite.distill.grpo import GRPO, WEIGHTED, Offline
from roleagent_lite.distill.loss import Totals
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.distill.train import Trained, Trainer, totals_of
from roleagent_lite.errors import ConfigError, RoleAgentError
from tests.distill import local
from tests.distill.local import read


def with_logprobs(policy: Policy, rows: list[Tokens], shift: float = 0.0) -> list[Tokens]:
    """As a run records them where the model itself has played, off by `shift` nats."""
    return [
        replace(r, logprobs=tuple((read(policy, r) + shift).tolist())) for r in rows
    ]  # fmt: skip


def train(
    out: Path, recipe: Recipe, rows: list[Tokens], policy: Policy | None = None
) -> tuple[Trained, Offline]:
    made = policy or local.policy(recipe)
    objective = Offline.prepare(made, rows, recipe, "tiny")
    return Trainer(made, objective, recipe, out, {}).run(rows), objective


def test_without_recorded_log_probabilities_it_is_called_what_it_is() -> None:
    recipe, rows = local.recipe(), local.rows()
    made = local.policy(recipe)
    found = Offline.prepare(made, rows, recipe, "tiny")
    assert (found.name, found.staleness, found.kl_at_start) == (WEIGHTED, None, 0.0)
    loss, told = found.loss(made, rows, totals_of(rows, recipe))
    assert told["ratio"] == pytest.approx(told["tokens"]) and told["clipped"] == 0
    assert loss.item() == pytest.approx(-sum(local.ADVANTAGES) / 6, abs=1e-6)  # ratio 1: the mean advantage


def test_recorded_log_probabilities_of_this_model_make_it_grpo() -> None:
    recipe = local.recipe()
    made = local.policy(recipe)
    rows = with_logprobs(made, local.rows(), shift=-0.1)
    found = Offline.prepare(made, rows, recipe, "tiny")
    assert found.name == GRPO and found.staleness is not None
    assert found.staleness.difference == pytest.approx(0.1, abs=1e-5)
    assert found.staleness.kl == pytest.approx(math.exp(-0.1) + 0.1 - 1, abs=1e-5)
    assert found.staleness.outside == 0.0 and found.staleness.tokens == sum(sum(r.mask) for r in rows)
    _, told = found.loss(made, rows, totals_of(rows, recipe))
    assert told["ratio"] / told["tokens"] == pytest.approx(math.exp(0.1), abs=1e-5)
    far = Offline.prepare(made, with_logprobs(made, rows, shift=-0.5), recipe, "tiny").staleness
    assert far is not None and far.outside == 1.0


def test_other_models_values_are_not_this_policys() -> None:
    made = local.policy(local.recipe())
    rows = with_logprobs(made, local.rows())
    assert Offline.prepare(made, rows, local.recipe(), "another").name == WEIGHTED
    vouched = local.recipe(loss={"old": "recorded"})
    assert Offline.prepare(made, rows, vouched, "another").name == GRPO
    assert Offline.prepare(made, rows, local.recipe(loss={"old": "start"}), "tiny").name == WEIGHTED
    partly = [*rows[:-1], replace(rows[-1], logprobs=None)]
    assert Offline.prepare(made, partly, local.recipe(), "tiny").name == WEIGHTED
    with pytest.raises(ConfigError, match=r"1 of 6 samples have no log-probabilities in this model's tokens"):
        Offline.prepare(made, partly, local.recipe(loss={"old": "recorded"}), "tiny")


@pytest.mark.parametrize("normalise", ["grpo", "mean", "dr_grpo"])
def test_it_raises_what_was_good_and_lowers_what_was_bad(tmp_path: Path, normalise: str) -> None:
    recipe = local.recipe(
        loss={"normalise": normalise, "length": 6},
        train={"epochs": 6, "batch": 6, "micro_batch": 3, "lr": 0.01},
    )
    made = local.policy(recipe)
    rows = local.rows()
    batch = made.rows(rows)
    before = (made.fixed_logps(batch) * batch.mask).sum(1)
    result, _ = train(tmp_path, recipe, rows, made)
    change = (made.fixed_logps(batch) * batch.mask).sum(1) - before
    assert not result.stopped
    good = [float(c) for c, a in zip(change, local.ADVANTAGES, strict=True) if a > 0.5]
    bad = [float(c) for c, a in zip(change, local.ADVANTAGES, strict=True) if a < 0]
    assert min(good) > 0 > max(bad), (good, bad)


def test_rl_12_the_divergence_is_0_before_the_first_update_also_from_an_adapter(tmp_path: Path) -> None:
    first = local.policy(local.recipe())
    local.disturb(first, 0.2)
    lora.save(first.model, tmp_path / "start", "float32")
    recipe = local.recipe(adapter={"start": str(tmp_path / "start")})
    made, rows = local.policy(recipe), local.rows()
    found = Offline.prepare(made, rows, recipe, "tiny")
    assert found.kl_at_start < 1e-4
    _, told = found.loss(made, rows, totals_of(rows, recipe))
    assert told["kl"] / told["tokens"] < 1e-4
    # Against the base it would be large from the start: that is what must not happen.
    with made.model.disable_adapter():
        base = [read(made, r) for r in rows]
    distance = max(float((b - read(made, r)).abs().max()) for b, r in zip(base, rows, strict=True))
    assert distance > 0.1


def test_rl_12_a_reference_that_is_not_the_start_is_noticed(tmp_path: Path) -> None:
    """An adapter that was disturbed after loading: the reference is no longer what training starts from."""
    made = local.policy(local.recipe())
    local.disturb(made, 0.2)
    with pytest.raises(
        RoleAgentError, match=r"the reference policy \(the base model \(adapter off\)\) is not"
    ):
        Offline.prepare(made, local.rows(), local.recipe(), "tiny")


def test_rl_12_a_divergence_above_the_limit_warns_then_stops_with_the_last_good_adapter(
    tmp_path: Path,
) -> None:
    settings: dict[str, Any] = {
        "loss": {"kl": 0.0, "max_kl": 0.02},
        "train": {"epochs": 40, "batch": 6, "micro_batch": 6, "lr": 0.0005},
    }
    recipe = local.recipe(**settings)
    made = local.policy(recipe)
    rows = local.rows()
    result, objective = train(tmp_path, recipe, rows, made)
    assert "more than loss.max_kl 0.02" in result.stopped and 0 < result.steps < 40
    assert len(objective.warnings) == 1 and "training stops above" in objective.warnings[0]
    _, told = objective.loss(made, rows, totals_of(rows, recipe))  # the adapter that was kept
    assert 0 < told["kl"] / told["tokens"] <= 0.02


def test_the_divergence_weight_holds_the_policy_near_its_start(tmp_path: Path) -> None:
    def end(weight: float) -> float:
        recipe = local.recipe(
            loss={"kl": weight, "max_kl": 100}, train={"epochs": 10, "batch": 6, "micro_batch": 6, "lr": 0.01}
        )
        return train(tmp_path / str(weight), recipe, local.rows())[0].last["kl"]

    assert end(2.0) < end(0.0)


def test_true_predictions_are_learned_beside_it() -> None:
    recipe = local.recipe(loss={"prediction": 0.5})
    made = local.policy(recipe)
    rows = [replace(r, predicted=r.mask) for r in local.rows()]
    found = Offline.prepare(made, rows, recipe, "tiny")
    totals = totals_of(rows, recipe)
    batch = made.rows(rows)
    expected = -float((made.fixed_logps(batch) * batch.mask).sum() / batch.mask.sum())
    loss, told = found.loss(made, rows, totals)
    assert told["prediction"] == pytest.approx(expected, abs=1e-5)
    assert loss.item() == pytest.approx(-sum(local.ADVANTAGES) / 6 + 0.5 * expected, abs=1e-5)
    assert found.report({**told, "tokens": 3.0}, Totals(1, 3))["prediction"] == told["prediction"]
    off = Offline.prepare(made, rows, local.recipe(), "tiny").loss(made, rows, totals)
    assert "prediction" not in off[1] and bool(torch.isfinite(off[0]))
