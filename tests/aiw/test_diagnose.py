"""Which failures are read, how replies become Diagnosis rows, and what a failed ask leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.aiw.diagnose import DIAGNOSERS, diagnose_all, failures, from_values, guard
from roleagent_lite.aiw.vocabulary import Vocabulary, load_vocabulary
from roleagent_lite.errors import BudgetStop, FatalModelError, RoleAgentError, TransientModelError
from roleagent_lite.store import Run
from roleagent_lite.types import Diagnosis, Progress, Reply, Request, Trajectory
from tests.aiw.make import World, diagnosed, episode, open_run, said, task

TASKS = {i: task(i) for i in ("a", "b", "c")}
HOUSEHOLD = {"household": load_vocabulary("household")}


async def read(world: World, episodes: list[Trajectory], run: Run, **more: Any) -> list[Diagnosis]:
    for trajectory in episodes:
        run.trajectories.put(trajectory)
    more = {"round": 1, "workers": 3, **more}
    return await diagnose_all(world.asker(), None, episodes, TASKS, HOUSEHOLD, run=run, **more)


async def test_failed_episodes_get_a_diagnosis_each_in_order(tmp_path: Path) -> None:
    world = World(diagnose=diagnosed())
    episodes = [episode("b"), episode("a", kind="solved"), episode("a", 1, kind="bad_format"), episode("c")]
    with open_run(tmp_path) as run:
        found = await read(world, episodes, run)
        assert [d.trajectory for d in found] == [episodes[0].id, episodes[2].id, episodes[3].id]
        assert found[0] == Diagnosis(
            episodes[0].id, "missing_precondition", "It was cold.", 2, "Heat first.", "heat apple"
        )
        assert {d.trajectory for d in run.diagnoses} == {d.trajectory for d in found}


async def test_the_request_shows_task_episode_outcome_and_modes(tmp_path: Path) -> None:
    world = World(diagnose=diagnosed())
    with open_run(tmp_path) as run:
        await read(world, [episode("a", actions=("look", "open fridge 1"))], run)
    request = world.seen[0]
    assert (request.role, request.temperature, request.sample) == ("world", 0.5, "1/seed/a#0")
    told = said(request)
    assert "put a hot apple on the table" in told
    assert "2. open fridge 1 -> after open fridge 1" in told
    assert "failed (step_limit)" in told
    assert "- navigation_loop: " in told


async def test_cut_off_and_broken_episodes_teach_nothing(tmp_path: Path) -> None:
    world = World(diagnose=diagnosed())
    episodes = [episode("a", kind="cut_off", reason="context"), episode("b", kind="infrastructure_error")]
    with open_run(tmp_path) as run:
        assert await read(world, episodes, run) == []
    assert world.seen == []


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("name", sorted(DIAGNOSERS))
async def test_episodes_of_dev_and_test_never_enter(tmp_path: Path, split: Any, name: str) -> None:
    bad = episode("a", split=split)
    world = World(diagnose=diagnosed())
    with open_run(tmp_path) as run:
        for given, tasks in (
            ([episode("b"), bad], TASKS),
            ([episode("a")], {"a": task("a", split=split)}),
            ([episode("b"), episode("a", kind="solved", split=split)], TASKS),
        ):
            with pytest.raises(RoleAgentError, match="dev and test never enter the atlas"):
                await DIAGNOSERS[name](
                    world.asker(), None, given, tasks, HOUSEHOLD, run=run, workers=1, round=1
                )
        assert len(run.diagnoses) == 0
    assert world.seen == []


def test_guard_names_an_unknown_task() -> None:
    with pytest.raises(RoleAgentError, match="'zz', which is unknown"):
        guard([episode("zz")], TASKS)


async def test_equal_actions_of_one_task_and_prompt_set_share_a_diagnosis(tmp_path: Path) -> None:
    world = World(diagnose=diagnosed())
    episodes = [
        episode("a", 0, ("look", "wait")),
        episode("a", 1, ("look", "wait")),
        episode("a", 2, ("look", "look")),
        episode("b", 0, ("look", "wait")),
        episode("a", 3, ("look", "wait"), prompt_set="child"),
    ]
    with open_run(tmp_path) as run:
        found = await read(world, episodes, run)
        again = await read(World(), [episode("a", 0, ("look", "wait"), round=2)], run, round=2)
    assert len(world.seen) == 4
    assert [d.shared_from for d in found] == [None, episodes[0].id, None, None, None]
    assert found[1].lesson == found[0].lesson
    assert [(d.trajectory, d.shared_from) for d in again] == [("2/seed/a#0", episodes[0].id)]


async def test_finished_ones_are_reused_and_not_asked_again(tmp_path: Path) -> None:
    world = World(diagnose=diagnosed())
    episodes = [episode("a"), episode("b"), episode("b", 1)]
    with open_run(tmp_path) as run:
        await read(world, episodes[:1], run)
        first = await read(world, episodes, run)
        assert len(world.seen) == 2
        assert await read(World(), episodes, run) == first
    with open_run(tmp_path) as run:
        assert await read(World(), episodes, run) == first


async def test_a_resumed_round_does_not_see_what_later_rounds_read(tmp_path: Path) -> None:
    """Round 1's ask failed, round 2's did not; round 1 once more must not borrow from round 2."""
    world = World(diagnose="no use")
    early, late = episode("a"), episode("a", round=2)
    with open_run(tmp_path) as run:
        assert await read(world, [early], run) == []
        assert len(await read(World(diagnose=diagnosed()), [late], run, round=2)) == 1
        assert await read(world, [early], run) == []
        assert run.diagnoses.keys() == [late.id]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("certainly!", "bad_format"),
        (Reply("", finish="content_filter"), "filtered"),
        (Reply('{"mode": "x", "det', finish="length"), "max_tokens"),
        (TransientModelError("the server is tired"), "tired"),
    ],
)
async def test_a_failed_ask_is_a_note_and_no_crash(tmp_path: Path, rule: Any, why: str) -> None:
    def answer(request: Request) -> str | Reply:
        if "1/seed/a#0" not in request.sample:
            return diagnosed()
        if isinstance(rule, Exception):
            raise rule
        return Reply(rule) if isinstance(rule, str) else rule

    told: list[Progress] = []
    episodes = [episode("a"), episode("a", 1), episode("b")]
    with open_run(tmp_path) as run:
        found = await read(World(diagnose=answer), episodes, run, listener=told.append)
        assert [d.trajectory for d in found] == [episodes[2].id]
        note = run.events.get(f"undiagnosed/{episodes[0].id}")
        assert note is not None
        assert why in note.data["text"]  # where the report reads it
        assert await read(World(), episodes, run) == found  # nothing is asked a second time
    assert sorted(p.done for p in told) == [1, 2]
    assert {p.total for p in told} == {2}
    assert any(why in p.note for p in told)


@pytest.mark.parametrize("error", [BudgetStop("cap reached"), FatalModelError("wrong key")])
async def test_what_ends_a_run_passes_and_keeps_what_is_finished(tmp_path: Path, error: Exception) -> None:
    started = asyncio.Event()

    def answer(request: Request) -> Any:
        if request.sample.endswith("a#0"):
            return diagnosed()

        async def later() -> str:
            started.set()
            if request.sample.endswith("b#0"):
                raise error
            await asyncio.sleep(60)
            return diagnosed()

        return later()

    with open_run(tmp_path) as run:
        with pytest.raises(type(error)):
            await read(World(diagnose=answer), [episode("a"), episode("b"), episode("c")], run)
        assert run.diagnoses.keys() == [episode("a").id]
    assert started.is_set()
    assert len(asyncio.all_tasks()) == 1


async def test_no_more_than_workers_asks_at_once(tmp_path: Path) -> None:
    running, most = 0, 0

    def answer(request: Request) -> Any:
        async def slow() -> str:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.005)
            running -= 1
            return diagnosed()

        return slow()

    with open_run(tmp_path) as run:
        found = await read(World(diagnose=answer), [episode("a", i, (f"act {i}",)) for i in range(9)], run)
    assert len(found) == 9
    assert most == 3


async def test_an_environment_without_vocabulary_gets_the_general_one(tmp_path: Path) -> None:
    world = World(diagnose=diagnosed("premature answer"))
    with open_run(tmp_path) as run:
        run.trajectories.put(episode("a"))
        found = await diagnose_all(
            world.asker(), None, [episode("a")], TASKS, {}, run=run, workers=1, round=1
        )
    assert found[0].mode == "premature_answer"


async def test_none_reads_nothing(tmp_path: Path) -> None:
    world = World()
    with open_run(tmp_path) as run:
        none: Callable[..., Any] = DIAGNOSERS["none"]
        assert (
            await none(world.asker(), None, [episode("a")], TASKS, HOUSEHOLD, run=run, workers=1, round=1)
            == []
        )


@pytest.mark.parametrize(
    ("said_step", "step"), [(1, 1), (2, 2), (9, 2), (0, 0), (-3, 0), (None, 0), ("two", 0)]
)
def test_critical_step_is_one_of_the_episode_or_0(said_step: Any, step: int) -> None:
    values = {"mode": "x", "detail": "d", "lesson": "l", "query": "q", "critical_step": said_step}
    assert from_values(episode("a"), values, Vocabulary("v", {"x": "y"})).critical_step == step


def test_empty_fields_have_a_meaning() -> None:
    found = from_values(episode("a"), {"mode": None, "detail": "a  cold\napple"}, Vocabulary("v", {"x": "y"}))
    assert found == Diagnosis(episode("a").id, "other", "a cold apple", 0, "", "a cold apple")


def test_failures_keeps_the_order() -> None:
    episodes = [episode("c"), episode("a", kind="solved"), episode("b", kind="bad_format")]
    assert failures(episodes) == [episodes[0], episodes[2]]
