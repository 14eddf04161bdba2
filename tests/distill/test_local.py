"""local: requests of the house answered by the model in training."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

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


@pytest.fixture
def two_cores() -> Iterator[None]:
    was = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(was)


@pytest.mark.usefixtures("two_cores")
def test_a_crew_answers_side_by_side_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [replace(SCORED, choices=CHOICES[: k % 3 + 1]) for k in range(6)]
    requests += [replace(FREE, sample=str(k), temperature=2.0) for k in range(3)]
    torch.set_num_threads(1)
    wanted = [reply(model(), request) for request in requests]
    torch.set_num_threads(2)
    made, seen = model(), set[tuple[str, int]]()
    answered = made._answered

    def watched(*given: Any) -> Reply:
        seen.add((threading.current_thread().name, torch.get_num_threads()))
        time.sleep(0.02)  # longer than a request takes: the other thread has to come in
        return answered(*given)

    monkeypatch.setattr(made, "_answered", watched)

    async def all_of_them() -> list[Reply]:
        with made.crew(), made.crew():
            assert torch.get_num_threads() == 1
            return await asyncio.gather(*map(made.complete, requests))

    found = asyncio.run(all_of_them())
    assert [(r.text, r.scores, r.logprobs) for r in found] == [(r.text, r.scores, r.logprobs) for r in wanted]
    assert seen == {("roleagent-play_0", 1), ("roleagent-play_1", 1)}
    assert torch.get_num_threads() == 2 and made._crew is None


@pytest.mark.usefixtures("two_cores")
def test_what_is_raised_in_a_crew_comes_out_and_the_cores_come_back() -> None:
    made = model(most=10)

    async def asked() -> None:
        with made.crew():
            await made.complete(SCORED)

    with pytest.raises(ContextTooLong):
        asyncio.run(asked())
    assert torch.get_num_threads() == 2 and made._crew is None


@pytest.mark.usefixtures("two_cores")
def test_no_crew_where_it_would_not_help() -> None:
    for lack in ("card", "whole prompts", "one core"):
        made = model()
        if lack == "card":
            made.policy.device = "cuda:0"
        elif lack == "whole prompts":
            made.policy.backend.packs = False
        else:
            torch.set_num_threads(1)
        with made.crew():
            assert made._crew is None
