"""draws: failures come again with their family, from training tasks alone, and a resume draws the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite.distill.draws import Draws
from roleagent_lite.distill.recipe import Online
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.types import Task
from tests.distill import make

TASKS = [Task(f"{kind}{k}", "toy", "Go", params={"type": kind}) for kind in "abc" for k in range(8)]


def test_a_failed_task_brings_its_family(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r")
    draws = Draws(run, TASKS, Online(tasks=3))
    assert len(draws.draw(1)) == 3 and {t.split for t in draws.draw(1)} == {"train"}
    played = [*make.group(run, "a0", [True, False]), *make.group(run, "b0", [True, True])]
    draws.learn(1, played)
    event = run.events.get("curriculum/1")
    assert event is not None
    chosen = [(c["task_id"], c["own"]) for c in event.data["chosen"]]
    assert chosen[0] == ("a0", True) and len(chosen) == 6
    assert all(id.startswith("a") and not own for id, own in chosen[1:])
    assert event.data["solved"] == ["b0"] and event.data["failures"] == 1 and event.data["diagnosed"] == 0
    drawn = run.events.get("round/1")
    assert drawn is not None and set(drawn.data["p"].values()) == {1 / 24}
    draws.draw(2)
    later = run.events.get("round/2")
    assert later is not None and later.data["p"]["a0"] > 1 / 24 > later.data["p"]["c0"]


def test_a_resume_draws_the_same(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r")
    first = Draws(run, TASKS, Online(tasks=4, seed=5))
    for round in (1, 2):
        drawn = [t.id for t in first.draw(round)]
        first.learn(round, [t for id in drawn for t in make.group(run, id, [False, True], round=round)])
    third = [t.id for t in first.draw(3)]
    second = Draws(run, TASKS, Online(tasks=4, seed=5))
    second.again(1)
    second.learn(2, [])  # answered from its event
    assert [t.id for t in second.draw(3)] == third
    with pytest.raises(RoleAgentError, match="lacks the event curriculum/3"):
        second.again(3)


def test_only_training_tasks(tmp_path: Path) -> None:
    with pytest.raises(RoleAgentError, match="'d' is not of split train"):
        Draws(make.new_run(tmp_path / "r"), [*TASKS, Task("d", "toy", "Go", split="dev")], Online())
