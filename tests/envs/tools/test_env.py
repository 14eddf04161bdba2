"""tools as an Environment: turns, refusals, the functions told of later, equal episodes, going back."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any, cast

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.envs.checker import check
from roleagent_lite.envs.tools import data
from roleagent_lite.envs.tools.env import MOST_SHOWN, Tools, _cut
from roleagent_lite.errors import ConfigError
from roleagent_lite.redact import clean
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Observation, Task
from tests.envs.tools.here import needs_bfcl

TASKS = {task.id: task for task in load_tasks("tools")}
BASE = "multi_turn_base_0"


def made(id: str = BASE) -> Tools:
    return cast(Tools, registry.make(TASKS[id]))


def play(env: Tools, actions: list[str]) -> list[Any]:
    return [env.step(action) for action in actions]


@needs_bfcl
def test_the_checker_finds_nothing() -> None:
    spec = registry.spec("tools")
    for variant in data.VARIANTS:
        one, other = (TASKS[f"multi_turn_{variant}_{n}"] for n in (0, 150))
        assert check(spec.make, one, other=other) == []
    assert (spec.facts, spec.snapshots, spec.history) == (True, True, 10)


@needs_bfcl
def test_what_is_shown() -> None:
    env = made()
    first = env.observe()
    message = data.entry(BASE).messages[0]
    assert first.text == f"User: {message}" and first.open
    assert first.admissible[-1] == "done" and first.admissible[0].startswith("authenticate_twitter(")
    assert len(first.admissible) == len(data.functions(data.entry(BASE).classes)) + 1
    came = env.step("[cd(folder='document'), ls()]")
    assert came.observation.text == (
        f"User: {message}\n"
        'cd -> {"current_working_directory": "document"}\n'
        'ls -> {"current_directory_content": ["final_report.pdf", "previous_report.pdf"]}'
    )
    assert (came.reward, came.done, came.valid) == (0.0, False, True)
    assert _cut("x" * (MOST_SHOWN + 5)) == "x" * (MOST_SHOWN - 1) + "…"


@needs_bfcl
def test_what_is_no_call_changes_nothing() -> None:
    env = made()
    before = (env.observe().state_key, env.facts())
    for action in (
        "I will look.",
        "rm_rf()",
        "ls(); nothing()",
        "fs.ls()",
        "ls",
        "ls(); done",
        "send(*x)",
        "",
    ):
        came = env.step(action)
        assert (came.valid, came.done, came.reward) == (False, False, 0.0)
        assert (
            came.observation.text.startswith("User: ") and "\nNothing was called: " in came.observation.text
        )
    assert (env.observe().state_key, env.facts()) == before
    assert "did you mean 'ls'" in env.step("lss()").observation.text


@needs_bfcl
def test_turn_by_turn_to_full_marks() -> None:
    env = made()
    plan = env.walkthrough()
    assert plan[1::2] == ["done"] * 4
    came = play(env, plan)
    assert [one.reward for one in came] == [0.0, 0.25] * 4
    assert [one.done for one in came] == [False] * 7 + [True]
    assert came[1].observation.text == f"User: {data.entry(BASE).messages[1]}"
    assert came[-1].observation == Observation(
        "All requests are served.", (), came[-1].observation.state_key, open=True
    )
    after = env.step("ls()")
    assert (after.valid, after.done, after.reward, env.score()) == (False, True, 0.0, 1.0)


@needs_bfcl
@pytest.mark.parametrize(
    ("last", "said"),
    [
        (["done"], "nothing was called"),
        (["pwd()", "done"], "1 of 2 answers that were needed never came"),
        (["rm('temp')", "done"], "GorillaFileSystem is not as it should be: root"),
    ],
)
def test_the_first_turn_that_does_not_pass_ends_it(last: list[str], said: str) -> None:
    env = made()
    play(env, env.walkthrough()[:2])
    if "answers" in said:
        play(env, ["cd('temp')"])
    came = play(env, last)[-1]
    assert (came.done, came.reward, env.score()) == (True, 0.0, 0.25)
    assert came.observation.text == f"The request was not served: {said}."
    assert came.observation.admissible == ()


@needs_bfcl
def test_a_function_is_told_of_when_it_is_added() -> None:
    id = "multi_turn_miss_func_0"
    assert data.entry(id).added == {3: ("sort",)}
    env = made(id)

    def told() -> set[str]:
        return {action.partition("(")[0] for action in env.observe().admissible}

    plan = env.walkthrough()
    assert plan[4:6] == ["done", "sort('final_report.pdf')"]  # nothing can be done in the third turn
    for action in plan[:4]:
        env.step(action)
        assert "sort" not in told() and "grep" in told()
    came = env.step(plan[4])
    assert came.reward == 0.0 and not came.done
    assert came.observation.text == "User: I have added what you can use: sort. Can you do it now?"
    assert "sort" in told()
    assert env.step("sort('final_report.pdf')").valid


@needs_bfcl
def test_a_function_that_is_not_told_of_yet_works_as_in_the_original() -> None:
    env = made("multi_turn_miss_func_49")  # whose own plan makes such a call
    assert "tail" in str(data.entry("multi_turn_miss_func_49").added)
    assert all(one.valid for one in play(env, env.walkthrough())) and env.score() == 1.0


@needs_bfcl
def test_state_and_going_back() -> None:
    env = made()
    plan = env.walkthrough()
    play(env, plan[:3])
    kept, seen, facts = env.snapshot(), env.observe(), env.facts()
    assert "turns passed: 1" in facts and "GorillaFileSystem stands in: /workspace/document/temp" in facts
    for _ in range(2):  # the same snapshot twice
        came = play(env, plan[3:])
        assert env.score() == 1.0 and came[-1].done
        env.restore(kept)
        assert (env.observe(), env.facts(), env.score()) == (seen, facts, 0.25)
    assert env.step("rm('final_report.pdf')").observation.state_key != seen.state_key
    env.restore(kept)
    other = made()
    play(other, plan[:2])
    assert other.observe().state_key != seen.state_key
    play(other, plan[2].split("; "))
    assert other.observe().state_key == seen.state_key  # one by one or at once


@needs_bfcl
def test_a_state_that_cannot_be_compared_ends_the_episode() -> None:
    env = made()
    for _ in range(3):
        came = env.step("; ".join(["mkdir('a')", "cd('a')"] * 20))
    assert came.done and came.observation.text.startswith("The conversation ends: nobody can compare")
    assert env.facts() == ["turns passed: 0"] and env.observe().state_key == "too deep"
    assert env.score() == 0.0


@needs_bfcl
def test_folders_that_grow_like_powers_of_two_end_it_too() -> None:
    env = made()
    calls = ["mkdir('a0')"]
    for level in range(30):
        calls += [f"cp('a{level}', 'b')", f"mkdir('a{level + 1}')"]
        calls += [f"mv('{name}', 'a{level + 1}')" for name in (f"a{level}", "b")]
    for begin in range(0, len(calls), 40):
        came = env.step("; ".join([*calls[begin : begin + 40], "find()"]))
        if came.done:
            break
    assert came.done and begin < 80 and came.observation.text.startswith("The conversation ends: nobody can")


@needs_bfcl
def test_long_actions_show_every_answer() -> None:
    env = made()
    text = env.step("; ".join(f"echo('{n}')" for n in range(20))).observation.text
    assert text.splitlines()[1:] == [f'echo -> {{"terminal_output": "{n}"}}' for n in range(20)]
    assert "terminal_output" not in env.step("pwd()").observation.text


def _trace(id: str, seed: int) -> list[Any]:
    """A seeded mixture of true calls, calls at random and `done`."""
    env, rng = made(id), random.Random(seed)
    plan = env.walkthrough()
    found: list[Any] = []
    for action in plan:
        found.append((env.observe(), env.facts()))
        found.append(env.step(action if rng.random() < 0.8 else rng.choice(env.observe().admissible)))
        if found[-1].done:
            break
    return found


@needs_bfcl
def test_the_same_episode_in_two_processes() -> None:
    code = (
        "import sys, hashlib\n"
        "from tests.envs.tools.test_env import _trace\n"
        "print(hashlib.sha256(repr([_trace(i, 5) for i in sys.argv[1:]]).encode()).hexdigest())\n"
    )
    ids = [f"multi_turn_{variant}_{n}" for variant in data.VARIANTS for n in (11, 69, 130, 161)]
    found = {
        subprocess.run(
            [sys.executable, "-c", code, *ids],
            capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone},
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }  # fmt: skip
    assert len(found) == 1 and len(found.pop()) == 65


@needs_bfcl
def test_nothing_that_is_needed_is_taken_for_a_key() -> None:
    for task in list(TASKS.values())[::3]:
        env = made(task.id)
        for action in env.walkthrough():
            assert clean(action) == action and clean(env.observe().text) == env.observe().text, task.id
            env.step(action)


@needs_bfcl
@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "params.entry must be the id of a BFCL entry, found None"),
        ({"entry": 3}, "params.entry must be the id of a BFCL entry, found 3"),
        ({"entry": "multi_turn_base_999"}, "BFCL has no multi-turn entry 'multi_turn_base_999'"),
    ],
)
def test_what_is_wrong_with_a_task(params: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.make(Task("t", "tools", "g", 0, params))
    assert said in str(caught.value)


def test_how_many_steps() -> None:
    limit = registry.spec("tools").max_steps
    given: tuple[dict[str, Any], ...] = ({}, {"turns": 4}, {"turns": 4, "max_steps": 7})
    assert [limit(Task("t", "tools", "g", 0, params)) for params in given] == [40, 32, 7]
    for params in ({"turns": 0}, {"max_steps": "3"}, {"turns": True}):
        with pytest.raises(
            ConfigError, match=rf"params\.{next(iter(params))} must be a positive whole number"
        ):
            limit(Task("t", "tools", "g", 0, params))
