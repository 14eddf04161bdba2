"""Plays one task, or many at once under a visible cap. A failed rollout is data; a broken system raises.

Owns what becomes of an episode: a Trajectory, whatever its end, and the order and number of those in play.
Leaves out the episode itself (stage), what an agent does (agents), what an environment does (envs) and every
judgement on a trajectory (wia, aiw).
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from roleagent_lite.config import Wia
from roleagent_lite.errors import BudgetStop, EnvironmentFault, EpisodeEnd, ReplyError
from roleagent_lite.redact import scrub
from roleagent_lite.stage import Episode, Stage, admitted, completed, note_on, repeats, trajectory_id
from roleagent_lite.store import Run
from roleagent_lite.types import Agent, Listener, Outcome, Progress, PromptSet, Trajectory

__all__ = [
    "Episode",
    "admitted",
    "completed",
    "irreproducible",
    "many",
    "note_on",
    "outline",
    "perform",
    "play",
    "play_many",
    "repeats",
    "trajectory_id",
    "trajectory_of",
]

Script = Callable[[Stage], Awaitable[Outcome]]
J = TypeVar("J")


async def perform(
    script: Script, episode: Episode, *, name: str, prompt_set: PromptSet, model_name: str
) -> Trajectory:
    """Opens a stage, lets `script` play on it, and makes what comes of it a Trajectory, whatever the end is.

    episode: completed (see `completed`); name: the trajectory's id, and the sample of its requests. What
    `script` returns is the outcome. Raises what ends a run: FatalModelError, BudgetStop, ConfigError.
    """
    started = time.monotonic()
    stage = Stage(episode, name)
    error: str | None = None
    other: tuple[str, ...] = ()
    try:
        await stage.open()
        outcome = await script(stage)
    except EpisodeEnd as end:
        outcome, error, other = await _ended(stage, end)
    except ReplyError as fault:
        outcome, error = Outcome(fault.kind, fault.reason), scrub(str(fault))  # type: ignore[arg-type]
        other = fault.call_ids
    except EnvironmentFault as fault:
        outcome, error = _broken(fault)
    finally:
        try:
            await stage.close()
        except EnvironmentFault as fault:
            error = error or scrub(f"close() failed: {fault}")
    played = trajectory_of(stage, outcome, name=name, prompt_set=prompt_set, model_name=model_name)
    return replace(played, error=error, seconds=time.monotonic() - started, other_calls=other)


def trajectory_of(
    stage: Stage, outcome: Outcome, *, name: str, prompt_set: PromptSet, model_name: str
) -> Trajectory:
    """What has been played on `stage`, as a Trajectory that ended with `outcome`."""
    episode = stage.episode
    return Trajectory(
        id=name,
        task=episode.task.id,
        prompt_set=prompt_set.id,
        model=model_name,
        round=episode.round,
        rollout=episode.rollout,
        split=episode.task.split,
        steps=tuple(stage.steps),
        score=stage.score if outcome.kind in ("solved", "failed") else 0.0,
        outcome=outcome,
        arm=episode.arm,
        max_steps=episode.max_steps,
        final_state_key=stage.seen.state_key,
    )


async def _ended(stage: Stage, end: EpisodeEnd) -> tuple[Outcome, str | None, tuple[str, ...]]:
    """An episode that its player ended counts as it was played until then."""
    try:
        stage.score = await stage.settle()
    except EnvironmentFault as fault:
        return *_broken(fault), end.call_ids
    outcome = Outcome("solved") if stage.score >= 1.0 else Outcome("failed", end.reason)
    return outcome, scrub(str(end)), end.call_ids


def _broken(fault: EnvironmentFault) -> tuple[Outcome, str]:
    return (
        Outcome("infrastructure_error", "environment"),
        scrub("".join(traceback.format_exception(fault))),
    )


async def play(agent: Agent, episode: Episode, *, model_name: str, wia: Wia | None = None) -> Trajectory:
    """Plays one episode to its end, whatever the end is.

    solved: the environment's score is 1 at its end, at the step limit or where a loop is cut. failed: lost,
    step_limit, loop. bad_format and cut_off as the ask says. infrastructure_error: provider trouble, or
    `environment` with the traceback in `error`. The score of an episode without a regular end is 0.

    Raises what ends a run: FatalModelError, BudgetStop, ConfigError.
    """
    episode = completed(episode, wia or Wia())
    name = trajectory_id(episode, agent.prompt_set)

    async def script(stage: Stage) -> Outcome:
        while True:
            outcome = await stage.move(await agent.act(stage.view()))
            if outcome is not None:
                return outcome

    return await perform(script, episode, name=name, prompt_set=agent.prompt_set, model_name=model_name)


def irreproducible(trajectories: Iterable[Trajectory]) -> set[str]:
    """Tasks whose episodes did not start alike: the environment ignores its seed, so that their rollouts are
    no group. Trajectories without a step say nothing."""
    starts: dict[str, set[tuple[str, str | None]]] = {}
    for t in trajectories:
        if t.steps:
            starts.setdefault(t.task, set()).add((t.steps[0].observation, t.steps[0].state_key))
    return {task for task, seen in starts.items() if len(seen) > 1}


def _odd(trajectory: Trajectory, env: str) -> str:
    """A warning about an environment that contradicts itself, or ""."""
    if trajectory.solved and not sum(step.reward for step in trajectory.steps):
        return (
            f"environment '{env}' reports success without any reward: "
            "wia has nothing to scale; let step() return the score as reward"
        )
    return ""


def _unheard(trajectory: Trajectory) -> bool:
    """Whether an episode ended because no model answered, from its first call on."""
    end = trajectory.outcome
    heard = trajectory.other_calls or any(step.call_ids for step in trajectory.steps)
    return end.kind == "infrastructure_error" and end.reason != "environment" and not heard


def outline(trajectory: Trajectory) -> Trajectory:
    """The same episode without what was said and seen in it: its first step's observation, and all call ids
    as `other_calls`. The whole stands in the run."""
    first = tuple(
        replace(step, admissible=(), thought="", said="", outcome="", predictions=(), call_ids=())
        for step in trajectory.steps[:1]
    )
    ids = [call for step in trajectory.steps for call in step.call_ids]
    return replace(trajectory, steps=first, other_calls=(*ids, *trajectory.other_calls), error=None)


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
    keep: Callable[[Trajectory], Trajectory] | None = None,
) -> list[Trajectory]:
    """All trajectories of one agent in the order of `episodes`, as `many` plays them.

    Those that `run` holds are taken from there; each new one is stored when it ends.
    """

    async def one(episode: Episode) -> Trajectory:
        stored = run.trajectories.get(trajectory_id(episode, agent.prompt_set)) if run else None
        return stored or await play(agent, episode, model_name=model_name, wia=wia)

    return await many(
        episodes,
        one,
        lambda e: e.task.env,
        run=run,
        workers=workers,
        listener=listener,
        stage=stage,
        keep=keep,
    )


async def many(
    jobs: Sequence[J],
    play_one: Callable[[J], Awaitable[Trajectory]],
    env: Callable[[J], str],
    *,
    run: Run | None = None,
    workers: int,
    listener: Listener | None = None,
    stage: str = "train",
    keep: Callable[[Trajectory], Trajectory] | None = None,
) -> list[Trajectory]:
    """The trajectory of each job in the order of `jobs`, at most `workers` at once, stored when they end.

    play_one gives a job's trajectory; env names its environment; keep: what is given back in its place, for
    callers that need an outline alone (None: the whole). The listener hears of every finished
    episode, and once of an environment that contradicts itself, which is noted in the run. The first
    exception (a fatal model error, an interrupt) cancels the other episodes, waits for them and is raised.
    After BudgetStop the calls in flight, which are paid for, are let in and stored; each worker then stops
    at its next call. Episodes to which no model said a word, and before any other, are stored at the end: if
    the server was never there and the run is stopped, a resume plays them.
    """
    held: list[Trajectory] | None = []  # None: somebody has answered
    done: dict[int, Trajectory] = {}
    solved = 0
    spent = False
    told: set[str] = set()

    def tell(note: str = "") -> None:
        if note in told:
            return
        told.update({note} - {""})
        if note and run is not None:
            run.record(f"note/{note}", "note", {"text": note})
        if listener is not None:
            listener(Progress(stage, len(done), len(jobs), solved, note=note))

    def store(*played: Trajectory) -> None:
        if run is not None:
            for trajectory in played:
                run.trajectories.put(trajectory)  # one that is there already stays as it is

    waiting = iter(enumerate(jobs))

    async def worker() -> None:
        nonlocal solved, spent, held
        for number, job in waiting:  # one iterator for all workers: each takes the next job
            if spent:
                return
            try:
                trajectory = await play_one(job)
            except BudgetStop:
                spent = True
                raise
            if held is not None and _unheard(trajectory):
                held.append(trajectory)
            else:
                store(*(held or ()), trajectory)
                held = None
            done[number] = keep(trajectory) if keep is not None else trajectory
            solved += trajectory.solved
            tell()
            if warning := _odd(trajectory, env(job)):
                tell(warning)

    crew = [asyncio.ensure_future(worker()) for _ in range(min(workers, len(jobs)))]
    try:
        await asyncio.gather(*crew)
        store(*(held or ()))
    except BudgetStop:
        await asyncio.gather(*crew, return_exceptions=True)
        store(*(held or ()))
        raise
    finally:
        for member in crew:
            member.cancel()
        await asyncio.gather(*crew, return_exceptions=True)
    ordered = [done[number] for number in range(len(jobs))]
    for task in sorted(irreproducible(ordered)):
        tell(f"environment not reproducible: task '{task}' did not start alike in all its episodes")
    return ordered
