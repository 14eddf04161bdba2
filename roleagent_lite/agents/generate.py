"""GenerateAgent: one constrained reply a step holds thought, action and predictions.

Owns which module is asked with what. Leaves out the mapping of near misses to admissible actions (rollout).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from roleagent_lite.agents.show import decision_from, predictions_from, select, view_inputs
from roleagent_lite.ask import Answer, Asker
from roleagent_lite.errors import ReplyError
from roleagent_lite.types import Decision, PromptSet, View

Predict = Literal["together", "separate", "off"]


class GenerateAgent:
    """`predict`: together = in the reply that acts, separate = the paper's second call, off = none."""

    def __init__(self, asker: Asker, prompt_set: PromptSet, predict: Predict = "together") -> None:
        self.prompt_set = prompt_set
        self._asker = asker
        self._predict = predict

    async def act(self, view: View) -> Decision:
        """Raises ReplyError where no usable reply came, and what ends a run."""
        horizon = view.horizon if view.predict and self._predict != "off" else 0
        together = horizon if self._predict == "together" else 0
        while True:
            try:
                answer = await self._asked(view, together)
                break
            except ReplyError as error:
                if error.reason != "context" or not view.history:
                    raise
                if not self._asker.trim:
                    hint = "limits.trim = true lets an agent leave out its oldest steps"
                    raise ReplyError(error.kind, error.reason, f"{error}; {hint}", error.call_ids) from error
                view = replace(view, history=view.history[(len(view.history) + 1) // 2 :])
                self._asker.note("prompts that did not fit the context were sent with a shorter history")
        decision = decision_from(answer, together)
        if horizon and not together:
            decision = await foretell(self._asker, self.prompt_set, view, decision, horizon)
        return decision

    async def _asked(self, view: View, together: int) -> Answer:
        admissible = view.observation.admissible
        return await self._asker.ask(
            "act",
            select(self._asker.prompts.module("act"), view_inputs(view)),
            prompt_set=self.prompt_set,
            sample=view.sample,
            temperature=view.temperature,
            enums={"action": admissible} if admissible and not view.observation.open else None,
            counts={"predictions": together},
        )


async def foretell(
    asker: Asker, prompt_set: PromptSet, view: View, decision: Decision, horizon: int
) -> Decision:
    """`decision` with predictions from a call of their own (module `predict`).

    A reply without a usable form leaves the predictions missing and the action in force; broken transport
    ends the step.
    """
    offered = {**view_inputs(view), "action": decision.action}
    try:
        answer = await asker.ask(
            "predict",
            select(asker.prompts.module("predict"), offered),
            prompt_set=prompt_set,
            sample=view.sample,
            temperature=view.temperature,
            counts={"predictions": horizon},
        )
    except ReplyError as error:
        if error.kind == "infrastructure_error":
            raise
        return replace(decision, predictions=(None,) * horizon, call_ids=decision.call_ids + error.call_ids)
    return replace(
        decision,
        predictions=predictions_from(answer, horizon),
        call_ids=decision.call_ids + answer.call_ids,
    )
