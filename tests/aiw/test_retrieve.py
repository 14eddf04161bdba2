"""The five ways to choose tasks, each against the same failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.aiw.atlas import Atlas
from roleagent_lite.aiw.retrieve import RETRIEVERS, TAKE, Context
from roleagent_lite.errors import BudgetStop, FatalModelError, TransientModelError
from roleagent_lite.memory import Memory
from roleagent_lite.types import Reply, Request
from tests.aiw.make import Hashing, World, chosen, diagnosis, episode, said, task

TASKS = {
    t.id: t
    for t in (
        *(task(f"heat{i}", f"put a hot apple {i} on the table") for i in range(6)),
        *(task(f"lamp{i}", f"look at book {i} under the desklamp") for i in range(6)),
    )
}
FAILED = [episode("heat0"), episode("heat1")]


def context(path: Path, world: World, hybrid: bool = True, **more: Any) -> Context:
    atlas = Atlas(Memory(path / "m", Hashing() if hybrid else None))
    atlas.index_tasks(TASKS.values())
    values: dict[str, Any] = {
        "mode": "missing_precondition",
        "diagnoses": [diagnosis(t) for t in FAILED],
        "failed": [TASKS["heat0"], TASKS["heat1"]],
        "tasks": TASKS,
        "atlas": atlas,
        "asker": world.asker(),
        "prompt_set": None,
        "round": 3,
        "seed": 0,
        "candidates": 30,
    }
    return Context(**{**values, **more})


@pytest.mark.parametrize("hybrid", [True, False])
async def test_llm_chooses_among_candidates_with_reasons(tmp_path: Path, hybrid: bool) -> None:
    world = World(retrieve=chosen("heat3", "heat2", reason="needs heating too"))
    found = await RETRIEVERS["llm"](context(tmp_path, world, hybrid))
    assert [(c.task_id, c.reason, c.mode, c.own) for c in found] == [
        ("heat3", "needs heating too", "missing_precondition", False),
        ("heat2", "needs heating too", "missing_precondition", False),
    ]
    request = world.seen[0]
    assert len(world.seen) == 1
    assert (request.role, request.sample) == ("world", "3/retrieve/missing_precondition")
    told = said(request)
    for part in (
        "missing_precondition",
        "it was cold",
        "heat first",
        "heat apple microwave",
        f"at most {TAKE}",
    ):
        assert part in told
    assert "heat2: put a hot apple 2" in told


async def test_failed_tasks_are_never_their_own_candidates(tmp_path: Path) -> None:
    world = World(retrieve=chosen("heat0", "heat1", "heat2"))
    given = context(tmp_path, world)
    found = await RETRIEVERS["llm"](given)
    assert [c.task_id for c in found] == ["heat2"]
    assert given.counts["invented"] == 2
    told = said(world.seen[0])
    assert "heat0:" not in told and "heat1:" not in told
    for name in ("vector", "random", "task_text"):
        ids = {c.task_id for c in await RETRIEVERS[name](context(tmp_path, world))}
        assert not ids & {"heat0", "heat1"}


async def test_search_narrows_to_candidates(tmp_path: Path) -> None:
    world = World(retrieve=chosen())
    await RETRIEVERS["llm"](context(tmp_path, world, candidates=3))
    told = said(world.seen[0])
    assert sum(f"{id}: " in told for id in TASKS) == 3
    assert sum(f"heat{i}: " in told for i in range(6)) == 3


async def test_invented_repeated_and_surplus_ids_are_dropped_and_counted(tmp_path: Path) -> None:
    world = World(retrieve=chosen("heat9", "heat2", "heat2", "lamp1", "heat3", "lamp9"))
    given = context(tmp_path, world, take=2)
    found = await RETRIEVERS["llm"](given)
    assert [c.task_id for c in found] == ["heat2", "lamp1"]
    assert dict(given.counts) == {"invented": 2, "repeated": 1, "over_limit": 1}


async def test_choosing_none_is_an_answer(tmp_path: Path) -> None:
    given = context(tmp_path, World(retrieve=chosen()))
    assert await RETRIEVERS["llm"](given) == []
    assert not given.counts


async def test_no_candidates_means_no_question(tmp_path: Path) -> None:
    world = World(retrieve=chosen("heat2"))
    given = context(tmp_path, world, failed=list(TASKS.values()))
    assert await RETRIEVERS["llm"](given) == []
    assert world.seen == []
    assert given.counts["no_candidates"] == 1


@pytest.mark.parametrize("reply", ["no idea", Reply('{"chosen": [{"i', finish="length")])
async def test_an_unusable_reply_is_a_note(tmp_path: Path, reply: Any) -> None:
    given = context(tmp_path, World(retrieve=lambda _: reply))
    assert await RETRIEVERS["llm"](given) == []
    assert given.counts["unanswered"] == 1
    assert "missing_precondition" in given.notes[0]


async def test_errors_that_end_a_run_pass_and_others_do_not(tmp_path: Path) -> None:
    def failing(error: Exception) -> World:
        def rule(_: Request) -> str:
            raise error

        return World(retrieve=rule)

    for error in (FatalModelError("wrong key"), BudgetStop("cap")):
        with pytest.raises(type(error)):
            await RETRIEVERS["llm"](context(tmp_path, failing(error)))
    given = context(tmp_path, failing(TransientModelError("tired")))
    assert await RETRIEVERS["llm"](given) == []
    assert "tired" in given.notes[0]


@pytest.mark.parametrize("hybrid", [True, False])
async def test_vector_takes_the_nearest_without_asking(tmp_path: Path, hybrid: bool) -> None:
    world = World()
    found = await RETRIEVERS["vector"](context(tmp_path, world, hybrid, take=4))
    assert sorted(c.task_id for c in found) == ["heat2", "heat3", "heat4", "heat5"]
    assert "heat apple microwave" in found[0].reason
    assert world.seen == []


async def test_all_queries_of_a_mode_are_searched_once(tmp_path: Path) -> None:
    two = [diagnosis(FAILED[0]), diagnosis(FAILED[1])]
    found = await RETRIEVERS["vector"](context(tmp_path, World(), diagnoses=two))
    assert found[0].reason == "near the query 'heat apple microwave'"


async def test_random_is_the_same_number_seeded_and_ignores_the_failure(tmp_path: Path) -> None:
    world = World()
    draws = {}
    for round in range(40):
        found = await RETRIEVERS["random"](context(tmp_path, world, round=round))
        again = await RETRIEVERS["random"](context(tmp_path, world, round=round, candidates=1))
        assert found == again
        assert len({c.task_id for c in found}) == TAKE
        draws[round] = [c.task_id for c in found]
    assert len({tuple(d) for d in draws.values()}) > 30
    assert {id for d in draws.values() for id in d} == set(TASKS) - {"heat0", "heat1"}
    other_seed = await RETRIEVERS["random"](context(tmp_path, world, round=0, seed=1))
    assert [c.task_id for c in other_seed] != draws[0]
    few = context(tmp_path, world, failed=list(TASKS.values())[2:])
    assert {c.task_id for c in await RETRIEVERS["random"](few)} == {"heat0", "heat1"}
    assert world.seen == []


async def test_task_text_sees_goals_and_not_the_failure(tmp_path: Path) -> None:
    world = World(retrieve=chosen("heat4"))
    given = context(tmp_path, world, mode="secret_mode", candidates=4)
    found = await RETRIEVERS["task_text"](given)
    assert [c.task_id for c in found] == ["heat4"]
    told = said(world.seen[0])
    assert "put a hot apple 0 on the table" in told
    assert not any(word in told for word in ("secret_mode", "it was cold", "heat first", "microwave"))


async def test_none_chooses_nothing(tmp_path: Path) -> None:
    assert await RETRIEVERS["none"](context(tmp_path, World())) == []
