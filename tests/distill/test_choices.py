"""choices: the policy over scored actions is the one that the agent drew from, and it is what is trained."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

from roleagent_lite.agents.choose import REPEAT, RULES
from roleagent_lite.distill.choices import OfflineChoices, is_choice
from roleagent_lite.distill.grpo import GRPO, WEIGHTED
from roleagent_lite.distill.job import distill
from roleagent_lite.distill.policy import Policy, packed
from roleagent_lite.distill.prepare import prepare
from roleagent_lite.distill.tokens import Tokens, tokenise
from roleagent_lite.distill.train import Trainer
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Message
from tests.distill import local, make
from tests.distill.test_tokens import SAMPLE

ACTIONS = (" take key", " open door", " look around the hall", " say hello.")
BEGUN = (*make.chat(), Message("assistant", "Goal: Get out\n>"))


def row(number: int, text: str, advantage: float, **more: Any) -> Tokens:
    sample = replace(
        SAMPLE, id=f"e/{number}", text=text, messages=BEGUN, ended=False, advantage=advantage,
        choices=ACTIONS, penalties=(0.0, REPEAT, 0.0, 0.0), temperature=0.9, **more,
    )  # fmt: skip
    return tokenise(sample, local.tokenizer(), 500)


def scores_of(made: Policy, tokens: Tokens) -> list[list[float]]:
    """Token log-probabilities of each choice, each scored alone as llama.cpp does."""
    out = []
    for choice in tokens.choices:
        ids = [*tokens.ids[: tokens.start], *choice]
        with torch.no_grad():
            logits = made.model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
        out.append([float(logits[k - 1, ids[k]]) for k in range(tokens.start, len(ids))])
    return out


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_choices_in_one_pass_are_those_scored_alone(kind: str) -> None:
    made = local.policy(local.recipe(model=str(local.model(kind))))
    local.disturb(made)
    tokens = row(0, " take key", 1.0)
    with made.frozen():
        found = made.choice_sums(tokens)
    assert found.tolist() == pytest.approx([sum(s) for s in scores_of(made, tokens)], abs=1e-4)


def test_a_pack_has_every_choice_behind_the_prompt() -> None:
    tokens = row(0, " take key", 1.0)
    pack = packed(tokens)
    prompt = tokens.start
    assert len(pack.ids) == prompt + sum(map(len, tokens.choices)) == len(pack.positions) == len(pack.owner)
    assert pack.targets == [i for c in tokens.choices for i in c]
    assert [pack.before[sum(map(len, tokens.choices[:k]))] for k in range(4)] == [prompt - 1] * 4
    assert pack.positions[prompt : prompt + len(tokens.choices[0])] == pack.positions[
        prompt + len(tokens.choices[0]) :
    ][: len(tokens.choices[0])]  # fmt: skip


def test_the_policy_is_what_the_agent_draws_from() -> None:
    made = local.policy(local.recipe())
    tokens = row(0, " open door", 1.0)
    scores = scores_of(made, tokens)
    values = [v - p for v, p in zip(RULES["mean"](scores, ()), tokens.sample.penalties, strict=True)]
    weights = [math.exp(v / 0.9) for v in values]
    with made.frozen():
        found = OfflineChoices.read(made, [tokens])["e/0"]
    assert found.tolist() == pytest.approx([math.log(weights[1] / sum(weights))], abs=1e-4)
    recorded = OfflineChoices.recorded(
        replace(tokens, sample=replace(tokens.sample, scores=tuple(map(tuple, scores))))
    )
    assert recorded.tolist() == pytest.approx(found.tolist(), abs=1e-4)
    short = replace(tokens, sample=replace(tokens.sample, scores=((-1.0,),) * 4))
    assert OfflineChoices.recorded(short) is None  # of another tokenizer


def rows() -> list[Tokens]:
    return [row(k, a, v) for k, (a, v) in enumerate(zip(ACTIONS, (-0.5, 0.0, 1.0, -0.5), strict=True))]


@pytest.mark.parametrize("normalise", ["grpo", "mean", "dr_grpo"])
def test_it_learns_to_choose(tmp_path: Path, normalise: str) -> None:
    recipe = local.recipe(
        loss={"normalise": normalise, "max_kl": 100},
        train={"epochs": 12, "batch": 4, "micro_batch": 3, "lr": 0.001},
    )
    made = local.policy(recipe)
    data = rows()
    objective = OfflineChoices.prepare(made, data, recipe, "tiny")
    assert objective.name == WEIGHTED and objective.kl_at_start == 0.0
    with made.frozen():
        before = [float(v) for v in OfflineChoices.read(made, data).values()]
    first = objective.loss(made, data, objective.totals(data, recipe))
    assert first[0].item() == pytest.approx(0.0, abs=1e-6) and first[1]["ratio"] == pytest.approx(4.0)
    Trainer(made, objective, recipe, tmp_path, {}).run(data)
    with made.frozen():
        after = [float(v) for v in OfflineChoices.read(made, data).values()]
    assert after[2] > before[2] + 0.2 and after[0] < before[0] and after[3] < before[3], (before, after)


def test_rollouts_through_the_same_state_share_its_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = local.recipe()
    made = local.policy(recipe)
    last = row(9, " take key", 1.0)
    data = [*rows(), replace(last, ids=last.ids[1:], start=last.start - 1)]  # another prompt
    objective = OfflineChoices.prepare(made, data, recipe, "tiny")
    parts = [[t.sample.id for t in few] for few in objective.parts(data, 1)]
    assert parts == [["e/0", "e/1", "e/2", "e/3"], ["e/9"]]
    totals = objective.totals(data, recipe)
    one_by_one = [objective.loss(made, [t], totals)[0].item() for t in data]
    passes: list[str] = []
    real = Policy.choice_sums

    def counted(self: Policy, tokens: Tokens) -> Any:
        passes.append(tokens.sample.id)
        return real(self, tokens)

    monkeypatch.setattr(Policy, "choice_sums", counted)
    together, _ = objective.loss(made, data, totals)
    assert len(passes) == 2 and together.item() == pytest.approx(sum(one_by_one), abs=1e-6)


def test_recorded_scores_make_it_grpo_with_a_staleness() -> None:
    recipe = local.recipe()
    made = local.policy(recipe)
    data = [
        replace(t, sample=replace(t.sample, scores=tuple(map(tuple, scores_of(made, t))))) for t in rows()
    ]
    found = OfflineChoices.prepare(made, data, recipe, "tiny")
    assert found.name == GRPO and found.staleness is not None
    assert found.staleness.tokens == 4 and found.staleness.difference < 1e-4


def test_replies_that_only_foretell_count_by_their_cross_entropy() -> None:
    recipe = local.recipe(loss={"prediction": 0.5})
    made = local.policy(recipe)
    told = tokenise(
        replace(SAMPLE, id="e/9", kind="predict", text="Nothing happens.", advantage=0.0, matched=((0, 16),)),
        local.tokenizer(), 500,
    )  # fmt: skip
    data = [*rows(), told]
    objective = OfflineChoices.prepare(made, data, recipe, "tiny")
    totals = objective.totals(data, recipe)
    assert (totals.rows, totals.tokens, totals.predicted) == (4, 4, sum(told.predicted))
    loss, sums = objective.loss(made, data, totals)
    logps = local.read(made, told)[: sum(told.predicted)]
    assert loss.item() == pytest.approx(-0.5 * float(logps.mean()), abs=1e-5)
    alone, _ = objective.loss(made, [told], totals)
    assert alone.item() == pytest.approx(loss.item(), abs=1e-5) and sums["tokens"] == 4


def test_a_run_of_the_agent_choose_is_trained_over_choices(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r", agent="choose")
    for rollout, (first, second) in enumerate([("take key", "open door"), ("look around", "look around")]):
        steps = []
        for number, said in enumerate((first, second)):
            options = (" take key", " open door", " look around")
            key = make.call(run, f"{rollout}/{number}", " take key", BEGUN, module="choose", choices=options)
            steps.append(make.step(said, key, reward=float(rollout == 0 and number)))
        make.episode(run, "a", rollout, rollout == 0, steps=steps)
    tokenizer = local.tokenizer()
    gently = {"lr": 0.0005}
    found = prepare(run, local.recipe(train=gently), tokenizer)
    assert all(is_choice(t) for t in found.usable)
    assert found.usable[3].sample.penalties == (0.0, 0.0, REPEAT)  # the second look around
    told = distill(found, tokenizer, tmp_path / "out")
    assert (told["policy"], told["steps"]) == ("choices", 4)
    over_tokens = prepare(run, local.recipe(loss={"policy": "tokens"}, train=gently), tokenizer)
    assert distill(over_tokens, tokenizer, tmp_path / "tokens")["policy"] == "tokens"


def test_samples_without_choices_cannot_be_chosen_among(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r")
    make.group(run, "a", [True, False])
    tokenizer = local.tokenizer()
    with pytest.raises(ConfigError, match="2 of 2 samples were not drawn among choices"):
        distill(
            prepare(run, local.recipe(loss={"policy": "choices"}), tokenizer), tokenizer, tmp_path / "out"
        )
    pmi = make.new_run(tmp_path / "pmi", agent="choose-pmi")
    key = make.call(pmi, "k", " take key", BEGUN, module="choose", choices=ACTIONS)
    make.episode(pmi, "a", 0, True, steps=[make.step("take key", key)])
    assert not is_choice(prepare(pmi, local.recipe(loss={"no_signal": "keep"}), tokenizer).tokens[0])
