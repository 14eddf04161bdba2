"""online_loss: the old policy is the one that played, and what the trainer computes is what it said."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

from roleagent_lite.distill.local import LocalModel
from roleagent_lite.distill.online_loss import OnlineChoices, apart, computed, drifted, entropy, scored
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.tokens import Tokens
from tests.distill import local
from tests.distill.test_choices import row
from tests.distill.test_tree import states


def played(kind: str = "llama", **loss: float) -> tuple[Recipe, Policy, LocalModel, list[Tokens]]:
    """Rows with the scores that the sampler gave for them."""
    recipe = local.recipe(model=str(local.model(kind)), loss=loss, online={"room": 300})
    policy = local.policy(recipe)
    local.disturb(policy)
    model = LocalModel(policy, local.tokenizer(), "local:tiny+0")
    rows = [*states("a"), *states("b"), row(0, " take key", 1.0), row(1, " open door", -0.5)]
    out = []
    for number, made in enumerate(rows):
        scores = model.reader.score(made.ids[: made.start], made.choices)
        sample = replace(
            made.sample, scores=tuple(map(tuple, scores)), advantage=1.0 - number / 3, temperature=0.9
        )
        out.append(replace(made, sample=sample))
    return recipe, policy, model, out


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_sampler_and_trainer_agree_to_1e_5_in_float32(kind: str) -> None:
    recipe, policy, model, rows = played(kind)
    old = {t.sample.id: OnlineChoices.recorded(t) for t in rows}
    trained = computed(policy, rows, recipe.online.room)
    assert set(old) == set(trained) == {t.sample.id for t in rows}
    for name, value in old.items():
        assert float(value) == pytest.approx(float(trained[name]), abs=1e-5)
    assert apart(old, scored(model, rows)) < 1e-6  # said again
    local.disturb(policy, seed=2)  # what the sampler has kept is of other weights now
    assert apart(scored(model, rows), computed(policy, rows, 300)) > 1e-2


def test_the_first_pass_has_a_ratio_of_one_and_a_loss_of_minus_the_mean_advantage() -> None:
    recipe, policy, _, rows = played(kl=0.0)
    objective = OnlineChoices.of(rows, LocalModel(policy, local.tokenizer(), "s", acting="start"), recipe)
    totals = objective.totals(rows, recipe)
    parts = objective.parts(rows, 1)
    assert (
        sorted(t.sample.id for p in parts for t in p) == sorted(t.sample.id for t in rows) and len(parts) >= 2
    )
    sums: dict[str, float] = {}
    whole = 0.0
    for part in parts:
        loss, told = objective.loss(policy, part, totals)
        whole += float(loss.detach())
        sums = {k: sums.get(k, 0.0) + v for k, v in told.items()}
    advantages = [t.sample.advantage for t in rows]
    assert whole == pytest.approx(-sum(advantages) / len(rows), abs=1e-5)
    report = objective.report(sums, totals)
    assert report["ratio"] == pytest.approx(1.0, abs=1e-5) and report["drift"] < 1e-5
    assert report["kl"] == pytest.approx(0.0, abs=1e-6) and report["states"] == 4  # of eight rows
    objective.fresh = False  # after a step the ratio may be anything
    assert "drift" not in objective.report(sums, totals)


def test_the_divergence_is_from_where_grpo_started() -> None:
    recipe, policy, _, rows = played(kl=0.1)
    objective = OnlineChoices.of(rows, LocalModel(policy, local.tokenizer(), "s", acting="start"), recipe)
    with policy.at_the_start():
        start = computed(policy, rows, 300)
    assert apart(objective.known[1], start) < 1e-5 < apart(objective.known[0], start)
    _, told = objective.loss(policy, rows, objective.totals(rows, recipe))
    d = torch.stack([start[t.sample.id] - objective.known[0][t.sample.id] for t in rows])
    assert told["kl"] == pytest.approx(float((d.exp() - d - 1).sum()), abs=1e-4)


def test_a_drift_is_a_reason_to_stop() -> None:
    recipe = played()[0]
    objective = OnlineChoices(recipe, {}, {})
    words = objective.limit({"step": 0, "kl": 0.0, "drift": 0.5})
    assert "differ by 0.5 nats on average, more than online.max_drift 0.02" in words
    assert objective.limit({"step": 0, "kl": 0.0, "drift": 0.01}) == ""
    assert "loss.max_kl" in objective.limit({"step": 0, "kl": 9.0})
    assert drifted(0.1, 0.2, "now") == ""
    assert apart({}, {}) == 0.0


def test_entropy_of_even_choices() -> None:
    made = row(0, " take key", 0.0)
    lengths = torch.tensor([float(len(c)) for c in made.choices])
    even = replace(made, sample=replace(made.sample, penalties=(0.0,) * 4))
    assert entropy(even, -lengths) == pytest.approx(1.3863, abs=1e-4)
    assert entropy(made, -lengths) < 1.3863  # one costs more for having been made before
