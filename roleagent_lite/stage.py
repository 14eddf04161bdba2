"""One episode that stands open: its environment behind a border, and what has been played in it so far.

Owns the mapping of near misses, the notes to the agent, what ends an episode, going back to an earlier point
(by snapshot, else by playing the same actions again) and the border at which an environment's exceptions
become EnvironmentFault. Leaves out who decides (agents, systems) and what becomes of an episode (rollout).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, TypeVar

from roleagent_lite.ask import free_form, near_miss
from roleagent_lite.config import Wia
from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError, EnvironmentFault, MissingExtra, ReplyError
from roleagent_lite.redact import clean
from roleagent_lite.types import (
    Decision,
    Environment,
    Observation,
    Outcome,
    PromptSet,
    Step,
    Task,
    Transition,
    View,
)

NOTE_AFTER = 3  # equal steps (or equal cycles of 2 or 3 steps) before the agent is told
STOP_AFTER = 6  # and before the episode ends as a loop
_CYCLES = (1, 2, 3)  # steps in a cycle
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Episode:
    """What is to be played. max_steps and horizon 0 = from the environment and the share in `wia`."""

    task: Task
    round: int
    rollout: int
    temperature: float
    predict: bool = True
    arm: str = "none"
    max_steps: int = 0
    horizon: int = 0


def trajectory_id(episode: Episode, prompt_set: PromptSet) -> str:
    """`round/promptset8/task#rollout`."""
    return f"{episode.round}/{prompt_set.id[:8]}/{episode.task.id}#{episode.rollout}"


def completed(episode: Episode, wia: Wia) -> Episode:
    """`episode` with step limit and horizon filled in; the horizon is the paper's Table 4, rounded half up,
    as `wia.horizon` has it (that room stands beside this one; a test holds the two together).
    Raises ConfigError for an unknown environment."""
    limit = episode.max_steps or registry.spec(episode.task.env).max_steps(episode.task)
    share = (Decimal(str(wia.horizon_share)) * limit).to_integral_value(rounding=ROUND_HALF_UP)
    return replace(episode, max_steps=limit, horizon=episode.horizon or max(1, int(share)))


def repeats(steps: Sequence[Step]) -> int:
    """How often the last step, or the last cycle of two or three steps, was repeated without effect.

    Steps are equal if action, outcome and the state before them (where the environment keys it) are.
    """
    marks = [(s.action, s.outcome, s.state_key) for s in steps[-STOP_AFTER * _CYCLES[-1] :]]
    most = min(1, len(marks))
    for size in _CYCLES:
        cycle, count = marks[-size:], 0
        while (
            len(cycle) == size and marks[len(marks) - size * (count + 1) : len(marks) - size * count] == cycle
        ):
            count += 1
        most = max(most, count)
    return most


def note_on(steps: Sequence[Step]) -> str:
    """What the agent is told about its last step; "" if nothing was wrong."""
    if not steps:
        return ""
    notes = []
    if not steps[-1].valid:
        notes.append(f"Your last action '{steps[-1].action}' is not admissible here and changed nothing.")
    times = repeats(steps)
    if times >= NOTE_AFTER:
        notes.append(f"You have done the same {times} times without effect. Do something else.")
    return "\n".join(notes)


def admitted(said: str, admissible: tuple[str, ...]) -> tuple[str, bool]:
    """(what the environment gets, whether it is admissible) by the rule of `ask.match`."""
    if not admissible:
        return free_form(said), True
    meant = near_miss(said, admissible)
    return (meant, True) if meant is not None else (free_form(said), False)


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of an episode to which a stage can go back. `snapshot` None = by playing `steps` again."""

    steps: tuple[Step, ...]
    seen: Observation
    score: float
    snapshot: Any = None


class Stage:
    """A completed Episode in play: `steps` so far, what is `seen` now, the `score` where it has ended.

    `sample`: that of the requests made for it. Every method that touches the environment raises
    EnvironmentFault where that raises or breaks the protocol.
    """

    def __init__(self, episode: Episode, sample: str) -> None:
        spec = registry.spec(episode.task.env)
        self.episode = episode
        self.sample = sample
        self.steps: list[Step] = []
        self.seen = Observation("")
        self.score = 0.0
        self._start = self.seen
        self._shown = spec.history
        self._snapshots = spec.snapshots
        self._blocking = bool(getattr(spec, "blocking", False))
        self._env: Environment | None = None
        self._own: dict[str, str] = {}  # actions that could not be shown as they are, by what was shown

    async def _guarded(self, call: Callable[..., T], *arguments: Any) -> T:
        try:
            return await asyncio.to_thread(call, *arguments) if self._blocking else call(*arguments)
        except (EnvironmentFault, ConfigError, MissingExtra):
            raise
        except (Exception, SystemExit) as error:  # border: the environment, which may not end the run either
            raise EnvironmentFault(f"{type(error).__name__}: {error}") from error

    async def open(self) -> None:
        """Makes the environment and looks at it."""
        self._env = await self._guarded(registry.make, self.episode.task)
        seen = await self._guarded(self._env.observe)
        # What is used is what is stored, so that a resume, which reads it there, asks the same.
        self.seen = self._start = self._cleaned(seen)

    def _cleaned(self, seen: Observation) -> Observation:
        """Texts that can be written and hold no key. The environment gets its own actions back."""
        shown = tuple(map(clean, seen.admissible))
        self._own |= {new: old for new, old in zip(shown, seen.admissible, strict=True) if new != old}
        return replace(seen, text=clean(seen.text), admissible=shown, state_key=clean(seen.state_key))

    def view(self) -> View:
        """What an agent may see now."""
        return View(
            task=self.episode.task,
            observation=self.seen,
            history=tuple(self.steps[-self._shown :]) if self._shown else (),
            step=len(self.steps) + 1,
            max_steps=self.episode.max_steps,
            horizon=self.episode.horizon,
            temperature=self.episode.temperature,
            sample=self.sample,
            predict=self.episode.predict,
            note=note_on(self.steps),
        )

    async def move(self, decision: Decision) -> Outcome | None:
        """One step; how the episode ended by it, or None where it goes on. Sets `score` at an end.

        Raises ReplyError (bad_format) for a decision without an action.
        """
        before = self.seen
        action, allowed = admitted(decision.action, before.admissible)
        allowed = allowed or before.open
        if not action:
            raise ReplyError("bad_format", "empty action", "the agent gave no action", decision.call_ids)
        came = await self._step(action)
        self.steps.append(
            Step(
                observation=before.text,
                action=action,
                outcome=came.observation.text,
                reward=came.reward,
                state_key=before.state_key,
                admissible=before.admissible,
                thought=decision.thought,
                predictions=decision.predictions[: self.episode.horizon],
                said=decision.said,
                valid=came.valid and allowed,
                call_ids=decision.call_ids,
            )
        )
        self.seen = came.observation
        return await self._ending(came.done)

    async def _ending(self, done: bool) -> Outcome | None:
        last = len(self.steps) >= self.episode.max_steps
        self.score = await self.settle() if done or last else 0.0
        if self.score >= 1.0:
            return Outcome("solved")
        if done:
            return Outcome("failed", "lost")
        if repeats(self.steps) >= STOP_AFTER:
            self.score = await self.settle()
            return Outcome("solved") if self.score >= 1.0 else Outcome("failed", "loop")
        return Outcome("failed", "step_limit") if last else None

    async def _step(self, action: str) -> Transition:
        assert self._env is not None
        came = await self._guarded(self._env.step, self._own.get(action, action))
        if not isinstance(came, Transition) or not math.isfinite(came.reward):
            raise EnvironmentFault(
                f"step() returned {came!r:.200}; a Transition with a finite reward is needed"
            )
        return replace(came, observation=self._cleaned(came.observation))

    async def settle(self) -> float:
        """The environment's score as things stand, 0..1."""
        assert self._env is not None
        value = float(await self._guarded(self._env.score))
        if not 0.0 <= value <= 1.0:
            raise EnvironmentFault(f"score() returned {value}; a number from 0 to 1 is needed")
        return value

    async def mark(self) -> Mark:
        """This point, to go back to."""
        snapshot = None
        if self._snapshots:
            snapshot = await self._guarded(self._env.snapshot)  # type: ignore[union-attr]
        return Mark(tuple(self.steps), self.seen, self.score, snapshot)

    async def back(self, mark: Mark) -> None:
        """Goes to `mark`: by the environment's `restore`, else in a fresh environment by the same actions.

        Raises EnvironmentFault where those actions bring something else than they did: an environment that
        is not deterministic cannot be searched.
        """
        if self._snapshots:
            await self._guarded(self._env.restore, mark.snapshot)  # type: ignore[union-attr]
        elif tuple(self.steps) != mark.steps:
            ahead = len(self.steps) <= len(mark.steps) and tuple(self.steps) == mark.steps[: len(self.steps)]
            if not ahead:
                await self._again()
            for step in mark.steps[len(self.steps) :]:
                came = await self._step(step.action)
                self._same(step.outcome, came.observation.text, f"after '{step.action}'")
                self.steps.append(step)
                self.seen = came.observation
            self._same(mark.seen, self.seen, "at the same point")
        self.steps, self.seen, self.score = list(mark.steps), mark.seen, mark.score

    async def _again(self) -> None:
        start = self._start
        await self.close()
        await self.open()
        self.steps = []
        self._same(start, self.seen, "at the start")

    def _same(self, then: object, now: object, where: str) -> None:
        if then != now:
            raise EnvironmentFault(
                f"environment '{self.episode.task.env}' is not deterministic: {where} it showed "
                f"{now!r:.300}, and before {then!r:.300}; a search needs one that answers alike each time, "
                "or one with snapshot() and restore()"
            )

    async def close(self) -> None:
        """Releases the environment."""
        env, self._env = self._env, None
        if env is not None:
            await self._guarded(env.close)
