"""The stand-in answers by its rule and counts what it was asked."""

from __future__ import annotations

import asyncio

import pytest

from roleagent_lite.errors import ContextTooLong
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.types import Message, Model, Reply, Request, Usage
from tests.lm.kit import ask


async def test_a_rule_gives_text_or_a_reply_and_may_wait() -> None:
    async def later(request: Request) -> str:
        await asyncio.sleep(0)
        return "later"

    assert (await ScriptedModel(lambda r: r.module).complete(ask())).text == "act"
    assert (await ScriptedModel(lambda r: Reply("x", "length")).complete(ask())).finish == "length"
    assert (await ScriptedModel(later).complete(ask())).text == "later"


async def test_tokens_are_counted_unless_the_rule_says_them() -> None:
    request = ask(messages=(Message("user", "x" * 40),))
    assert (await ScriptedModel(lambda r: "y" * 8).complete(request)).usage == Usage(10, 2)
    own = Reply("y", usage=Usage(7, 7, 3))
    assert (await ScriptedModel(lambda r: own).complete(request)).usage == Usage(7, 7, 3)


async def test_a_rule_may_fail_like_a_model() -> None:
    def rule(request: Request) -> str:
        raise ContextTooLong("too long")

    model: Model = ScriptedModel(rule, "mine", base_url="http://x", can_score=True)
    assert (model.name, model.base_url, model.can_score) == ("mine", "http://x", True)
    with pytest.raises(ContextTooLong):
        await model.complete(ask())


async def test_calls_interleave() -> None:
    seen: list[str] = []

    def rule(request: Request) -> str:
        seen.append(request.sample)
        return "x"

    model = ScriptedModel(rule)

    async def episode(name: str) -> None:
        for n in range(2):
            await model.complete(ask(sample=f"{name}{n}"))

    await asyncio.gather(episode("a"), episode("b"))
    assert seen == ["a0", "b0", "a1", "b1"]
    assert model.requests == 4
