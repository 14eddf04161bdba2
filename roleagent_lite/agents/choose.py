"""ChooseAgent: scores the admissible actions by their log-probability and takes the best, then foretells.

For models too small to write a well-formed reply. The model reads its episode as a log that stands open
where the next action belongs; it never writes an action, so every action is admissible. Owns the rules that
turn token log-probabilities into a choice, the draw at a temperature, and the reading of a foretold log.
Leaves out how a model scores (lm/embedded.py) and how the log is worded (prompts/embedded).
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from roleagent_lite.agents.generate import Predict, foretell
from roleagent_lite.agents.show import select, view_inputs
from roleagent_lite.ask import Answer, Asker
from roleagent_lite.errors import ConfigError, ReplyError, nearest
from roleagent_lite.types import Decision, PromptSet, View

Scores = Sequence[Sequence[float]]


def mean_rule(scores: Scores, priors: Sequence[float]) -> list[float]:
    """Mean log-probability a token, times the mean number of tokens a choice (nats).

    The factor is the same for all choices: it changes no order, and makes a temperature mean what it means
    for a whole action rather than for one token of it.
    """
    typical = sum(len(s) for s in scores) / len(scores)
    return [typical * sum(s) / len(s) for s in scores]


def pmi_rule(scores: Scores, priors: Sequence[float]) -> list[float]:
    """log p(action | log) - log p(action | empty log): how much the situation speaks for it (nats)."""
    return [sum(s) - prior for s, prior in zip(scores, priors, strict=True)]


RULES: dict[str, Callable[[Scores, Sequence[float]], list[float]]] = {"mean": mean_rule, "pmi": pmi_rule}


def draw(values: Sequence[float], temperature: float, seed: str) -> int:
    """Index drawn from softmax(values / temperature) by a generator seeded with `seed`; at 0 the first best.

    Raises ValueError for no values or a value that is no number.
    """
    if not values or not all(math.isfinite(v) for v in values):
        raise ValueError(f"cannot choose among {list(values)!r}")
    best = max(values)
    if temperature <= 0:
        return values.index(best)
    weights = [math.exp((v - best) / temperature) for v in values]
    return random.Random(seed).choices(range(len(values)), weights)[0]


def unspent(view: View) -> tuple[str, ...]:
    """The admissible actions without those of the moves shown, unless none is left then.

    A small model falls into cycles (take, put back, take again) and does not see them; this bars cycles as
    long as the history that is shown.
    """
    done = {step.action for step in view.history}
    fresh = tuple(action for action in view.observation.admissible if action not in done)
    return fresh or view.observation.admissible


def segments(text: str, horizon: int) -> tuple[str | None, ...]:
    """The world's answers in a log that the model went on writing: what stands between its `> moves`."""
    parts = [part.strip() for part in re.split(r"(?m)^>[^\n]*$", text)]
    found = [part or None for part in parts[:horizon]]
    return tuple(found + [None] * (horizon - len(found)))


class ChooseAgent:
    """`rule`: mean or pmi. Scores and predictions are functions of what is shown, so each is asked once.

    `predict` off = no predictions; together and separate are the same here: one request of its own.
    """

    def __init__(
        self, asker: Asker, prompt_set: PromptSet, predict: Predict = "together", rule: str = "mean"
    ) -> None:
        if rule not in RULES:
            raise ConfigError(f"no rule '{rule}' to choose by{nearest(rule, RULES)}")
        self.prompt_set = prompt_set
        self._asker = asker
        self._predict = predict
        self._rule = rule
        self._asked = _asked.setdefault(asker, {})

    async def act(self, view: View) -> Decision:
        """Raises ConfigError without admissible actions, ReplyError where the model failed."""
        actions = unspent(view)
        if not actions:
            raise ConfigError(
                f"the agent 'choose' cannot play '{view.task.env}': that environment lists no admissible "
                "actions; use the agent 'generate'"
            )
        shown = view_inputs(view)
        answer = await self._scored("choose", shown, self.prompt_set, actions)
        assert answer.scores is not None
        priors = await self._priors(actions) if self._rule == "pmi" else ()
        values = RULES[self._rule](answer.scores, priors)
        action = actions[draw(values, view.temperature, f"{view.sample}/{view.step}")]
        decision = Decision(action=action, said=action, call_ids=answer.call_ids)
        horizon = view.horizon if view.predict and self._predict != "off" else 0
        if not horizon:
            return decision
        if "foretell" not in self._asker.prompts.modules:
            return await foretell(self._asker, self.prompt_set, view, decision, horizon)
        return await self._foretold(shown | {"action": action}, decision, horizon)

    async def _scored(
        self, module: str, offered: dict[str, str], prompt_set: PromptSet | None, actions: Sequence[str]
    ) -> Answer:
        inputs = select(self._asker.prompts.module(module), offered)
        key = (module, prompt_set and prompt_set.id, tuple(inputs.items()), tuple(actions))
        choices = [f" {action}" for action in actions]  # behind the `>` that the log ends with
        return await self._once(
            key,
            lambda: self._asker.ask(
                module, inputs, prompt_set=prompt_set, sample="score", temperature=0.0, choices=choices
            ),
        )

    async def _priors(self, actions: Sequence[str]) -> list[float]:
        """log p(action) in an empty log; asked for one by one, since each holds for the whole run."""
        sums = []
        for action in actions:
            answer = await self._scored("prior", {}, None, [action])
            assert answer.scores is not None
            sums.append(sum(answer.scores[0]))
        return sums

    async def _foretold(self, offered: dict[str, str], decision: Decision, horizon: int) -> Decision:
        """`decision` with predictions read off the log that the model writes on; missing where it cannot."""
        file = self._asker.prompts.module("foretell")
        inputs = select(file, offered)
        stop = ("\n>", "\n\n") if horizon == 1 else ("\n\n",)
        try:
            answer = await self._once(
                ("foretell", self.prompt_set.id, tuple(inputs.items()), horizon),
                lambda: self._asker.ask(
                    "foretell",
                    inputs,
                    prompt_set=self.prompt_set,
                    sample="foretell",
                    temperature=0.0,
                    max_tokens=(file.max_tokens or 45) * horizon,
                    stop=stop,
                ),
            )
        except ReplyError as error:
            return replace(
                decision, predictions=(None,) * horizon, call_ids=decision.call_ids + error.call_ids
            )
        return replace(
            decision,
            predictions=segments(answer.text, horizon),
            call_ids=decision.call_ids + answer.call_ids,
        )

    async def _once(self, key: Any, ask: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """The answer to `key`: the same task for all who ask in this process, forgotten if it failed.

        The requests carry a constant sample, so that a resumed run finds them whoever asked first.
        """
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.ensure_future(ask())
        try:
            return await asyncio.shield(task)
        except BaseException:
            if task.done() and (task.cancelled() or task.exception() is not None):
                self._asked.pop(key, None)
            raise


_asked: WeakKeyDictionary[Asker, dict[Any, asyncio.Future[Answer]]] = WeakKeyDictionary()
