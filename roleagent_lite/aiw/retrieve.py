"""Retrieval: which training tasks to play again, given how the agent failed (spec section 3, paragraph 5).

Owns the five ways to choose, each a function of one failure mode's context. Leaves out what the choice does
to the probabilities (`aiw/curriculum.py`) and a failed task's own count (`aiw/round.py`).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from roleagent_lite.aiw.atlas import Atlas
from roleagent_lite.aiw.transcript import clip
from roleagent_lite.ask.asker import Asker
from roleagent_lite.errors import ModelError, ReplyError
from roleagent_lite.memory import Hit
from roleagent_lite.types import Diagnosis, PromptSet, Task

TAKE = 5  # tasks that one retrieval chooses at most; "vector" and "random" choose as many
_WORDS = 40  # of a candidate's text in the prompt


@dataclass(frozen=True, slots=True)
class Chosen:
    """A training task to be drawn more often, and why. `own`: it failed itself."""

    task_id: str
    reason: str
    mode: str = ""
    own: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """One failure mode of one round.

    diagnoses: those of the mode, in the order of the episodes. failed: the tasks they failed on; none of
    them is a candidate. tasks: all training tasks by id. `counts` is written to: what was dropped and why.
    """

    mode: str
    diagnoses: Sequence[Diagnosis]
    failed: Sequence[Task]
    tasks: Mapping[str, Task]
    atlas: Atlas
    asker: Asker
    prompt_set: PromptSet | None
    round: int
    seed: int
    candidates: int
    take: int = TAKE
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


Retriever = Callable[[Context], Awaitable[list[Chosen]]]


async def by_llm(context: Context) -> list[Chosen]:
    """Hybrid search on the retrieval query narrows to `candidates`; the LLM chooses among them."""
    first = context.diagnoses[0]
    query = " ".join(dict.fromkeys(d.query for d in context.diagnoses if d.query))
    failure = {"mode": context.mode, "detail": first.detail, "lesson": first.lesson, "query": first.query}
    return await _ask(context, await _search(context, query or context.mode), failure)


async def by_vector(context: Context) -> list[Chosen]:
    """The nearest tasks of the same search, without asking the LLM."""
    query = " ".join(dict.fromkeys(d.query for d in context.diagnoses if d.query))
    hits = await _search(context, query or context.mode)
    reason = f"near the query '{clip(query or context.mode, 15)}'"
    return [Chosen(hit.item.id, reason, context.mode) for hit in hits[: context.take]]


async def by_random(context: Context) -> list[Chosen]:
    """Random replay, the ablation: as many tasks, drawn evenly; seeded by seed, round and mode."""
    failed = {task.id for task in context.failed}
    others = [id for id in sorted(context.tasks) if id not in failed]
    rng = random.Random(f"{context.seed}/{context.round}/{context.mode}")
    drawn = rng.sample(others, min(context.take, len(others)))
    return [Chosen(id, "random replay", context.mode) for id in drawn]


async def by_task_text(context: Context) -> list[Chosen]:
    """The ablation: search and LLM see the failed tasks' goals instead of the failure mode."""
    goals = " ".join(dict.fromkeys(task.goal for task in context.failed))
    failure = {"mode": "", "detail": f"failed at: {clip(goals, 60)}", "lesson": "", "query": ""}
    return await _ask(context, await _search(context, goals), failure)


async def by_none(context: Context) -> list[Chosen]:
    """Nothing is chosen: the curriculum stays uniform."""
    return []


RETRIEVERS: dict[str, Retriever] = {
    "llm": by_llm,
    "vector": by_vector,
    "random": by_random,
    "task_text": by_task_text,
    "none": by_none,
}


BLIND = ("task_text",)  # retrievers whose catalogue holds goals alone: no failure mode reaches their choice


async def _search(context: Context, query: str) -> list[Hit]:
    failed = {task.id for task in context.failed}
    return await asyncio.to_thread(context.atlas.search, query, context.candidates, failed)


async def _ask(context: Context, hits: Sequence[Hit], failure: Mapping[str, str]) -> list[Chosen]:
    """The LLM's choice among the hits; ids that it made up, or named twice, are dropped and counted."""
    if not hits:
        context.counts["no_candidates"] += 1
        return []
    inputs = {
        **failure,
        "candidates": "\n".join(f"{hit.item.id}: {clip(hit.item.text, _WORDS)}" for hit in hits),
        "limit": str(context.take),
    }
    ids = [hit.item.id for hit in hits]
    try:
        answer = await context.asker.ask(
            "retrieve",
            inputs,
            prompt_set=context.prompt_set,
            sample=f"{context.round}/retrieve/{context.mode}",
            enums={"id": ids},
        )
    except (ReplyError, ModelError) as error:
        if isinstance(error, ModelError) and error.fatal:
            raise
        context.counts["unanswered"] += 1
        context.notes.append(f"no retrieval for '{context.mode}': {error}")
        return []
    return _settle(context, answer.values.get("chosen") or [], set(ids))


def _settle(context: Context, said: Sequence[Mapping[str, Any]], known: set[str]) -> list[Chosen]:
    chosen: dict[str, Chosen] = {}
    for row in said:
        id = str(row.get("id") or "").strip()
        if id not in known:
            context.counts["invented"] += 1
        elif id in chosen:
            context.counts["repeated"] += 1
        elif len(chosen) < context.take:
            chosen[id] = Chosen(id, " ".join(str(row.get("reason") or "").split()), context.mode)
        else:
            context.counts["over_limit"] += 1
    return list(chosen.values())
