"""The library of failure modes and the catalogue it is searched for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from roleagent_lite.aiw.atlas import FIXED, TABLE, Atlas, fixed_modes
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.memory import Memory
from roleagent_lite.types import FailureMode, Trajectory
from tests.aiw.make import Hashing, diagnosis, episode, open_run, task

TASKS = {
    "heat": task("heat", "put a hot apple on the table"),
    "cool": task("cool", "put a cool apple on the shelf"),
    "clean": task("clean", "put a clean cup in the cabinet"),
    "lamp": task("lamp", "look at a book under the desklamp"),
}


def add(
    atlas: Atlas, trajectory: Trajectory, mode: str = "missing_precondition", lesson: str = "heat first"
) -> None:
    atlas.add(diagnosis(trajectory, mode, lesson), trajectory, TASKS[trajectory.task], trajectory.round)


def test_entries_are_organised_by_mode() -> None:
    atlas = Atlas(None)
    add(atlas, episode("heat", round=2), lesson="open the microwave")
    add(atlas, episode("heat", round=1), lesson="heat first")
    add(atlas, episode("cool", round=1))
    add(atlas, episode("clean", round=1), "navigation_loop", "do not go back")
    assert atlas.modes() == [
        FailureMode(
            "missing_precondition",
            "open the microwave",
            ("1/seed/cool#0", "1/seed/heat#0", "2/seed/heat#0"),
            1,
            2,
        ),
        FailureMode("navigation_loop", "do not go back", ("1/seed/clean#0",), 1, 1),
    ]
    assert atlas.tasks_of("missing_precondition") == ["cool", "heat"]
    assert [e.trajectory for e in atlas.entries("navigation_loop")] == ["1/seed/clean#0"]
    assert len(atlas.entries()) == 4


def test_the_same_episode_twice_changes_nothing() -> None:
    atlas = Atlas(None)
    add(atlas, episode("heat"))
    before = atlas.modes()
    add(atlas, episode("heat"))
    assert atlas.modes() == before


def test_modes_with_equal_evidence_are_ordered_by_name() -> None:
    atlas = Atlas(None)
    for mode, where in (("b", "heat"), ("c", "cool"), ("a", "clean")):
        add(atlas, episode(where), mode)
    assert [m.name for m in atlas.modes()] == ["a", "b", "c"]


def test_fixed_and_reopened() -> None:
    atlas = Atlas(None)
    add(atlas, episode("heat", round=1))
    atlas.mark_fixed("missing_precondition", "child1", 1)
    assert atlas.modes()[0].fixed_by == "child1"
    assert atlas.reopened("missing_precondition") == []
    add(atlas, episode("cool", round=3))
    add(atlas, episode("cool", 1, round=4))
    assert atlas.modes()[0].fixed_by is None
    assert atlas.reopened("missing_precondition") == [3]
    atlas.mark_fixed("missing_precondition", "child4", 4)
    atlas.mark_fixed("missing_precondition", "child4", 4)
    assert atlas.modes()[0].fixed_by == "child4"
    assert atlas.modes()[0].last_seen == 4
    with pytest.raises(RoleAgentError, match="no failure mode 'missing_precondtion'; did you mean"):
        atlas.mark_fixed("missing_precondtion", "child", 5)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_dev_and_test_never_enter(split: str, tmp_path: Path) -> None:
    atlas = Atlas(Memory(tmp_path / "m"))
    bad = replace(episode("heat"), split=split)  # type: ignore[arg-type]
    with pytest.raises(RoleAgentError, match="never enter the atlas"):
        atlas.add(diagnosis(bad), bad, TASKS["heat"], 1)
    bad_task = replace(TASKS["heat"], split=split)  # type: ignore[arg-type]
    with pytest.raises(RoleAgentError, match="never enter the atlas"):
        atlas.add(diagnosis(episode("heat")), episode("heat"), bad_task, 1)
    with pytest.raises(RoleAgentError, match="holds train only"):
        atlas.index_tasks([TASKS["cool"], bad_task])
    assert atlas.modes() == []
    assert atlas.search("apple", 5) == []


def test_what_does_not_belong_together_is_refused() -> None:
    atlas = Atlas(None)
    with pytest.raises(RoleAgentError, match="do not belong together"):
        atlas.add(diagnosis(episode("heat")), episode("cool"), TASKS["cool"], 1)
    with pytest.raises(RoleAgentError, match="do not belong together"):
        atlas.add(diagnosis(episode("heat")), episode("heat"), TASKS["cool"], 1)


@pytest.mark.parametrize("hybrid", [False, True])
def test_the_catalogue_holds_one_row_a_task_with_its_reflections(tmp_path: Path, hybrid: bool) -> None:
    memory = Memory(tmp_path / "m", Hashing() if hybrid else None)
    atlas = Atlas(memory)
    for number in range(5):
        add(atlas, episode("lamp", number, round=number), f"mode{number}", f"lesson {number}")
    add(atlas, episode("lamp", 9, round=4), "mode4", "lesson 4")
    atlas.index_tasks(TASKS.values())
    assert memory.count(TABLE) == 4
    row = memory.get(TABLE, "lamp")
    assert row is not None
    assert row.text.splitlines() == [
        TASKS["lamp"].goal,
        "mode4: lesson 4",
        "mode3: lesson 3",
        "mode2: lesson 2",
    ]
    assert row.columns == {"env": "household", "failures": 6}
    assert row.data["modes"] == [f"mode{i}" for i in range(5)]
    hits = atlas.search("apple cool", 3)
    assert hits[0].item.id == "cool"
    assert "cool" not in {h.item.id for h in atlas.search("apple cool", 3, exclude={"cool"})}
    assert "lamp" in {h.item.id for h in atlas.search("lesson 3", 2)}


def test_the_catalogue_is_written_afresh(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m")
    atlas = Atlas(memory)
    atlas.index_tasks(TASKS.values())
    atlas.index_tasks([TASKS["lamp"]])
    assert [i.id for i in memory.all(TABLE)] == ["lamp"]


def test_only_new_reflections_are_embedded(tmp_path: Path) -> None:
    embedder = Hashing()
    atlas = Atlas(Memory(tmp_path / "m", embedder))
    atlas.index_tasks(TASKS.values())
    add(atlas, episode("heat"))
    atlas.index_tasks(TASKS.values())
    assert len(embedder.texts) == 5
    assert "heat first" in embedder.texts[-1]


def test_without_a_store_nothing_can_be_indexed() -> None:
    with pytest.raises(RoleAgentError, match="for reading only"):
        Atlas(None).index_tasks(TASKS.values())
    assert Atlas(None).search("x", 3) == []


def test_from_run_tells_the_same_as_the_loop_did(tmp_path: Path) -> None:
    atlas = Atlas(None)
    with open_run(tmp_path) as run:
        for one in TASKS.values():
            run.tasks.put(one)
        for trajectory in (episode("heat", round=1), episode("cool", round=2), episode("clean", round=1)):
            mode = "navigation_loop" if trajectory.task == "clean" else "missing_precondition"
            run.trajectories.put(trajectory)
            run.diagnoses.put(diagnosis(trajectory, mode))
            add(atlas, trajectory, mode)
        atlas.mark_fixed("navigation_loop", "child", 1)
        data = {"mode": "navigation_loop", "prompt_set": "child", "round": 1}
        run.record(f"{FIXED}/1/navigation_loop", FIXED, data)
        run.record("fixed/9/gone", FIXED, {"mode": "gone", "prompt_set": "child", "round": 9})
        read = Atlas.from_run(run)
    assert read.modes() == atlas.modes()
    assert read.modes()[1].fixed_by == "child"
    assert read.entries() == atlas.entries()


def test_fixed_modes_needs_every_episode_of_its_tasks_solved() -> None:
    atlas = Atlas(None)
    add(atlas, episode("heat"))
    add(atlas, episode("cool"))
    add(atlas, episode("clean"), "navigation_loop")

    def after(*kinds: str) -> list[str]:
        played = [
            episode("heat" if i < 2 else "cool", i, kind=kind, prompt_set="child")  # type: ignore[arg-type]
            for i, kind in enumerate(kinds)
        ]
        return fixed_modes(atlas, played)

    assert after("solved", "solved", "solved") == ["missing_precondition"]
    assert after("solved") == ["missing_precondition"]
    assert after("solved", "infrastructure_error") == ["missing_precondition"]
    assert after("solved", "failed") == []
    assert after("solved", "cut_off") == []
    assert after("infrastructure_error") == []
    assert after() == []
    atlas.mark_fixed("missing_precondition", "child", 1)
    assert after("solved") == []
