"""What tests that go over all worlds share: a table of them, how each is played, and why one is left out.

Owns the tasks, plans, random players and traces. A world whose package, Java or data is missing is skipped
with the product's own words (`registry`'s `ready`). Run as a program (`python -m tests.envs.worlds NAME...`)
it prints a digest of traces of each world, for a comparison between processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.tasksets import choose, load_tasks
from roleagent_lite.types import Environment, Observation, Task, Transition
from tests.appworld_server import ANSWERS, Scripted

Plan = Callable[[Task], list[str]]
Tasks = Callable[[int], Sequence[Task]]


def _own_plan(task: Task) -> list[str]:
    """The world's own oracle or gold path."""
    env = registry.make(task)
    try:
        return list(env.walkthrough())  # type: ignore[attr-defined]
    finally:
        env.close()


def _shipped(name: str, env: str | None = None) -> Tasks:
    def tasks(count: int) -> Sequence[Task]:
        found = choose(load_tasks(name), count)
        return [task if env is None else replace(task, env=env) for task in found]

    return tasks


@dataclass(frozen=True)
class World:
    """One world. tasks(count): so many, or as many as there are; idle: an action without effect; plan: what
    wins a task; words: what a random player says where nothing is listed; slow: an episode takes seconds;
    serve: opens what it needs (a server)."""

    name: str
    tasks: Tasks
    idle: str
    plan: Plan = _own_plan
    words: tuple[str, ...] = ()
    slow: bool = False
    serve: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext

    @property
    def lacking(self) -> str:
        """Why it cannot be played on this machine, in the product's words; "" where it can."""
        try:
            look = registry.spec(self.name).ready
            if look is not None and self.serve is contextlib.nullcontext:
                look()
        except RoleAgentError as error:
            return str(error)
        return ""


# --- worlds that need more than a name ---

BRIEF = ("find-animal", "find-plant", "find-living-thing", "find-non-living-thing", "lifespan-longest-lived",
         "lifespan-shortest-lived")  # fmt: skip


def _science(count: int) -> Sequence[Task]:
    """First those whose gold path is short, with animals that walk by chance among them."""
    found = sorted(
        load_tasks("scienceworld"), key=lambda t: (t.split != "test", t.params["task"] not in BRIEF)
    )
    return found[:count]


_server: list[Scripted] = []


@contextlib.contextmanager
def _appworld() -> Iterator[None]:
    _server.append(Scripted())
    try:
        yield
    finally:
        _server.pop().stop()


def _appworld_tasks(count: int) -> Sequence[Task]:
    env = f"appworld:{_server[-1].url}"
    ids = list(ANSWERS)
    return [
        Task(f"a{n}", env, "Report a number.", n, {"task_id": ids[n % len(ids)]}, "test")
        for n in range(count)
    ]


def _appworld_plan(task: Task) -> list[str]:
    answer = ANSWERS[task.params["task_id"]]
    return [f"x = {answer}", "print(x)", "apis.supervisor.complete_task(answer=x)"]


_mcp_name: list[str] = []
_CALL = 'lookup({"name": "%s"})'


@contextlib.contextmanager
def _mcp() -> Iterator[None]:
    """A server on this computer, in a thread."""
    pytest.importorskip("mcp", reason="environments mcp: need the package: pip install 'roleagent-lite[mcp]'")
    import socket
    import time

    import uvicorn

    from tests.tool_server import app

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app(), host="127.0.0.1", port=port, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    _mcp_name.append(f"mcp:http://127.0.0.1:{port}/mcp")
    try:
        yield
    finally:
        _mcp_name.pop()
        server.should_exit = True
        thread.join(20)


def _mcp_tasks(count: int) -> Sequence[Task]:
    people = {"Ada": "17", "Bob": "23"}
    return [
        Task(
            f"m{n}", _mcp_name[-1], f"What is the number of {who}?", n,
            {"answers": [people[who]], "calls": [_CALL % who], "tools": ["lookup"]}, "test",
        )
        for n, who in ((n, list(people)[n % 2]) for n in range(count))
    ]  # fmt: skip


LAKE: Mapping[str, Any] = {
    "kwargs": {"is_slippery": True},
    "actions": ["left", "down", "right", "up"],
}


def _lake_tasks(count: int) -> Sequence[Task]:
    return [Task(f"g{n}", "gym:FrozenLake-v1", "Reach G.", n, LAKE, "test") for n in range(count)]


# Where to lean on slippery ice, by place; it arrives three times in four.
_WAYS = {"l": "left", "d": "down", "r": "right", "u": "up", ".": "left"}
LEAN = [_WAYS[letter] for letter in "luuul.l.udl..rd."]


@cache
def _lake(seed: int) -> tuple[str, ...]:
    """Moves that arrive: what slips is drawn from the seed, so that they do so each time."""
    for late in range(200):  # other moves now and then, so that the rest meets other luck
        rng, said, done = random.Random(f"{seed} {late}"), list[str](), False
        env = registry.make(_lake_tasks(seed + 1)[seed])
        while not done:
            place = int(env.observe().state_key or 0)
            said.append(LEAN[place] if rng.random() < 0.8 else rng.choice(LAKE["actions"]))
            done = env.step(said[-1]).done
        if env.score() == 1.0:
            return tuple(said)
    raise AssertionError("no way reached the goal")


def _lake_plan(task: Task) -> list[str]:
    return list(_lake(task.seed))


def _own_tasks(count: int) -> Sequence[Task]:
    short = {"max_steps": 3}  # with all eight even chance opens the chest
    return [Task(f"o{n}", "tests.cellar:Cellar", "Open the chest.", n, short, "test") for n in range(count)]


HOME = (
    "look around", "inventory", "wait", "open door to kitchen", "open fridge", "sing", "go to kitchen",
    "pick up thermometer", "open cupboard", "activate sink", "examine metal pot", "focus on agent",
)  # fmt: skip
LINES = (
    "systemctl --failed", "journalctl -n 5", "df -h", "ls -l /etc", "touch /tmp/x", "echo $RANDOM >> /tmp/x",
    "cat /tmp/x", "cd /var/log", "pwd", "ps aux", "report disk_full /var", "rm -rf /etc/nginx", "nosuch",
)  # fmt: skip

WORLDS: Mapping[str, World] = {
    world.name: world
    for world in (
        World("household", _shipped("household-medium"), "look"),
        World(
            "household:alfworld", _shipped("household-medium", "household:alfworld"), "look",
            slow=True,
        ),
        World("webshop", _shipped("webshop"), "click[no such button]"),
        World(
            "search", _shipped("search"), "<search>river</search>",
            words=("<search>river</search>", "<search>who founded</search>", "<answer>7</answer>", "hm"),
        ),
        World("shell", _shipped("shell"), "true", words=LINES),
        World("tools", _shipped("tools"), "nosuch()"),
        World(
            "scienceworld", _science, "look around", words=HOME, slow=True
        ),
        World("textworld-express", _shipped("textworld-express"), "fly"),
        World(
            "appworld", _appworld_tasks, "print(x)", plan=_appworld_plan, serve=_appworld,
            words=("x = 1", "print(x)", "y = 2", "print(z)", "apis.supervisor.complete_task(answer=x)"),
        ),
        World("gym:FrozenLake-v1", _lake_tasks, "fly", plan=_lake_plan),
        World(
            "mcp:", _mcp_tasks, "hm", serve=_mcp,
            words=('lookup({"name": "Ada"})', 'lookup({"name": "Zoe"})', "answer[4]", "hm"),
        ),
        World("tests.cellar:Cellar", _own_tasks, "open chest"),
    )
}  # fmt: skip


def every(*, slow: bool = True, without: Mapping[str, str] | None = None) -> list[Any]:
    """Worlds as parameters. slow: those whose episodes take seconds stand behind the marker `slow`; without:
    name -> why a case says nothing there."""
    found = []
    for name, world in WORLDS.items():
        marks = [pytest.mark.slow] if slow and world.slow else []
        why = (without or {}).get(name) or _lacking(name)
        found.append(pytest.param(world, id=name, marks=[*marks, *([pytest.mark.skip(why)] if why else [])]))
    return found


@cache
def _lacking(name: str) -> str:
    return WORLDS[name].lacking if WORLDS[name].serve is contextlib.nullcontext else ""


# --- playing ---


def line(moved: Transition) -> tuple[Any, ...]:
    """All that a move shows."""
    seen = moved.observation
    return (seen.text, seen.admissible, seen.state_key, moved.reward, moved.done, moved.valid)


def walk(world: World, env: Environment, plan: Sequence[str], seed: int, steps: int) -> Iterator[Any]:
    """The moves of an episode: mostly along the plan, else at random, from what is listed or the world's
    words; then the score, and the facts where it has them."""
    rng, ahead = random.Random(seed), list(plan)
    seen: Observation = env.observe()
    yield seen
    for _ in range(steps):
        if ahead and rng.random() < 0.7:
            action = ahead.pop(0)
        else:
            action = rng.choice(seen.admissible or world.words or (world.idle,))
        moved = env.step(action)
        seen = moved.observation
        yield (action, *line(moved))
        if moved.done:
            break
    yield env.score(), (env.facts() if hasattr(env, "facts") else None)


def jobs(world: World, count: int) -> list[tuple[Task, int]]:
    """So many episodes: each task about four times, by players that draw differently."""
    tasks = world.tasks(max(1, count // 4))
    return [(tasks[n % len(tasks)], n) for n in range(count)]


def alone(world: World, task: Task, plan: Sequence[str], seed: int, steps: int) -> list[Any]:
    env = registry.make(task)
    try:
        return list(walk(world, env, plan, seed, steps))
    finally:
        env.close()


def digest(world: World, count: int = 8, steps: int = 10) -> str:
    """Of traces and plans of a few tasks."""
    found = hashlib.sha256()
    for seed, task in enumerate(world.tasks(3 if world.slow else count)):
        plan = world.plan(task)
        found.update(repr((plan, alone(world, task, plan, seed, steps))).encode())
    return found.hexdigest()


def main(names: Sequence[str]) -> None:
    told = {}
    for name in names:
        with WORLDS[name].serve():
            told[name] = digest(WORLDS[name])
    print(json.dumps(told))


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    main(sys.argv[1:])
