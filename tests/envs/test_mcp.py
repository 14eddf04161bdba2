"""`mcp:` worlds against a real server: both transports, who may be called, what goes wrong."""

from __future__ import annotations

import importlib.util
import shlex
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from roleagent_lite.ask import free_form
from roleagent_lite.envs import mcp, own, registry
from roleagent_lite.envs.checker import check
from roleagent_lite.envs.mcp import Tools
from roleagent_lite.errors import ConfigError, EnvironmentFault, MissingExtra
from roleagent_lite.types import Task

SERVER = Path(__file__).parents[1] / "tool_server.py"
COMMAND = f"mcp:{shlex.join([sys.executable, str(SERVER)])}"
here = pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="pip install 'roleagent-lite[mcp]'")


@pytest.fixture(autouse=True)
def nobody_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "_allowed", set())


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server on this computer that speaks streamable HTTP."""
    import uvicorn

    from tests.tool_server import app

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(app(), host="127.0.0.1", port=port, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"mcp:http://127.0.0.1:{port}/mcp"
    server.should_exit = True
    thread.join(20)


def task(env: str, goal: str = "What is the number of Ada?", **params: Any) -> Task:
    return Task("t", env, goal, params={"answers": ["17"], **params})


def made(one: Task) -> Tools:
    return cast(Tools, registry.make(one))


@here
def test_an_episode_on_a_server_of_this_computer(address: str) -> None:
    env = made(task(address))
    assert env.observe().text.startswith("What is the number of Ada?\n\nTools:\n- lookup(")
    assert (
        '- store({"name": string, "number": string, "twice"?: boolean}) - Keeps a number.'
        in env.observe().text
    )
    called = env.step('lookup({"name": "Ada"})')
    assert called.observation.text.startswith("17\n\nTools:") and called.valid and not called.done
    assert env.step(' store( {"name": "Eve",\n "number": "4"} ) ').observation.text.startswith("kept 3\n")
    assert env.step("reset()").observation.text.startswith("done\n")
    ended = env.step("answer[ The 17. ]")
    assert (ended.done, ended.reward, env.score()) == (True, 1.0, 1.0)
    again = env.step("answer[17]")
    assert (again.done, again.valid, again.reward, env.score()) == (True, False, 0.0, 1.0)
    env.close()


@here
@pytest.mark.parametrize(
    ("action", "said", "valid"),
    [
        ("hello", "This is no action. Write TOOL_NAME(", False),
        ("find({})", "There is no tool find.", False),
        ("lookup(Ada)", "The arguments of lookup are no JSON", False),
        ('lookup(["Ada"])', "The arguments of lookup must be one JSON object", False),
        ('lookup({"name": "Zoe"})', "lookup failed: ", True),
        ('lookup({"nome": "Ada"})', "lookup failed: ", True),
    ],
)
def test_what_is_no_call_or_fails_is_said(address: str, action: str, said: str, valid: bool) -> None:
    env = made(task(address))
    moved = env.step(action)
    assert moved.observation.text.startswith(said) and moved.valid == valid and not moved.done
    assert env.score() == 0.0
    env.close()


@here
def test_the_checker_finds_nothing(address: str) -> None:
    one = task(address, begin=["reset({})"], calls=['lookup({"name": "Ada"})'])
    assert made(one).walkthrough() == ['lookup({"name": "Ada"})', "answer[17]"]
    assert check(registry.spec(address).make, one, steps=6) == []


@here
def test_begin_and_tools_of_a_task(address: str) -> None:
    """What a task begins with is no move, and may be what its player cannot call."""
    env = made(task(address, begin=['store({"name": "Ada", "number": "99"})'], tools=["lookup"]))
    assert "- store(" not in env.observe().text
    assert env.step('lookup({"name": "Ada"})').observation.text.startswith("99\n")
    assert not env.step("reset()").valid
    env.close()
    other = made(task(address, begin=["reset({})"]))  # the server goes on between episodes
    assert other.step('lookup({"name": "Ada"})').observation.text.startswith("17\n")
    other.close()


@here
def test_a_wrong_answer_and_a_task_without_one(address: str) -> None:
    for params in ({"answers": ["18"]}, {"answers": None}):
        env = made(task(address, **params))
        assert env.step("answer[17]").done and env.score() == 0.0
        with pytest.raises(ConfigError, match=r"params\.calls, params\.answers"):
            env.walkthrough()
        env.close()


@here
@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"tools": ["look"]}, "has no tool look; it has lookup, store, reset"),
        ({"begin": ["look({})"]}, r"params\.begin: There is no tool look"),
        ({"answers": "17"}, "a list of texts"),
    ],
)
def test_what_is_wrong_with_a_task(address: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(task(address, **params))


@here
def test_a_command_runs_once_an_episode_where_the_user_named_it() -> None:
    mcp.allow(COMMAND)
    for _ in range(2):  # what one stored the next does not find
        env = made(task(COMMAND))
        assert env.step('store({"name": "Eve", "number": "4"})').observation.text.startswith("kept 3\n")
        env.close()
        with pytest.raises(EnvironmentFault, match="the connection has ended"):
            env.step("reset()")


@here
def test_a_command_that_fails_is_a_fault() -> None:
    broken = f"{COMMAND} break"
    mcp.allow(broken)
    with pytest.raises(EnvironmentFault, match="does not answer as an MCP server"):
        made(task(broken))
    mcp.allow("mcp:no-such-program-here")
    with pytest.raises(ConfigError, match="there is no program 'no-such-program-here' on PATH"):
        made(task("mcp:no-such-program-here"))
    mcp.allow("mcp:python 'server.py")
    with pytest.raises(ConfigError, match="the command cannot be read: No closing quotation"):
        made(task("mcp:python 'server.py"))


@here
def test_nobody_listens_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        name = f"mcp:http://127.0.0.1:{free.getsockname()[1]}/mcp"
    with pytest.raises(EnvironmentFault, match="does not answer"):
        made(task(name))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mcp:rm -rf things", "starts a program, which a task file alone may not ask for"),
        ("mcp:http://tools.example/mcp", "calls a server elsewhere, which a task file alone may not"),
        ("mcp:http://127.0.0.1.evil.example/mcp", "calls a server elsewhere"),
        ("mcp:http://127.0.0.1@evil.example/mcp", "calls a server elsewhere"),
        ("mcp:", "name a server's address or the command"),
    ],
)
def test_a_task_file_alone_starts_nothing(name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "find_spec", lambda _: object())
    with pytest.raises(ConfigError, match=said):
        registry.make(task(name))


def test_what_is_named_on_the_command_line_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text(
        '{"goal": "a", "params": {"answers": ["17"]}}\n' * 1
        + '{"goal": "b", "params": {"answers": ["23"]}}\n{"goal": "c", "params": {"answers": ["4"]}}\n'
    )
    assert COMMAND not in mcp._allowed
    own.write_tasks(COMMAND, tmp_path / "own.jsonl", str(tmp_path / "tasks.jsonl"))
    assert COMMAND in mcp._allowed
    mcp.allow("webshop")
    assert mcp._allowed == {COMMAND}


def test_without_the_package_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'roleagent-lite\[mcp\]'"):
        registry.make(task("mcp:http://127.0.0.1:1/mcp"))


@pytest.mark.parametrize("said", ["`{}`", "Action: {}", "<action>{}</action>", "> {}", "{}\nObservation: 17"])
def test_env_03_a_call_in_other_clothes_is_made_bare(said: str) -> None:
    for call in ('lookup({"name": "Ada"})', 'store({"name": "O\'Neil", "number": "3."})', "answer[17]"):
        assert free_form(said.replace("{}", call)) == call


def test_what_the_registry_knows() -> None:
    spec = registry.spec("mcp:http://127.0.0.1:1/mcp")
    assert (spec.blocking, spec.facts, spec.snapshots) == (True, False, False)
    assert "answer[TEXT]" in spec.vocabulary
    assert (spec.max_steps(task("x")), spec.max_steps(task("x", max_steps=3))) == (20, 3)
