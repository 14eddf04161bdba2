"""GenerateAgent: one reply a step, predictions together, apart, or not at all."""

from __future__ import annotations

import json

import pytest

from roleagent_lite.agents.generate import GenerateAgent, Predict
from roleagent_lite.errors import ReplyError, TransientModelError
from roleagent_lite.types import Observation, Reply, Request
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
