"""local: requests of the house answered by the model in training."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill.local import ACTING, LocalModel
from roleagent_lite.errors import ContextTooLong, ModelError
from roleagent_lite.types import Message, Reply, Request
from tests.distill import local, make

CHOICES = (" take key", " open door", " say hello.")
SCORED = Request("agent", "choose", (*make.chat(), Message("assistant", "Goal: Get out\n>")), choices=CHOICES)
FREE = Request("agent", "foretell", make.chat(), max_tokens=4)


def model(most: int = 500, acting: str = "now") -> LocalModel:
    policy = local.policy(local.recipe())
    local.disturb(policy)
    return LocalModel(policy, local.tokenizer(), "local:tiny+0", most=most, acting=acting)


def reply(made: LocalModel, request: Request) -> Reply:
    return asyncio.run(made.complete(request))


def test_choices_get_a_score_a_token_and_the_best_mean_is_the_text() -> None:
    made = model()
    found = reply(made, SCORED)
    assert found.scores is not None
    assert [len(s) for s in found.scores] == [len(local.tokenizer().encode(c)) for c in CHOICES]
    means = [sum(s) / len(s) for s in found.scores]
    assert found.text == CHOICES[means.index(max(means))]
    assert found.usage.dollars == 0.0 and found.usage.cached == 0 and found.usage.input
    assert reply(made, SCORED).scores == found.scores


def test_a_reply_ends_at_its_limit_or_at_a_stop_text() -> None:
    made = model()
    whole = reply(made, FREE)
    assert whole.finish in ("length", "stop") and whole.token_ids and len(whole.token_ids) <= 4
    assert whole.logprobs is not None and len(whole.logprobs) == len(whole.token_ids)
    mark = whole.text[1:2]
    cut = reply(made, replace(FREE, stop=(mark,)))
    assert (cut.text, cut.finish) == (whole.text[: whole.text.index(mark)], "stop")
    assert cut.token_ids is None  # they would say more than the text


def test_samples_of_one_request_differ_and_come_again() -> None:
    warm = replace(FREE, temperature=2.0, max_tokens=8)
    texts = {s: reply(model(), replace(warm, sample=s)).text for s in "abc"}
    assert len(set(texts.values())) > 1
    assert reply(model(), replace(warm, sample="a")).text == texts["a"]


def test_what_does_not_fit_or_cannot_be_scored_is_refused() -> None:
    with pytest.raises(ContextTooLong, match=r"10 allowed \(data.max_tokens\)"):
        reply(model(most=10), SCORED)
    with pytest.raises(ContextTooLong):
        reply(model(most=10), FREE)
    with pytest.raises(ModelError, match="non-empty"):
        reply(model(), replace(SCORED, choices=("",)))


def test_each_state_of_the_weights_plays_for_itself() -> None:
    by_state = {acting: reply(model(acting=acting), SCORED).scores for acting in ACTING}
    assert by_state["base"] == by_state["start"] != by_state["now"]  # a new adapter starts as the base
    made = model()
    before = reply(made, SCORED)
    local.disturb(made.policy, seed=3)
    after = reply(made.changed("local:tiny+1"), SCORED)
    assert made.name == "local:tiny+1" and after.scores != before.scores
