"""GenerateAgent: one reply a step, predictions together, apart, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from roleagent_lite.agents.generate import GenerateAgent, Predict
from roleagent_lite.errors import ContextTooLong, ReplyError, TransientModelError
from roleagent_lite.types import Observation, Reply, Request, Step
from tests.agents.make import SEED, asker, view


class Rule:
    """Answers act and predict, keeps the requests."""

    def __init__(self, predict: str | Exception = "") -> None:
        self.seen: list[Request] = []
        self._predict = predict or json.dumps({"predictions": ["then", "later"]})

    def __call__(self, request: Request) -> str | Reply:
        self.seen.append(request)
        if request.module == "act":
            return json.dumps({"thought": "t", "action": "Take key.", "predictions": ["now"]})
        if isinstance(self._predict, Exception):
            raise self._predict
        return self._predict


async def test_together_is_one_call_with_the_admissible_actions_as_enum() -> None:
    rule = Rule()
    decision = await GenerateAgent(asker(rule), SEED).act(view())
    assert (decision.action, decision.predictions) == ("take key", ("now", None))
    (request,) = rule.seen
    assert request.schema is not None and "take key" in request.schema["properties"]["action"]["enum"]
    assert request.schema["properties"]["predictions"]["minItems"] == 2
    assert (request.temperature, request.sample, request.role) == (0.9, "0/abc/t1#0", "agent")


@pytest.mark.parametrize("mode", ["together", "separate", "off"])
async def test_no_prediction_is_asked_for_where_none_is_wanted(mode: Predict) -> None:
    rule = Rule()
    decision = await GenerateAgent(asker(rule), SEED, mode).act(view(predict=mode == "off"))
    assert decision.predictions == ()
    (request,) = rule.seen
    assert request.schema is not None and "predictions" not in request.schema["properties"]


async def test_separate_is_a_second_call_that_sees_the_action() -> None:
    rule = Rule()
    decision = await GenerateAgent(asker(rule), SEED, "separate").act(view())
    assert decision.predictions == ("then", "later")
    assert [r.module for r in rule.seen] == ["act", "predict"]
    assert "You choose:\ntake key" in rule.seen[1].messages[-1].content


async def test_a_bad_second_reply_leaves_predictions_missing_and_the_action_in_force() -> None:
    rule = Rule("no JSON here")
    decision = await GenerateAgent(asker(rule), SEED, "separate").act(view())
    assert (decision.action, decision.predictions) == ("take key", (None, None))
    with pytest.raises(ReplyError) as caught:
        await GenerateAgent(asker(Rule(TransientModelError("503"))), SEED, "separate").act(view())
    assert caught.value.kind == "infrastructure_error"


async def test_free_form_actions_have_no_enum_and_stay_as_written() -> None:
    rule = Rule()
    seen = Observation("Search page.")
    decision = await GenerateAgent(asker(rule), SEED).act(view(observation=seen))
    assert decision.action == "Take key."
    assert rule.seen[0].schema is not None
    assert "enum" not in rule.seen[0].schema["properties"]["action"]
    assert "Admissible" not in rule.seen[0].messages[-1].content


def too_long(limit: int) -> Callable[[Request], str]:
    """A model whose context holds so many past steps."""

    def rule(request: Request) -> str:
        if request.messages[-1].content.count("> look") > limit:
            raise ContextTooLong("too long")
        return json.dumps({"action": "take key"})

    return rule


PAST = tuple(Step(f"seen {n}", "look", f"came {n}") for n in range(5))


async def test_net_05_the_oldest_steps_are_left_out_until_the_prompt_fits() -> None:
    told: list[str] = []
    one = asker(too_long(1))
    one.trim, one.note = True, told.append
    decision = await GenerateAgent(one, SEED).act(view(history=PAST, predict=False))
    assert decision.action == "take key"
    assert told == ["prompts that did not fit the context were sent with a shorter history"] * 2  # 5, 2, 1


async def test_net_05_what_cannot_be_shortened_and_who_may_not_shorten() -> None:
    one = asker(too_long(-1))
    one.trim = True
    with pytest.raises(ReplyError) as caught:
        await GenerateAgent(one, SEED).act(view(history=PAST, predict=False))
    assert caught.value.reason == "context" and "limits.trim" not in str(caught.value)
    with pytest.raises(ReplyError, match=r"limits\.trim = true"):
        await GenerateAgent(asker(too_long(1)), SEED).act(view(history=PAST, predict=False))
