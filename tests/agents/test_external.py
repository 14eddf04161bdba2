"""The user's own agent: both kinds of call, what it may return, and how its faults are told."""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.agents.external import ExternalAgent, load_callable
from roleagent_lite.ask import Answer
from roleagent_lite.errors import BudgetStop, ConfigError, RoleAgentError
from roleagent_lite.types import Decision, PromptSet, Request, View
from tests.agents.make import SEED, asker, view

INPUTS = {"prediction": "a", "actual": "b"}


def agent(call: Callable[..., Any], seen: list[Request] | None = None) -> ExternalAgent:
    def rule(request: Request) -> str:
        (seen if seen is not None else []).append(request)
        return '{"score": 0.5}'

    return ExternalAgent(call, asker(rule), SEED, "mine:agent")


async def test_a_coroutine_function_gets_view_prompts_and_ask() -> None:
    async def mine(v: View, prompts: PromptSet, ask: Callable[..., Awaitable[Answer]]) -> str:
        answer = await ask("judge", INPUTS)
        return f"{v.observation.admissible[1]} {prompts.id} {answer.values['score']}"

    seen: list[Request] = []
    decision = await agent(mine, seen).act(view())
    assert decision == Decision(action=f"take key {SEED.id} 0.5", said=f"take key {SEED.id} 0.5")
    assert (seen[0].sample, seen[0].temperature) == ("0/abc/t1#0", 0.9)


async def test_a_plain_function_runs_in_a_thread_where_ask_blocks() -> None:
    main = threading.get_ident()

    def mine(v: View, prompts: PromptSet, ask: Callable[..., Answer]) -> Decision:
        assert threading.get_ident() != main
        return Decision(
            "open door", predictions=(str(ask("judge", INPUTS, temperature=0.1).values["score"]),)
        )

    assert await agent(mine).act(view()) == Decision("open door", predictions=("0.5",))


async def test_an_object_with_an_async_call_is_awaited() -> None:
    class Mine:
        async def __call__(self, v: View, prompts: PromptSet, ask: object) -> str:
            return "take key"

    assert (await agent(Mine()).act(view())).action == "take key"


async def test_its_faults_name_it_and_ours_pass_through() -> None:
    def broken(*_: object) -> str:
        raise KeyError("door")

    def spent(*_: object) -> str:
        raise BudgetStop("cap")

    with pytest.raises(RoleAgentError, match="agent 'mine:agent' raised KeyError: 'door'"):
        await agent(broken).act(view())
    with pytest.raises(BudgetStop):
        await agent(spent).act(view())
    with pytest.raises(RoleAgentError, match="returned int; expected the action as text or a Decision"):
        await agent(lambda *_: 3).act(view())


def test_a_module_of_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_agent.py").write_text(
        "def act(view, prompts, ask):\n    return 'x'\n\nclass Stateful:\n    def __call__(self, *a):\n"
        "        return 'y'\n\nnumber = 3\n"
    )
    (tmp_path / "my_broken_agent.py").write_text("def act(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load_callable("my_own_agent:act")(None, None, None) == "x"
    assert load_callable("my_own_agent:Stateful")() == "y"
    for spec, words in (
        ("my_own_agent:akt", "has no 'akt'; did you mean 'act'"),
        ("my_own_agent:number", "is no function or class with a call, but int"),
        ("no_such_agent:act", "cannot import module 'no_such_agent'"),
        ("my_broken_agent:act", "cannot import module 'my_broken_agent': SyntaxError"),
    ):
        with pytest.raises(ConfigError, match=words):
            load_callable(spec)
