"""appworld against a scripted server: the protocol, one world a server, what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from roleagent_lite.envs import appworld, own, registry
from roleagent_lite.envs.appworld import AppWorld, code_of
from roleagent_lite.errors import ConfigError, EnvironmentFault
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Task
from tests.appworld_server import Scripted


@pytest.fixture
def server() -> Iterator[Scripted]:
    found = Scripted()
    yield found
    found.stop()


def made(name: str, id: str = "task_1", **params: Any) -> AppWorld:
    return cast(AppWorld, registry.make(Task("t", name, "g", params={"task_id": id, **params})))


def test_an_episode(server: Scripted) -> None:
    env = made(f"appworld:{server.url}")
    assert env.observe().text == (
        "Report seventeen.\n\nYour supervisor: Ada Byron, ada@mail.example, 1790. It is 2023-05-18T12:00:00."
    )
    moved = env.step("```python\nx = 17\nprint(x)\n```")
    assert (moved.observation.text, moved.valid, moved.done, moved.reward) == ("17", True, False, 0.0)
    failed = env.step("print(y)")
    assert failed.observation.text.startswith("Execution failed") and not failed.valid and not failed.done
    assert env.score() == 0.0
    ended = env.step("apis.supervisor.complete_task(answer=x)")
    assert (ended.done, ended.reward, env.score()) == (True, 1.0, 1.0)
    again = env.step("print(x)")
    assert (again.done, again.valid, again.reward) == (True, False, 0.0)
    env.close()
    assert server.calls == ["initialize", *["execute", "task_completed"] * 3, "evaluate"]


def test_a_wrong_answer_scores_the_share_of_tests(server: Scripted) -> None:
    env = made(f"appworld:{server.url}")
    ended = env.step("x = 3\napis.supervisor.complete_task(answer=x)")
    assert ended.done and env.score() == ended.reward == pytest.approx(2 / 3)
    env.close()


def test_all_tests_passed_without_success_is_not_solved() -> None:
    assert AppWorld._judged({"success": False, "passes": [1], "failures": []}) == 0.99
    assert AppWorld._judged({"success": False}) == 0.0
    assert AppWorld._judged({"success": True, "passes": [], "failures": []}) == 1.0


def test_episodes_that_share_a_server_do_not_disturb_each_other(server: Scripted) -> None:
    name = f"appworld:{server.url}"
    envs = [made(name, f"task_{number}") for number in (1, 2, 1, 3)]
    values = (17, 5, 4, 17)
    for env, value in zip(envs, values, strict=True):
        env.step(f"x = {value}")
    for env, value in zip(envs, values, strict=True):
        assert env.step("print(x)").observation.text == str(value)
    for env in reversed(envs):
        assert env.step("apis.supervisor.complete_task(answer=x)").done
    assert [env.score() for env in envs] == [1.0, 1.0, pytest.approx(2 / 3), 1.0]
    for env in envs:
        env.close()


def test_episodes_are_spread_over_the_servers(server: Scripted) -> None:
    other = Scripted()
    name = f"appworld:{server.url}/, {other.url}"
    one, two = made(name), made(name, "task_2")
    for env in (one, two):
        env.step("x = 5")
    assert server.calls == other.calls == ["initialize", "execute", "task_completed"]
    one.close()
    one.close()  # leaves once
    assert made(name, "task_3")._server.url == one._server.url
    assert [s.guests for s in appworld.servers(name)] == [1, 1]
    other.stop()


def test_a_server_that_is_not_there(server: Scripted) -> None:
    name = f"appworld:{server.url}"
    server.stop()
    with pytest.raises(EnvironmentFault, match=r"does not answer.*appworld serve environment"):
        made(name)
    assert [s.guests for s in appworld.servers(name)] == [0]


@pytest.mark.parametrize(
    ("broken", "said"), [('{"detail": "x"}', "answered .*, not an output"), ("[1]", "not an output")]
)
def test_another_kind_of_server(server: Scripted, broken: str, said: str) -> None:
    server.broken = broken
    with pytest.raises(EnvironmentFault, match=said):
        made(f"appworld:{server.url}")


def test_what_the_server_refuses_is_told(server: Scripted) -> None:
    with pytest.raises(EnvironmentFault, match=r"initialize failed \(500\)"):
        made(f"appworld:{server.url}", "task_9")


def test_a_restarted_server_is_a_fault_and_not_a_wrong_world(server: Scripted) -> None:
    env = made(f"appworld:{server.url}")
    server.world = None
    with pytest.raises(EnvironmentFault, match="The active task world is another one"):
        env.step("x = 1")
    env.close()


@pytest.mark.parametrize("id", [None, 3, ""])
def test_a_task_needs_its_id(id: Any) -> None:
    with pytest.raises(ConfigError, match=r"params\.task_id must be a text"):
        made("appworld", id)


def test_an_address_that_is_none() -> None:
    with pytest.raises(ConfigError, match="'localhost' is no address; write appworld:http://127"):
        made("appworld:localhost")


def test_the_default_address_and_what_the_registry_knows() -> None:
    assert [s.url for s in appworld.servers("appworld")] == ["http://127.0.0.1:8000"]
    spec = registry.spec("appworld")
    assert (spec.name, spec.blocking, spec.facts, spec.snapshots) == ("appworld", True, False, False)
    assert "complete_task" in spec.vocabulary
    task = Task("t", "appworld", "g", params={"task_id": "x", "max_steps": 7})
    assert (spec.max_steps(task), spec.max_steps(Task("t", "appworld", "g"))) == (7, 50)


def test_tasks_by_their_ids_alone(server: Scripted, tmp_path: Path) -> None:
    ids = tmp_path / "ids.jsonl"
    ids.write_text("".join(json.dumps({"task_id": f"task_{n}"}) + "\n" for n in (1, 2, 3)))
    tasks = load_tasks(own.write_tasks(f"appworld:{server.url}", tmp_path / "own.jsonl", str(ids)))
    assert (tasks[0].id, tasks[0].goal) == ("task_1", "Report seventeen.")
    assert [t.params["task_id"] for t in tasks] == ["task_1", "task_2", "task_3"]
    assert {t.split for t in tasks} == {"train", "dev", "test"}
    with pytest.raises(ConfigError, match="needs task_id, AppWorld's own; it has question"):
        appworld.row("appworld", {"question": "x"})
    with pytest.raises(ConfigError, match="needs task_id"):
        appworld.row("appworld", {"task_id": "../../etc"})
    assert appworld.row("appworld", {"goal": "g"}) == {"goal": "g"}


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("x = 1", "x = 1"),
        ("```python\nx = 1\ny = 2\n```", "x = 1\ny = 2"),
        ("```\nx = 1\n```", "x = 1"),
        ("  x = 1\nprint('```')", "x = 1\nprint('```')"),
    ],
)
def test_code_of_an_action(action: str, code: str) -> None:
    assert code_of(action) == code
