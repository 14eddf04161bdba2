"""Diagnosis: the world reads a failed episode and names failure mode, point of no return and lesson.

Owns which episodes are read (failed, teaching, of the training split, one of several that are alike) and
what becomes of an ask that fails. Leaves out the prompt (`prompts/*/diagnose.toml`), parsing and the re-ask
(`ask`), and the library that the diagnoses go into (`aiw/atlas.py`). Spec section 3, paragraphs 1 and 2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from roleagent_lite.aiw.transcript import WORDS, ending, transcript
from roleagent_lite.aiw.vocabulary import Vocabulary, load_vocabulary
from roleagent_lite.ask.asker import Asker
from roleagent_lite.errors import ModelError, ReplyError, RoleAgentError
from roleagent_lite.store import Run
from roleagent_lite.types import Diagnosis, Listener, Progress, PromptSet, Task, Trajectory

_UNREAD = "undiagnosed/"  # key of the event that says that an ask failed
Likeness = tuple[str, str, tuple[str, ...]]


Diagnoser = Callable[..., Awaitable[list[Diagnosis]]]  # the parameters of `diagnose_all`


def guard(trajectories: Sequence[Trajectory], tasks: Mapping[str, Task]) -> None:
    """Raises RoleAgentError if any episode or its task is not of the training split."""
    for trajectory in trajectories:
        task = tasks.get(trajectory.task)
        split = trajectory.split if task is None else task.split
        if trajectory.split != "train" or split != "train":
            raise RoleAgentError(
                f"episode '{trajectory.id}' is of split {split if split != 'train' else trajectory.split}: "
                "episodes of dev and test never enter the atlas; pass those of split train only"
            )
        if task is None:
            raise RoleAgentError(
                f"episode '{trajectory.id}' is of task '{trajectory.task}', which is unknown"
            )


def failures(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Those that teach by their failure, in the order given."""
    return [t for t in trajectories if t.outcome.teaches and not t.solved]


def likeness(trajectory: Trajectory) -> Likeness:
    """Episodes with the same likeness share a diagnosis: task, prompt set, actions."""
    return (trajectory.task, trajectory.prompt_set, tuple(step.action for step in trajectory.steps))


async def diagnose_all(
    asker: Asker,
    prompt_set: PromptSet | None,
    trajectories: Sequence[Trajectory],
    tasks: Mapping[str, Task],
    vocabularies: Mapping[str, Vocabulary],
    *,
    run: Run,
    workers: int,
    round: int,
    listener: Listener | None = None,
    max_words: int = WORDS,
) -> list[Diagnosis]:
    """One Diagnosis for each failed episode, in the order of `trajectories`; each is put into the run.

    prompt_set: texts for the module `diagnose` (None: the prompt files' own). tasks by id. vocabularies by
    environment; the general one for others. Those already in `run.diagnoses` are taken from there; episodes
    that are alike (this round or before) share one and name it in `shared_from`. At most `workers` asks at
    once, at the temperature `evolve.reflect_temperature` (0.5, paper App. D).

    An ask without a usable reply leaves the episode without a diagnosis and a note in the run (event
    `undiagnosed/ID`), and is not paid for a second time. Raises RoleAgentError for an episode of dev or
    test; FatalModelError and BudgetStop pass through.
    """
    guard(trajectories, tasks)
    failed = failures(trajectories)
    leaders = _leaders(failed, run, round)
    unread = [t for t in failed if leaders[likeness(t)] == t.id and t.id not in run.diagnoses]
    open_ = [t for t in unread if _UNREAD + t.id not in run.events]
    gate = asyncio.Semaphore(workers)
    done = 0

    async def read(trajectory: Trajectory) -> None:
        nonlocal done
        vocabulary = vocabularies.get(tasks[trajectory.task].env) or load_vocabulary()
        async with gate:
            note = await _read(asker, prompt_set, trajectory, tasks, vocabulary, run, max_words)
        done += 1
        if listener is not None:
            listener(Progress("diagnose", done, len(open_), note=note))

    await _all_or_none([read(t) for t in open_])
    return _collect(failed, leaders, run)


async def diagnose_none(
    asker: Asker,
    prompt_set: PromptSet | None,
    trajectories: Sequence[Trajectory],
    tasks: Mapping[str, Task],
    *_: Any,
    **__: Any,
) -> list[Diagnosis]:
    """The ablation: nobody reads the failures. Guards the split all the same."""
    guard(trajectories, tasks)
    return []


DIAGNOSERS: dict[str, Diagnoser] = {"llm": diagnose_all, "none": diagnose_none}


def _leaders(failed: Sequence[Trajectory], run: Run, round: int) -> dict[Likeness, str]:
    """The episode that is read, for each likeness: one that was read before, else the first.

    A resumed round must not see what only later rounds read.
    """
    leaders: dict[Likeness, str] = {}
    for diagnosis in run.diagnoses:
        trajectory = run.trajectories.get(diagnosis.trajectory)
        if trajectory is not None and trajectory.round <= round and diagnosis.shared_from is None:
            leaders.setdefault(likeness(trajectory), trajectory.id)
    for trajectory in failed:
        leaders.setdefault(likeness(trajectory), trajectory.id)
    return leaders


def _collect(failed: Sequence[Trajectory], leaders: Mapping[Likeness, str], run: Run) -> list[Diagnosis]:
    out = []
    for trajectory in failed:
        own = run.diagnoses.get(trajectory.id)
        first = run.diagnoses.get(leaders[likeness(trajectory)])
        if own is None and first is not None:
            own = replace(first, trajectory=trajectory.id, shared_from=first.trajectory)
            run.diagnoses.put(own)
        if own is not None:
            out.append(own)
    return out


async def _read(
    asker: Asker,
    prompt_set: PromptSet | None,
    trajectory: Trajectory,
    tasks: Mapping[str, Task],
    vocabulary: Vocabulary,
    run: Run,
    max_words: int,
) -> str:
    """Reads one episode and puts its Diagnosis; a note where no usable reply came, else ""."""
    inputs = {
        "task": tasks[trajectory.task].goal,
        "outcome": ending(trajectory),
        "episode": transcript(trajectory, max_words),
        "modes": vocabulary.text(),
    }
    try:
        answer = await asker.ask(
            "diagnose",
            inputs,
            prompt_set=prompt_set,
            sample=trajectory.id,
            temperature=run.config.evolve.reflect_temperature,
            enums={"mode": vocabulary.names},
        )
    except ReplyError as error:
        return _unread(run, trajectory, f"{error.kind} ({error.reason}): {error}")
    except ModelError as error:
        if error.fatal:
            raise
        return _unread(run, trajectory, str(error))
    run.diagnoses.put(from_values(trajectory, answer.values, vocabulary))
    return ""


def _unread(run: Run, trajectory: Trajectory, why: str) -> str:
    text = f"no diagnosis of {trajectory.id}: {why}"
    run.record(_UNREAD + trajectory.id, "note", {"text": text})
    return text


def from_values(trajectory: Trajectory, values: Mapping[str, Any], vocabulary: Vocabulary) -> Diagnosis:
    """The noun from the five fields of a reply (paper App. D). A step number beyond the episode means its
    last step; none, or one under 1, is 0."""
    words = {k: " ".join(str(values.get(k) or "").split()) for k in ("mode", "detail", "lesson", "query")}
    step = values.get("critical_step")
    number = step if isinstance(step, int) else 0
    return Diagnosis(
        trajectory=trajectory.id,
        mode=vocabulary.settle(words["mode"], words["query"]),
        detail=words["detail"],
        critical_step=max(0, min(number, len(trajectory.steps))),
        lesson=words["lesson"],
        query=words["query"] or words["detail"],
    )


async def _all_or_none(work: Sequence[Any]) -> None:
    """Awaits all; the first exception cancels the others and passes."""
    started = [asyncio.ensure_future(w) for w in work]
    try:
        await asyncio.gather(*started)
    except BaseException:
        for task in started:
            task.cancel()
        await asyncio.gather(*started, return_exceptions=True)
        raise
