"""One round of Agent-In-World: failed episodes in, the next round's curriculum out.

Owns the order of the parts and the record of a round. Leaves out playing, prompts and acceptance (`evolve`).
Resume is the same call again: diagnoses and the event `curriculum/K` that are there answer for themselves.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from roleagent_lite.aiw.atlas import FIXED, Atlas, fixed_modes
from roleagent_lite.aiw.curriculum import Curriculum
from roleagent_lite.aiw.diagnose import DIAGNOSERS, failures, guard
from roleagent_lite.aiw.retrieve import BLIND, RETRIEVERS, Chosen, Context
from roleagent_lite.aiw.transcript import WORDS
from roleagent_lite.aiw.vocabulary import Vocabulary
from roleagent_lite.ask.asker import Asker
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.store import Run
from roleagent_lite.types import Diagnosis, Listener, PromptSet, Task, Trajectory


@dataclass(frozen=True, slots=True)
class AiwRound:
    """What a round taught. `record`: the data of the event `curriculum/K`, plain JSON."""

    curriculum: Curriculum
    diagnoses: tuple[Diagnosis, ...]
    chosen: tuple[Chosen, ...]
    record: Mapping[str, Any]


async def aiw_round(
    round: int,
    trajectories: Sequence[Trajectory],
    *,
    tasks: Sequence[Task],
    atlas: Atlas,
    curriculum: Curriculum,
    asker: Asker,
    prompt_set: PromptSet | None,
    vocabularies: Mapping[str, Vocabulary],
    run: Run,
    listener: Listener | None = None,
    max_words: int = WORDS,
) -> AiwRound:
    """Diagnose the round's failures, put them into the atlas, retrieve, reshape (spec section 3, 1 to 6).

    trajectories: the round's episodes on the training split. tasks: all training tasks. atlas: filled by
    the rounds before; gets this round's failures. curriculum: that of the round just played. prompt_set:
    texts for the modules `diagnose` and `retrieve`. vocabularies: by environment. max_words: of an episode
    in the prompt. Names, rho and the rest
    come from `run.config.aiw`. Puts Diagnosis rows and the event `curriculum/K` (kind "curriculum").

    Raises RoleAgentError for episodes of dev or test; FatalModelError and BudgetStop pass through.
    """
    known = {task.id: task for task in tasks}
    guard(trajectories, known)
    diagnose = DIAGNOSERS[_known("diagnose", run.config.aiw.diagnose, DIAGNOSERS)]
    diagnoses = await diagnose(
        asker, prompt_set, trajectories, known, vocabularies,
        run=run, workers=run.config.workers, round=round, listener=listener, max_words=max_words,
    )  # fmt: skip
    by_id = {t.id: t for t in trajectories}
    for diagnosis in diagnoses:
        trajectory = by_id[diagnosis.trajectory]
        atlas.add(diagnosis, trajectory, known[trajectory.task], round)
    saved = run.events.get(f"curriculum/{round}")
    if saved is not None:
        return _again(saved.data, curriculum, diagnoses)
    counts: Counter[str] = Counter()
    notes: list[str] = []
    contexts = _contexts(round, diagnoses, by_id, known, atlas, asker, prompt_set, run, counts, notes)
    chosen = await _retrieve(run.config.aiw.retrieve, contexts, tasks, atlas)
    chosen = _own(trajectories, run) + chosen
    solved = mastered(trajectories)
    after = curriculum.update([c.task_id for c in chosen], solved)
    record = _record(round, after, chosen, solved, diagnoses, trajectories, atlas, counts, notes)
    run.record(f"curriculum/{round}", "curriculum", record)
    return AiwRound(after, tuple(diagnoses), tuple(chosen), record)


def mastered(trajectories: Sequence[Trajectory]) -> list[str]:
    """Ids, sorted, of the tasks that were scored at least once and solved every time."""
    results: dict[str, bool] = {}
    for trajectory in trajectories:
        if trajectory.outcome.scored:
            results[trajectory.task] = results.get(trajectory.task, True) and trajectory.solved
    return sorted(task for task, solved in results.items() if solved)


def note_fixed(
    round: int, trajectories: Sequence[Trajectory], prompt_set: str, *, atlas: Atlas, run: Run
) -> list[str]:
    """Marks the modes that an accepted candidate's episodes of this round got over; their names."""
    names = fixed_modes(atlas, [t for t in trajectories if t.prompt_set == prompt_set])
    for mode in names:
        atlas.mark_fixed(mode, prompt_set, round)
        data = {"mode": mode, "prompt_set": prompt_set, "round": round}
        run.record(f"{FIXED}/{round}/{mode}", FIXED, data)
    return names


def _known(setting: str, name: str, names: Mapping[str, Any]) -> str:
    if name not in names:
        raise ConfigError(f"setting aiw.{setting} is '{name}'{nearest(name, names)}")
    return name


def _contexts(
    round: int,
    diagnoses: Sequence[Diagnosis],
    by_id: Mapping[str, Trajectory],
    known: Mapping[str, Task],
    atlas: Atlas,
    asker: Asker,
    prompt_set: PromptSet | None,
    run: Run,
    counts: Counter[str],
    notes: list[str],
) -> list[Context]:
    """One context a distinct mode, by name."""
    out = []
    for mode in sorted({d.mode for d in diagnoses}):
        here = [d for d in diagnoses if d.mode == mode]
        failed = sorted({by_id[d.trajectory].task for d in here})
        out.append(
            Context(
                mode=mode,
                diagnoses=here,
                failed=[known[id] for id in failed],
                tasks=known,
                atlas=atlas,
                asker=asker,
                prompt_set=prompt_set,
                round=round,
                seed=run.config.seed,
                candidates=run.config.aiw.candidates,
                counts=counts,
                notes=notes,
            )
        )
    return out


async def _retrieve(
    name: str, contexts: Sequence[Context], tasks: Sequence[Task], atlas: Atlas
) -> list[Chosen]:
    """One retrieval a context, in their order (few, so one after the other: the order of calls is fixed)."""
    retrieve = RETRIEVERS[_known("retrieve", name, RETRIEVERS)]
    if contexts and name != "none":
        reflections = name not in BLIND
        await asyncio.to_thread(atlas.index_tasks, tasks, reflections)  # embedding may take seconds
    return [chosen for context in contexts for chosen in await retrieve(context)]


def _own(trajectories: Sequence[Trajectory], run: Run) -> list[Chosen]:
    """A failed task counts once for itself, read or not; nothing counts where a half of AIW is ablated."""
    if "none" in (run.config.aiw.diagnose, run.config.aiw.retrieve):
        return []
    modes: dict[str, str] = {}
    for trajectory in failures(trajectories):
        diagnosis = run.diagnoses.get(trajectory.id)
        mode = diagnosis.mode if diagnosis is not None else ""
        modes[trajectory.task] = modes.get(trajectory.task) or mode
    return [Chosen(task, "failed", mode, own=True) for task, mode in sorted(modes.items())]


def _record(
    round: int,
    after: Curriculum,
    chosen: Sequence[Chosen],
    solved: Sequence[str],
    diagnoses: Sequence[Diagnosis],
    trajectories: Sequence[Trajectory],
    atlas: Atlas,
    counts: Counter[str],
    notes: Sequence[str],
) -> dict[str, Any]:
    seen = Counter(d.mode for d in diagnoses)
    return {
        "round": round,
        "counts": {i: c for i, c in zip(after.task_ids, after.counts, strict=True) if c},
        "p": after.probabilities(),
        "chosen": [asdict(c) for c in chosen],
        "solved": list(solved),
        "modes": [
            asdict(m)
            | {"evidence": len(m.evidence), "in_round": seen[m.name], "reopened": atlas.reopened(m.name)}
            for m in atlas.modes()
        ],
        "failures": len(failures(trajectories)),
        "diagnosed": len(diagnoses),
        "shared": sum(d.shared_from is not None for d in diagnoses),
        "dropped": dict(sorted(counts.items())),
        "notes": list(notes),
    }


def _again(data: Mapping[str, Any], curriculum: Curriculum, diagnoses: Sequence[Diagnosis]) -> AiwRound:
    chosen = tuple(Chosen(**row) for row in data["chosen"])
    after = curriculum.update([c.task_id for c in chosen], data["solved"])
    return AiwRound(after, tuple(diagnoses), chosen, data)
