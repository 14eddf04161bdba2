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
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from roleagent_lite.agents.generate import Predict, foretell
from roleagent_lite.agents.show import alike, select, view_inputs
from roleagent_lite.ask import Answer, Asker, Prompts, make_prompt_set
from roleagent_lite.errors import ConfigError, EpisodeEnd, ReplyError, nearest
from roleagent_lite.types import Decision, PromptSet, View

Scores = Sequence[Sequence[float]]
_DEMONSTRATIONS = "act.demonstrations"
REPEAT = (
    4.0  # nats that a move costs for each time it was made before in the episode: small models go in circles
)


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


def segments(text: str, horizon: int) -> tuple[str | None, ...]:
    """The world's answers in a log that the model went on writing: what stands between its `> moves`."""
    parts = [part.strip() for part in re.split(r"(?m)^>[^\n]*$", text)]
    found = [part or None for part in parts[:horizon]]
    return tuple(found + [None] * (horizon - len(found)))


def nearest_demonstrations(prompts: Prompts, prompt_set: PromptSet, goal: str) -> PromptSet:
    """The prompt set with only those of its demonstrations that are most like the goal.

    How many: as the prompts' module `choose` says (`shown`); all, where they have none.
    """
    every, file = prompt_set.texts.get(_DEMONSTRATIONS), prompts.modules.get("choose")
    if not every or file is None:
        return prompt_set
    shown = alike(every, goal, file.shown)
    return make_prompt_set({**prompt_set.texts, _DEMONSTRATIONS: shown})


class ChooseAgent:
    """`rule`: mean or pmi. Scores and predictions are functions of what is shown, so each is asked once.

    `predict` off = no predictions; together and separate are the same here: one request of its own. `seed`:
    of the draws at a temperature.
    """

    def __init__(
        self,
        asker: Asker,
        prompt_set: PromptSet,
        predict: Predict = "together",
        rule: str = "mean",
        seed: int = 0,
    ) -> None:
        if rule not in RULES:
            raise ConfigError(f"no rule '{rule}' to choose by{nearest(rule, RULES)}")
        self.prompt_set = prompt_set
        self._asker = asker
        self._predict = predict
        self._rule = rule
        self._seed = seed
        self._asked = _asked.setdefault(asker, {})
        self._moves: dict[str, list[str]] = {}  # of each episode, by its sample

    async def act(self, view: View) -> Decision:
        """Raises ConfigError without admissible actions, ReplyError where the model failed."""
        actions = view.observation.admissible
        if not actions:
            raise ConfigError(
                f"the agent 'choose' cannot play '{view.task.env}': that environment lists no admissible "
                "actions; use the agent 'generate'"
            )
        shown = view_inputs(view)
        texts = nearest_demonstrations(self._asker.prompts, self.prompt_set, view.task.goal)
        answer = await self._scored("choose", shown, texts, actions)
        assert answer.scores is not None
        priors = await self._priors(actions) if self._rule == "pmi" else ()
        values = RULES[self._rule](answer.scores, priors)
        if view.step == 1:
            self._moves[view.sample] = []
        moves = self._moves.setdefault(view.sample, [])
        values = [v - REPEAT * moves.count(a) for v, a in zip(values, actions, strict=True)]
        action = self._taken(view, actions, values)
        moves.append(action)
        decision = Decision(action=action, said=action, call_ids=answer.call_ids)
        horizon = view.horizon if view.predict and self._predict != "off" else 0
        if not horizon:
            return decision
        if "foretell" not in self._asker.prompts.modules:
            return await foretell(self._asker, self.prompt_set, view, decision, horizon)
        return await self._foretold(shown | {"action": action}, texts, decision, horizon)

    def _taken(self, view: View, actions: Sequence[str], values: Sequence[float]) -> str:
        """The action to take; `values` (nats) are in the order of `actions`."""
        return actions[draw(values, view.temperature, f"{self._seed}/{view.sample}/{view.step}")]

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

    async def _foretold(
        self, offered: dict[str, str], texts: PromptSet, decision: Decision, horizon: int
    ) -> Decision:
        """`decision` with predictions read off the log that the model writes on.

        Missing where the model writes nothing more or cannot; broken transport ends the step.
        """
        file = self._asker.prompts.module("foretell")
        inputs = select(file, offered)
        stop = ("\n>", "\n\n") if horizon == 1 else ("\n\n",)
        try:
            answer = await self._once(
                ("foretell", texts.id, tuple(inputs.items()), horizon),
                lambda: self._asker.ask(
                    "foretell",
                    inputs,
                    prompt_set=texts,
                    sample="foretell",
                    temperature=0.0,
                    max_tokens=(file.max_tokens or 45) * horizon,
                    stop=stop,
                ),
            )
        except ReplyError as error:
            if error.kind == "infrastructure_error" and error.reason != "empty reply":
                raise
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


class Retracing(ChooseAgent):
    """Takes moves that were taken before, `moves` of each task id, and scores all choices on the way."""

    def __init__(self, asker: Asker, prompt_set: PromptSet, moves: Mapping[str, Sequence[str]]) -> None:
        super().__init__(asker, prompt_set, "off")
        self._given = moves

    def _taken(self, view: View, actions: Sequence[str], values: Sequence[float]) -> str:
        """Raises EpisodeEnd behind the last of them."""
        given = self._given[view.task.id]
        if view.step > len(given):
            raise EpisodeEnd("gave_up", "the moves that were taken before are at their end")
        return given[view.step - 1]


_asked: WeakKeyDictionary[Asker, dict[Any, asyncio.Future[Answer]]] = WeakKeyDictionary()
