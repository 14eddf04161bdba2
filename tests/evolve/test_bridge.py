"""The bridge: results cross it, the first exception is remembered, a cancelled caller ends the thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from roleagent_lite.errors import BudgetStop
from roleagent_lite.evolve.bridge import Bridge


async def double(x: int) -> int:
    await asyncio.sleep(0)
    return 2 * x


async def broke() -> int:
    raise BudgetStop("cap reached")


async def test_work_of_the_thread_runs_on_the_loop() -> None:
    bridge = Bridge()
    threads: set[int] = set()

    async def where() -> int:
        threads.add(threading.get_ident())
        return 1

    assert await bridge.run(lambda: bridge.call(double(3)) + bridge.call(where())) == 7
    assert threads == {threading.get_ident()}


async def test_an_exception_escapes_and_later_work_is_refused_unstarted() -> None:
    bridge = Bridge()
    started: list[str] = []

    async def late() -> None:
        started.append("late")

    def thread() -> str:
        for work in (broke(), late()):
            try:
                bridge.call(work)
            except BudgetStop:
                started.append("refused")
        return "swallowed"

    with pytest.raises(BudgetStop, match="cap reached"):
        await bridge.run(thread)
    assert started == ["refused", "refused"]
    with pytest.raises(BudgetStop):
        bridge.check()


async def test_a_thread_that_raises_by_itself_raises() -> None:
    def thread() -> None:
        raise ValueError("own fault")

    with pytest.raises(ValueError, match="own fault"):
        await Bridge().run(thread)


async def test_cancelling_the_caller_ends_the_thread_and_its_work() -> None:
    bridge = Bridge()
    events: list[str] = []
    running = asyncio.Event()

    async def endless() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            events.append("work ended")

    def thread() -> None:
        try:
            bridge.call(endless())
        finally:
            events.append("thread ended")

    job = asyncio.ensure_future(bridge.run(thread))
    await running.wait()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert sorted(events) == ["thread ended", "work ended"]
    work = double(1)
    with pytest.raises(asyncio.CancelledError):
        bridge.call(work)
