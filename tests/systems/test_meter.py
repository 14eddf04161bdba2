"""The meter: counts every call of an attempt, and none is made beyond the budget, not even a re-ask."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.ask import Asker
from roleagent_lite.errors import ConfigError, EpisodeEnd, ReplyError, TransientModelError
from roleagent_lite.systems.meter import Meter, MeteredAsker
from roleagent_lite.types import Request, TaskBudget
from tests.systems import make

INPUTS = {"task": "t", "episode": "e", "outcome": "o", "lessons": ""}
NAME = "0/abc/t1#0"
GOOD = '{"reflection": "look before you leap"}'


@asynccontextmanager
async def metered(
    folder: Path, rule: Callable[[Request], str], budget: TaskBudget, **config: Any
) -> AsyncIterator[MeteredAsker]:
    async with make.setting(folder / "run", rule, budget=budget, **config) as setting:
        asker = Asker(setting.models, setting.prompts)
        yield MeteredAsker(asker, Meter(budget, setting.run), NAME)


async def ask(asker: MeteredAsker, sample: str = "s") -> str:
    answer = await asker.ask("reflexion", INPUTS, prompt_set=None, sample=sample)
    return str(answer.values["reflection"])


async def test_calls_are_counted_and_the_next_one_is_refused(tmp_path: Path) -> None:
    asked: list[str] = []

    def rule(request: Request) -> str:
        asked.append(request.sample)
        return GOOD

    async with metered(tmp_path, rule, make.calls(2)) as asker:
        assert asker.meter.left == 2
        await ask(asker)
        await ask(asker, "0/abc/t1#0/trial2")
        assert (asker.meter.left, len(asker.meter.calls), len(set(asker.meter.calls))) == (0, 2, 2)
        with pytest.raises(EpisodeEnd, match="budget of 2 calls a task is spent") as caught:
            await ask(asker)
    assert caught.value.reason == "budget"
    assert asked == ["0/abc/t1#0/s", "0/abc/t1#0/trial2"]  # a sample is the attempt's own


async def test_a_re_ask_counts_and_is_not_made_beyond_the_budget(tmp_path: Path) -> None:
    replies = ["no form", GOOD, "no form", "never sent"]
    async with metered(tmp_path, lambda _: replies.pop(0), make.calls(3)) as asker:
        assert await ask(asker) == "look before you leap"
        assert asker.meter.left == 1
        with pytest.raises(EpisodeEnd, match="spent"):
            await ask(asker)
        assert len(asker.meter.calls) == 3 and replies == ["never sent"]


async def test_an_unusable_reply_within_the_budget_is_the_askers_own_error(tmp_path: Path) -> None:
    async with metered(tmp_path, lambda _: "no form", make.calls(2)) as asker:
        with pytest.raises(ReplyError, match="after the re-ask"):
            await ask(asker)
        assert len(asker.meter.calls) == 2


async def test_broken_transport_is_not_taken_for_a_spent_budget(tmp_path: Path) -> None:
    def broken(request: Request) -> str:
        raise TransientModelError("overloaded")

    async with metered(tmp_path, broken, make.calls(1), limits={"retries": 0}) as asker:
        with pytest.raises(ReplyError) as caught:
            await ask(asker)
        assert caught.value.kind == "infrastructure_error" and asker.meter.calls == []


async def test_no_budget_is_no_end(tmp_path: Path) -> None:
    async with metered(tmp_path, lambda _: GOOD, TaskBudget()) as asker:
        for _ in range(5):
            await ask(asker)
        assert asker.meter.left is None and len(asker.meter.calls) == 5


async def test_dollars_end_an_attempt_once_they_are_spent(tmp_path: Path) -> None:
    price = "1000/1000"  # a dollar for a thousand tokens
    async with metered(tmp_path, lambda _: GOOD, TaskBudget("dollars", 0.3), price=price) as asker:
        made = 0
        with pytest.raises(EpisodeEnd, match=r"0\.3 dollars a task is spent"):
            while True:
                await ask(asker)
                made += 1
        assert asker.meter.left is None
        assert made >= 1 and asker.meter.dollars >= 0.3
        assert asker.meter.dollars * (made - 1) / made < 0.3  # equal calls: one fewer had not been enough


async def test_dollars_that_are_spent_allow_no_re_ask(tmp_path: Path) -> None:
    replies = ["no form", "never sent"]
    budget = TaskBudget("dollars", 0.001)  # less than one call costs
    async with metered(tmp_path, lambda _: replies.pop(0), budget, price="1000/1000") as asker:
        with pytest.raises(EpisodeEnd, match="is spent"):
            await ask(asker)
        assert len(asker.meter.calls) == 1 and replies == ["never sent"]


async def test_a_call_without_a_price_under_dollars_is_said(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", lambda _: GOOD) as setting:
        meter = Meter(TaskBudget("dollars", 1.0), setting.run)
        with pytest.raises(ConfigError, match="without a known price"):
            meter.take(("unknown",))
