"""Plays one task, or many at once under a visible cap. A failed rollout is data; a broken system raises.

Owns the loop of an episode, the mapping of near misses, the notes to the agent, what ends an episode and the
one border at which an environment's exceptions become an outcome. Leaves out what an agent does (agents),
what an environment does (envs) and every judgement on a trajectory (wia, aiw).
"""

from __future__ import annotations

import asyncio
import math
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, TypeVar

from roleagent_lite.ask import free_form, near_miss
from roleagent_lite.config import Wia
from roleagent_lite.envs import registry
from roleagent_lite.errors import BudgetStop, ConfigError, EnvironmentFault, MissingExtra, ReplyError
from roleagent_lite.redact import clean, scrub
from roleagent_lite.store import Run
from roleagent_lite.types import (
    Agent,
    Decision,
    Environment,
    Listener,
    Observation,
    Outcome,
    Progress,
    PromptSet,
    Step,
    Task,
    Trajectory,
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


class _Stage:
    """An environment behind the border: what it raises comes out as EnvironmentFault."""

    def __init__(self, blocking: bool) -> None:
        self._blocking = blocking
        self._env: Environment | None = None

    async def _guarded(self, call: Callable[..., T], *arguments: Any) -> T:
        try:
            return await asyncio.to_thread(call, *arguments) if self._blocking else call(*arguments)
        except (EnvironmentFault, ConfigError, MissingExtra):
            raise
        except Exception as error:
            raise EnvironmentFault(f"{type(error).__name__}: {error}") from error

    async def open(self, task: Task) -> Observation:
        self._env = await self._guarded(registry.make, task)
        seen = await self._guarded(self._env.observe)
        # What is used is what is stored, so that a resume, which reads it there, asks the same.
        return replace(seen, text=clean(seen.text))

    async def step(self, action: str) -> Transition:
        assert self._env is not None
        came = await self._guarded(self._env.step, action)
        if not isinstance(came, Transition) or not math.isfinite(came.reward):
            raise EnvironmentFault(
                f"step() returned {came!r:.200}; a Transition with a finite reward is needed"
            )
        return replace(came, observation=replace(came.observation, text=clean(came.observation.text)))

    async def score(self) -> float:
        assert self._env is not None
        value = float(await self._guarded(self._env.score))
        if not 0.0 <= value <= 1.0:
            raise EnvironmentFault(f"score() returned {value}; a number from 0 to 1 is needed")
        return value

    async def close(self) -> None:
        if self._env is not None:
            await self._guarded(self._env.close)


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


@dataclass(slots=True)
class _Record:
    """What has happened so far; survives the exception that ends an episode."""

    steps: list[Step] = field(default_factory=list)
    seen: Observation = field(default_factory=lambda: Observation(""))
    score: float = 0.0


async def _episode(agent: Agent, episode: Episode, stage: _Stage, record: _Record, sample: str) -> Outcome:
    shown = registry.spec(episode.task.env).history
    record.seen = await stage.open(episode.task)
    for number in range(1, episode.max_steps + 1):
        view = View(
            task=episode.task,
            observation=record.seen,
            history=tuple(record.steps[-shown:]) if shown else (),
            step=number,
            max_steps=episode.max_steps,
            horizon=episode.horizon,
            temperature=episode.temperature,
            sample=sample,
            predict=episode.predict,
            note=note_on(record.steps),
        )
        decision = await agent.act(view)
        came = await _move(decision, episode.horizon, stage, record)
        record.score = await stage.score() if came.done or number == episode.max_steps else 0.0
        if record.score >= 1.0:
            return Outcome("solved")
        if came.done:
            return Outcome("failed", "lost")
        if repeats(record.steps) >= STOP_AFTER:
            record.score = await stage.score()
            return Outcome("solved") if record.score >= 1.0 else Outcome("failed", "loop")
    return Outcome("failed", "step_limit")


async def _move(decision: Decision, horizon: int, stage: _Stage, record: _Record) -> Transition:
    before = record.seen
    action, allowed = admitted(decision.action, before.admissible)
    if not action:
        raise ReplyError("bad_format", "empty action", "the agent gave no action", decision.call_ids)
    came = await stage.step(action)
    record.steps.append(
        Step(
            observation=before.text,
            action=action,
            outcome=came.observation.text,
            reward=came.reward,
            state_key=before.state_key,
            admissible=before.admissible,
            thought=decision.thought,
            predictions=decision.predictions[:horizon],
            said=decision.said,
            valid=came.valid and allowed,
            call_ids=decision.call_ids,
        )
    )
    record.seen = came.observation
    return came


async def play(agent: Agent, episode: Episode, *, model_name: str, wia: Wia | None = None) -> Trajectory:
    """Plays one episode to its end, whatever the end is.

    solved: the environment's score is 1 at its end, at the step limit or where a loop is cut. failed: lost,
    step_limit, loop. bad_format and cut_off as the ask says. infrastructure_error: provider trouble, or
    `environment` with the traceback in `error`. The score of an episode without a regular end is 0.

    Raises what ends a run: FatalModelError, BudgetStop, ConfigError.
    """
    started = time.monotonic()
    episode = completed(episode, wia or Wia())
    name = trajectory_id(episode, agent.prompt_set)
    stage = _Stage(bool(getattr(registry.spec(episode.task.env), "blocking", False)))
    record, error = _Record(), None
    try:
        outcome = await _episode(agent, episode, stage, record, name)
    except ReplyError as fault:
        outcome, error = Outcome(fault.kind, fault.reason), scrub(str(fault))  # type: ignore[arg-type]
    except EnvironmentFault as fault:
        outcome = Outcome("infrastructure_error", "environment")
        error = scrub("".join(traceback.format_exception(fault)))
    finally:
        try:
            await stage.close()
        except EnvironmentFault as fault:
            error = error or scrub(f"close() failed: {fault}")
    return Trajectory(
        id=name,
        task=episode.task.id,
        prompt_set=agent.prompt_set.id,
        model=model_name,
        round=episode.round,
        rollout=episode.rollout,
        split=episode.task.split,
        steps=tuple(record.steps),
        score=record.score if outcome.kind in ("solved", "failed") else 0.0,
        outcome=outcome,
        arm=episode.arm,
        max_steps=episode.max_steps,
        final_state_key=record.seen.state_key,
        error=error,
        seconds=time.monotonic() - started,
    )


def irreproducible(trajectories: Iterable[Trajectory]) -> set[str]:
    """Tasks whose episodes did not start alike: the environment ignores its seed, so that their rollouts are
    no group. Trajectories without a step say nothing."""
    starts: dict[str, set[tuple[str, str | None]]] = {}
    for t in trajectories:
        if t.steps:
            starts.setdefault(t.task, set()).add((t.steps[0].observation, t.steps[0].state_key))
    return {task for task, seen in starts.items() if len(seen) > 1}


def _odd(trajectory: Trajectory, episode: Episode) -> str:
    """A warning about an environment that contradicts itself, or ""."""
    if trajectory.solved and not sum(step.reward for step in trajectory.steps):
        return (
            f"environment '{episode.task.env}' reports success without any reward: "
            "wia has nothing to scale; let step() return the score as reward"
        )
    return ""


async def play_many(
    agent: Agent,
    episodes: Sequence[Episode],
    *,
    run: Run | None = None,
    workers: int,
    model_name: str,
    wia: Wia | None = None,
    listener: Listener | None = None,
    stage: str = "train",
) -> list[Trajectory]:
    """All trajectories in the order of `episodes`, at most `workers` at once.

    Those that `run` holds are taken from there; each new one is stored when it ends. The listener hears of
    every finished episode, and once of an environment that contradicts itself, which is noted in the run.
    The first exception (a fatal model error, an interrupt) cancels the other episodes, waits for them and is
    raised. After BudgetStop the calls in flight, which are paid for, are let in and stored; each worker then
    stops at its next call.
    """
    done: dict[int, Trajectory] = {}
    spent = False
    told: set[str] = set()

    def tell(note: str = "") -> None:
        if note in told:
            return
        told.update({note} - {""})
        if note and run is not None:
            run.record(f"note/{note}", "note", {"text": note})
        if listener is not None:
            solved = sum(t.solved for t in done.values())
            listener(Progress(stage, len(done), len(episodes), solved, note=note))

    waiting = iter(enumerate(episodes))

    async def worker() -> None:
        nonlocal spent
        for number, episode in waiting:  # one iterator for all workers: each takes the next episode
            if spent:
                return
            stored = run.trajectories.get(trajectory_id(episode, agent.prompt_set)) if run else None
            try:
                trajectory = stored or await play(agent, episode, model_name=model_name, wia=wia)
            except BudgetStop:
                spent = True
                raise
            if run is not None and stored is None:
                run.trajectories.put(trajectory)
            done[number] = trajectory
            tell()
            if warning := _odd(trajectory, episode):
                tell(warning)

    crew = [asyncio.ensure_future(worker()) for _ in range(min(workers, len(episodes)))]
    try:
        await asyncio.gather(*crew)
    except BudgetStop:
        await asyncio.gather(*crew, return_exceptions=True)
        raise
    finally:
        for member in crew:
            member.cancel()
        await asyncio.gather(*crew, return_exceptions=True)
    ordered = [done[number] for number in range(len(episodes))]
    for task in sorted(irreproducible(ordered)):
        tell(f"environment not reproducible: task '{task}' did not start alike in all its episodes")
    return ordered
