"""Field cases in this world, played through the whole product against the fake server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite import jobs
from roleagent_lite.envs import registry
from roleagent_lite.stage import STOP_AFTER
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Trajectory
from tests.cases import kit
from tests.cases.kit import text
from tests.envs.tools.here import needs_bfcl
from tests.fake_server import FakeServer, Say, Script, Seen, always

pytestmark = needs_bfcl
BASE, LATER = "multi_turn_base_0", "multi_turn_miss_func_0"


def say(action: str) -> str:
    return json.dumps({"action": action})


def plan(id: str) -> list[str]:
    (task,) = [task for task in load_tasks("tools") if task.id == id]
    return registry.make(task).walkthrough()  # type: ignore[attr-defined, no-any-return]


def played(script: Script, folder: Path, id: str = BASE, **params: Any) -> tuple[Trajectory, list[Seen]]:
    folder.mkdir(exist_ok=True)
    row = {"id": id, "env": "tools", "goal": "Serve the user.", "params": {"entry": id, "turns": 5, **params}}
    file = folder / "t.jsonl"
    file.write_text(json.dumps({**row, "split": "test"}) + "\n", encoding="utf-8")
    with FakeServer(script) as fake:
        jobs.evaluate({"model": f"fake@{fake.url}"}, tasks=file, run_dir=folder / "run")
        requests = list(fake.requests)
    (trajectory,) = kit.read(folder / "run").trajectories
    return trajectory, requests


def test_the_plan_through_the_product(tmp_path: Path) -> None:
    moves = plan(LATER)
    found, requests = played(lambda seen: Say(say(moves[seen.number])), tmp_path, LATER)
    assert (found.outcome.kind, found.score) == ("solved", 1.0)
    assert [step.action for step in found.steps] == moves and all(step.valid for step in found.steps)
    assert "cd(folder='FOLDER')  # Change the current" in text(requests[0])
    assert "or: the functions named here with arguments of your own" in text(requests[0])
    told = ["sort(file_name='FILE_NAME')" in text(seen) for seen in requests]
    assert told == [n > 4 for n in range(len(moves))]  # from the turn on in which it is added


def test_env_01_the_same_call_for_ever_ends(tmp_path: Path) -> None:
    found, requests = played(always(say("ls()")), tmp_path)
    assert (found.outcome.kind, found.outcome.reason) == ("failed", "loop")
    assert len(requests) == STOP_AFTER + 1  # the first one made the turn one with a call in it
    assert "without effect" in text(requests[-1])


@pytest.mark.parametrize(
    "said",
    [
        "`cd(folder='document')`",
        "Action: cd(folder='document')",
        "> cd(folder='document')",
        "cd(folder='document')\nObservation: you are there",
        "<action>cd(folder='document')</action>",
        "[cd(folder='document')]",
    ],
)
def test_env_03_a_good_call_in_other_clothes(said: str, tmp_path: Path) -> None:
    def script(seen: Seen) -> Say:
        return Say(say(said if seen.number == 0 else "done"))

    found, _ = played(script, tmp_path)
    assert found.steps[0].valid and "cd -> {" in found.steps[0].outcome
    assert found.steps[0].action.strip("[]") == "cd(folder='document')"


def test_env_06_never_a_call_stops_at_the_limit(tmp_path: Path) -> None:
    found, requests = played(lambda seen: Say(say(f"I try {seen.number}")), tmp_path, max_steps=8)
    assert (found.outcome.kind, found.outcome.reason, found.score) == ("failed", "step_limit", 0.0)
    assert len(requests) == len(found.steps) == 8 and not any(step.valid for step in found.steps)
    assert "is not admissible here" in text(requests[-1])


def test_env_08_the_same_task_is_the_same_episode(tmp_path: Path) -> None:
    moves = [*plan(BASE)[:5], "touch('x')", "done"]
    script: Script = lambda seen: Say(say(moves[seen.number]))  # noqa: E731
    one, other = (played(script, tmp_path / str(n))[0] for n in range(2))
    first, second = ([replace(step, call_ids=()) for step in found.steps] for found in (one, other))
    assert first == second and one.outcome == other.outcome and one.score == 0.5
    assert all(step.state_key for step in one.steps)


def test_tsk_07_braces_and_quotes_arrive_as_they_are(tmp_path: Path) -> None:
    odd = "echo(content='{\"a\": {0} %s ${HOME} {task}')"
    found, requests = played(lambda seen: Say(say(odd if seen.number == 0 else "done")), tmp_path)
    assert found.steps[0].action == odd and found.steps[0].valid
    assert '{\\"a\\": {0} %s ${HOME} {task}' in found.steps[0].outcome
    assert "{0} %s ${HOME} {task}" in text(requests[1])
