"""What a thinking system asks its model: a thought and a move, the value of a point, a lesson, a plan.

Two minds with one face: one writes its action, the other writes a thought and has the admissible actions
scored, for models too small to write a well-formed reply. Owns which module is asked with what. Leaves out
when (the systems), the wording (words) and the budget (meter).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import roleagent_lite.systems.words as words
from roleagent_lite.agents.choose import REPEAT, draw, mean_rule, nearest_demonstrations
from roleagent_lite.agents.show import decision_from, select, view_inputs
from roleagent_lite.ask import Answer
from roleagent_lite.errors import ConfigError, ReplyError
from roleagent_lite.stage import Stage
from roleagent_lite.systems.base import Attempt, Base
from roleagent_lite.systems.meter import MeteredAsker
from roleagent_lite.types import Decision, PromptSet, Task, Trajectory

MAX_PARTS = 5  # of a plan
MODULES = ("react",)  # what an agent that writes asks for a move
CHOOSING = ("think", "choose")  # and one that chooses


@dataclass(frozen=True, slots=True)
class Told:
    """What a system tells its model beside what is seen.

    lessons: of earlier tries; goal: the sub-task at hand, "" = the task; done: sub-tasks behind it; extra:
    actions of the system's own, offered beside the admissible ones.
    """

    lessons: tuple[str, ...] = ()
    goal: str = ""
    done: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Sub-tasks; all in order ("AND"), or alternatives ("OR"). No steps: the model gave none."""

    steps: tuple[str, ...] = ()
    logic: str = "AND"


class Mind(Protocol):
    """Raises ReplyError as the asker does, and what ends an attempt or the run."""

    async def move(
        self, stage: Stage, told: Told, *, sample: str = "", temperature: float | None = None
    ) -> Decision:
        """A thought and an action at the stage's present point. Default: the stage's sample, its episode's
        temperature."""

    async def value(self, stage: Stage, told: Told, *, sample: str) -> float:
        """How promising the present point is, 0..1."""

    async def reflect(self, tried: Trajectory, task: Task, lessons: Sequence[str], *, sample: str) -> str:
        """What a failed try teaches; "" where no usable reply came."""

    async def plan(self, stage: Stage, goal: str, *, sample: str) -> Plan:
        """The sub-task `goal` in parts, from the present point on."""


class _Common:
    steps_shown = words.LONG
    width = words.WIDE

    def __init__(self, asker: MeteredAsker, prompt_set: PromptSet, seed: int = 0) -> None:
        self._asker = asker
        self._set = prompt_set
        self._seed = seed

    async def reflect(self, tried: Trajectory, task: Task, lessons: Sequence[str], *, sample: str) -> str:
        offered = {
            "task": task.goal,
            "episode": words.transcript(tried.steps, self.steps_shown, self.width),
            "outcome": words.ending(tried.outcome, tried.score, len(tried.steps), tried.max_steps),
            "lessons": words.bullets(lessons),
        }
        try:
            answer = await self._ask("reflexion", offered, sample)
        except ReplyError as error:
            _through(error)
            return ""
        return " ".join(str(answer.values["reflection"]).split())

    async def plan(self, stage: Stage, goal: str, *, sample: str) -> Plan:
        view = stage.view()
        offered = {
            "task": view.task.goal,
            "subtask": goal,
            "history": words.history(view.history),
            "observation": view.observation.text,
        }
        try:
            answer = await self._ask("plan", offered, sample, enums={"logic": ("AND", "OR")})
        except ReplyError as error:
            _through(error)
            return Plan()
        steps = [str(step).strip() for step in answer.values["steps"] or () if step is not None]
        return Plan(tuple(step for step in steps if step)[:MAX_PARTS], str(answer.values["logic"]))

    async def _ask(
        self,
        module: str,
        offered: dict[str, str],
        sample: str,
        *,
        temperature: float | None = None,
        enums: dict[str, tuple[str, ...]] | None = None,
    ) -> Answer:
        inputs = select(self._asker.prompts.module(module), offered)
        return await self._asker.ask(
            module, inputs, prompt_set=self._set, sample=sample, temperature=temperature, enums=enums
        )


class GenerateMind(_Common):
    """Thought and action in one reply (module react); the value as a number from 1 to 10 (module value)."""

    async def move(
        self, stage: Stage, told: Told, *, sample: str = "", temperature: float | None = None
    ) -> Decision:
        view = stage.view()
        admissible = view.observation.admissible
        actions = (*admissible, *told.extra) if admissible else ()
        offered = view_inputs(view) | {
            "history": words.history(view.history),
            "actions": "\n".join(actions),
            "lessons": words.bullets(told.lessons),
            "subtask": words.subtask(told.goal, told.done, told.extra),
        }
        answer = await self._ask(
            "react",
            offered,
            sample or view.sample,
            temperature=view.temperature if temperature is None else temperature,
            enums={"action": actions} if actions else None,
        )
        return decision_from(answer, 0)

    async def value(self, stage: Stage, told: Told, *, sample: str) -> float:
        offered = {
            "task": stage.episode.task.goal,
            "history": words.history(stage.steps[-self.steps_shown :]),
            "observation": stage.seen.text,
            "lessons": words.bullets(told.lessons),
        }
        answer = await self._ask("value", offered, sample)
        return float(answer.values["score"]) / 10


class ChooseMind(_Common):
    """A thought is written (module think), then every admissible action is scored behind it (choose).

    A chosen move costs REPEAT nats for each time it was made before in the episode, as the agent "choose"
    has it. What was scored once in an attempt is not scored again, for scores are a function of what is
    shown. The value is the chance of " yes" against " no" (module value).
    """

    steps_shown = 12
    width = 160

    def __init__(self, asker: MeteredAsker, prompt_set: PromptSet, seed: int = 0) -> None:
        super().__init__(asker, prompt_set, seed)
        self._scored: dict[tuple[str, str, tuple[str, ...]], Answer] = {}

    async def move(
        self, stage: Stage, told: Told, *, sample: str = "", temperature: float | None = None
    ) -> Decision:
        view = stage.view()
        if not view.observation.admissible:
            raise ConfigError(
                f"the agent 'choose' cannot play '{view.task.env}': that environment lists no admissible "
                "actions; use the agent 'generate'"
            )
        actions = (*view.observation.admissible, *told.extra)
        warmth = view.temperature if temperature is None else temperature
        sample = sample or view.sample
        goal = told.goal or view.task.goal
        thought, calls = await self._think(goal, words.log(view, told.lessons), sample, warmth)
        shown = words.log(view, told.lessons, thought)
        answer, bought = await self._scores("choose", goal, shown, [f" {action}" for action in actions])
        assert answer.scores is not None
        made = [step.action for step in stage.steps]
        values = mean_rule(answer.scores, ())
        values = [v - REPEAT * made.count(a) for v, a in zip(values, actions, strict=True)]
        action = actions[draw(values, warmth, f"{self._seed}/{sample}/{view.step}")]
        return Decision(action=action, thought=thought, said=action, call_ids=calls + bought)

    async def _think(
        self, goal: str, shown: str, sample: str, temperature: float
    ) -> tuple[str, tuple[str, ...]]:
        """A thought, "" where the model wrote none that can be used; the move is chosen all the same."""
        try:
            answer = await self._ask("think", {"task": goal, "log": shown}, sample, temperature=temperature)
        except ReplyError as error:
            _through(error)
            return "", error.call_ids
        return " ".join(str(answer.values["thought"]).split()), answer.call_ids

    async def _scores(
        self, module: str, goal: str, shown: str, choices: Sequence[str]
    ) -> tuple[Answer, tuple[str, ...]]:
        """Scores and the calls that they cost now, none where they were known."""
        key = (module, goal + "\n" + shown, tuple(choices))
        if key in self._scored:
            return self._scored[key], ()
        answer = await self._asker.ask(
            module,
            select(self._asker.prompts.module(module), {"task": goal, "log": shown}),
            prompt_set=nearest_demonstrations(self._asker.prompts, self._set, goal),
            sample=module,
            temperature=0.0,
            choices=choices,
        )
        self._scored[key] = answer
        return answer, answer.call_ids

    async def value(self, stage: Stage, told: Told, *, sample: str) -> float:
        shown = words.log(
            replace(stage.view(), history=tuple(stage.steps[-self.steps_shown :])), told.lessons
        )
        answer, _ = await self._scores("value", stage.episode.task.goal, shown, (" yes", " no"))
        assert answer.scores is not None
        yes, no = (sum(scores) for scores in answer.scores)
        return 1 / (1 + math.exp(min(700.0, no - yes)))


def _through(error: ReplyError) -> None:
    """Broken transport ends the attempt; an unusable reply is something that a system can live with."""
    if error.kind == "infrastructure_error":
        raise error


class Thinking(Base):
    """A System that plays with a mind."""

    modules: tuple[str, ...] = MODULES
    choosing: tuple[str, ...] = CHOOSING

    def mind(self, at: Attempt) -> Mind:
        """The mind of one attempt."""
        make = ChooseMind if self.kind == "choose" else GenerateMind
        return make(at.asker, self.prompt_set, self.setting.seed)
