"""Field cases TSK on every world: a task file as people have it, read with the world's own rows and played.

The ids of tasks are made the same way in all worlds; what a world adds is its `params`, which it may refuse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite import jobs
from roleagent_lite.cli.tasks import check
from roleagent_lite.envs import own, registry
from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Task
from tests.cases import kit
from tests.cases.kit import text
from tests.cases.reader import PLANS
from tests.cases.worlds import asked, few
from tests.envs.worlds import World, every
from tests.fake_server import FakeServer, Say, always


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The world of the parameter, with the server that it needs."""
    found: World = request.param
    with found.serve():
        yield found


def row(task: Task, **more: Any) -> dict[str, Any]:
    return {**asdict(task), "params": dict(task.params), **more}


# --- TSK-01 ---


@pytest.mark.parametrize("world", every(), indirect=True)
def test_tsk_01_bom_crlf_blank_lines_and_no_newline_at_the_end(world: World, tmp_path: Path) -> None:
    tasks = few(world, 3)
    lines = [json.dumps(row(task), ensure_ascii=False) for task in tasks]
    file = tmp_path / "t.jsonl"
    content = f"\ufeff{lines[0]}\r\n\r\n{lines[1]}\r\n   \r\n\r\n{lines[2]}"
    file.write_bytes(content.encode("utf-8"))
    assert load_tasks(file, check=registry.check) == tasks
    # The same through --env NAME --tasks FILE, which fills in the environment.
    rows = own.rows_of(tasks[0].env, str(file))
    assert [one["goal"] for one in rows] == [task.goal for task in tasks]
    PLANS.clear()
    PLANS.update({task.id: world.plan(task) for task in tasks})
    given = {"model": "fake@http://127.0.0.1:9", "agent": "tests.cases.reader:read", "workers": 1}
    jobs.evaluate(given, tasks=file, run_dir=tmp_path / "run")
    played = kit.read(tmp_path / "run")
    assert [t.task for t in played.trajectories] == ["w1", "w2", "w3"]
    assert {kind for kind, _ in played.ends} == {"solved"}
    assert not any(mark in repr(played.trajectories) for mark in ("\ufeff", "\\ufeff"))


# --- TSK-03 ---

# Params that the world cannot play, and what its message has to name; a step limit that is none, everywhere.
BAD: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "household": ({"layout": {"start": 1, "room": 3}}, "layout.room"),
    "household:alfworld": ({"layout": {"start": 1, "room": 3}}, "layout.room"),
    "webshop": ({"goal": None}, "params needs goal"),
    "search": ({"answers": "Paris"}, "params.answers"),
    "shell": ({"type": "disk_ful"}, "did you mean 'disk_full'"),
    "tools": ({"entry": "multi_turn_base_999"}, "multi_turn_base_999"),
    "scienceworld": ({"task": "boyl"}, "did you mean 'boil'"),
    "textworld-express": ({"game": "coins"}, "did you mean 'coin'"),
    "appworld": ({"task_id": 3}, "params.task_id must be a text"),
    "gym:FrozenLake-v1": ({"kwargs": 3}, "params.kwargs must be an object"),
    "mcp:": ({"answers": "17"}, "params.answers must be a list of texts"),
}
# A user's class is not imported for this: what it refuses, it refuses where the episode begins.
FREE = {"tests.cellar:Cellar": "a user's own class reads its params itself, in its episode"}


@pytest.mark.parametrize("world", every(slow=False, without=FREE), indirect=True)
def test_tsk_03_what_a_world_cannot_play_is_told_with_its_line(world: World, tmp_path: Path) -> None:
    params, words = BAD[world.name]
    good, bad, lazy = few(world, 3)
    file = tmp_path / "t.jsonl"
    lines = [row(good), None, row(bad, params={**bad.params, **params}), None,
             row(lazy, params={**lazy.params, "max_steps": 0})]  # fmt: skip
    file.write_text("\n".join("" if one is None else json.dumps(one) for one in lines), encoding="utf-8")
    with FakeServer(always("{}")) as fake:
        with pytest.raises(ConfigError) as caught:
            jobs.evaluate({"model": f"fake@{fake.url}"}, tasks=file, run_dir=tmp_path / "run")
        assert fake.count == 0
    said = str(caught.value).splitlines()
    assert len(said) == 3 and str(file) in said[0] and not (tmp_path / "run").exists()
    assert said[1].startswith("  line 3: ") and words in said[1]
    assert said[2].startswith("  line 5: ") and "max_steps must be a positive" in said[2]
    with pytest.raises(ConfigError, match=re.escape(said[1].strip())):
        check(str(file), play=False)  # as `tasks check` does


# --- TSK-05 ---


@pytest.mark.parametrize("world", every(slow=False), indirect=True)
def test_tsk_05_ids_are_made_up_and_stay_and_none_stands_twice(world: World, tmp_path: Path) -> None:
    tasks = [replace(task, goal=f"{task.goal} ({n})") for n, task in enumerate(few(world, 3))]
    rows = [{k: v for k, v in row(task).items() if k != "id"} for task in tasks]
    file = tmp_path / "t.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    before = [task.id for task in load_tasks(file, check=registry.check)]
    file.write_text("\n".join(map(json.dumps, [{**rows[0], "seed": 77}, *rows])), encoding="utf-8")
    after = [task.id for task in load_tasks(file, check=registry.check)]
    assert after[1:] == before and len(set(after)) == 4
    named = [row(task, id="t1" if n != 1 else "t2") for n, task in enumerate(tasks)]
    file.write_text("\n\n".join(map(json.dumps, named)), encoding="utf-8")
    for read in (lambda: load_tasks(file), lambda: own.rows_of(tasks[0].env, str(file))):
        with pytest.raises(ConfigError, match=r"t\.jsonl: lines 1 and 5 have the same id 't1'"):
            read()


# --- TSK-07 ---

ODD = 'Return {"a": 1} and {task} {0} %s ${HOME} {{x}} {action} \\n'


@pytest.mark.parametrize("world", every(), indirect=True)
def test_tsk_07_braces_in_goal_and_move_arrive_as_they_are(world: World, tmp_path: Path) -> None:
    (task,) = few(world, 1, max_steps=1)
    task = replace(task, goal=f"{task.goal} {ODD}")
    move = "{a} {0} %s ${HOME} {task}"
    played, requests = asked(tmp_path, [task], lambda seen: Say(json.dumps({"action": move})))
    (seen,) = requests
    turns = [m["content"] for m in seen.body["messages"] if m["role"] == "user"]
    (step,) = played.trajectories[0].steps
    # Once where the goal stands, and where the world itself repeats it.
    assert "".join(turns).count(ODD) == 1 + step.observation.count(ODD)
    assert step.action == move and "KeyError" not in text(seen)
