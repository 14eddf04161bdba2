"""The ledger around a model: a right before each request, the right count after each ending."""

from __future__ import annotations

import asyncio

import pytest

from roleagent_lite.config import Budget
from roleagent_lite.errors import BudgetStop, FatalModelError, TransientModelError
from roleagent_lite.lm.capped import Capped, guess
from roleagent_lite.lm.faults import Unreachable
from roleagent_lite.lm.ledger import Ledger
from roleagent_lite.lm.price import FREE, Price
from roleagent_lite.lm.scripted import Rule, ScriptedModel
from roleagent_lite.types import Message, Reply, Request, Usage
from tests.lm.kit import ask

PRICE = Price(1e-4, 1e-4)


def capped(rule: Rule, budget: Budget | None = None, price: Price | None = PRICE) -> tuple[Capped, Ledger]:
    ledger = Ledger(budget or Budget())
    return Capped(ScriptedModel(rule), ledger, price), ledger


async def test_the_reply_comes_back_with_its_dollars() -> None:
    model, ledger = capped(lambda r: Reply("x", usage=Usage(100, 100)))
    reply = await model.complete(ask())
    assert (reply.usage.input, reply.usage.output) == (100, 100)
    assert reply.usage.dollars == pytest.approx(0.02)
    assert ledger.snapshot().total.dollars == pytest.approx(0.02)


async def test_an_unknown_price_gives_no_dollars() -> None:
    model, ledger = capped(lambda r: "x", price=None)
    assert (await model.complete(ask())).usage.dollars is None
    assert ledger.snapshot().total.unpriced == 1
    free, _ = capped(lambda r: "x", price=FREE)
    assert (await free.complete(ask())).usage.dollars == 0.0


async def test_acc_03_nothing_is_sent_past_the_cap() -> None:
    model, _ = capped(lambda r: Reply("x", usage=Usage(100, 100)), Budget(max_usd=0.05))
    for _ in range(3):
        await model.complete(ask())
    with pytest.raises(BudgetStop):
        await model.complete(ask())
    assert isinstance(model._inner, ScriptedModel) and model._inner.requests == 3


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (TransientModelError("stream cut"), 1),
        (TransientModelError("busy", status=503), 0),
        (Unreachable("cannot reach"), 0),
        (FatalModelError("key", status=401), 0),
    ],
)
async def test_what_a_failed_request_counts(error: Exception, calls: int) -> None:
    def rule(request: Request) -> str:
        raise error

    model, ledger = capped(rule)
    with pytest.raises(type(error)):
        await model.complete(ask())
    total = ledger.snapshot().total
    assert (total.calls, total.failed) == (calls, 1)


async def test_an_interrupted_call_leaves_no_trace_in_the_caps() -> None:
    async def slow(request: Request) -> str:
        await asyncio.sleep(60)
        return "x"

    model, ledger = capped(slow, Budget(max_calls=1))
    task = asyncio.ensure_future(model.complete(ask()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ledger.reserve(PRICE)
    assert ledger.snapshot().total.calls == 0


def test_a_guess_is_high_rather_than_low() -> None:
    request = ask(messages=(Message("user", "x" * 300),))
    assert guess(request, "y" * 30) == Usage(101, 11)
