"""The bridge between GEPA's thread and the event loop on which models and rollouts live.

GEPA is synchronous and swallows what its proposer raises, then calls it again. So the bridge remembers the
first exception that crossed it and refuses all later work with the same one; the stop callback raises it.
Owns that flag and the life of the thread. Leaves out what is computed on either side.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Bridge:
    """One event loop, one foreign thread. Make it inside the running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._current: concurrent.futures.Future[Any] | None = None
        self.error: BaseException | None = None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """From the foreign thread: run `work` on the loop and wait for its result.

        Raises what `work` raised, and from then on that same exception at once, without starting anything.
        """
        if self.error is not None:
            work.close()
            raise self.error
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._current = future
        if self.error is not None:  # stopped from the loop between the two lines above
            future.cancel()
        try:
            error = future.exception()
        except concurrent.futures.CancelledError as cancelled:
            self.error = self.error or cancelled
            raise
        if error is not None:
            self.error = error
            raise error
        return future.result()

    def check(self) -> None:
        """Raises the remembered exception, if there is one. For callbacks from which exceptions do escape."""
        if self.error is not None:
            raise self.error

    async def run(self, work: Callable[[], T]) -> T:
        """From the loop: run `work` in a thread of its own. A cancelled caller ends the thread first.

        Raises the exception that crossed the bridge, even where the thread swallowed it and returned.
        """
        pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="gepa")
        thread = self._loop.run_in_executor(pool, work)
        try:
            result = await asyncio.shield(thread)
        except asyncio.CancelledError as cancelled:
            self.error = self.error or cancelled
            if self._current is not None:
                self._current.cancel()
            await asyncio.wait([thread])
            if thread.done() and not thread.cancelled():
                thread.exception()  # read, so that the loop doesn't complain about one nobody looked at
            raise
        finally:
            pool.shutdown(wait=False)
        self.check()
        return result
