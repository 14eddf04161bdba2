"""Requests and tokens per minute: a call waits until the last 60 seconds leave room for it.

Owns the sliding window, and how many connections a transport may hold. Leaves out what a server's own 429
says (retry). The clock is injectable.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path

from roleagent_lite.types import Model, Reply, Request

WINDOW = 60.0


def estimate(request: Request) -> int:
    """Tokens that a request may cost: a token per four characters in, its whole limit out."""
    return sum(len(m.content) for m in request.messages) // 4 + request.max_tokens


def connections(most: int = 4096) -> int:
    """How many connections one transport may hold at once: `most`, or half of the files that this process may
    still open. Callers beyond that wait their turn, outside of a request's deadline."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(1, min((soft - _open()) // 2, most))


def _open() -> int:
    """How many files this process has open; 0 where the system does not say."""
    try:
        return sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:
        return 0


class Limiter:
    """At most `rpm` requests and `tpm` tokens in any 60 s; None = no limit. First come, first served."""

    def __init__(
        self,
        rpm: int | None,
        tpm: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.rpm, self.tpm = rpm, tpm
        self._clock, self._sleep = clock, sleep
        self._window: deque[list[float]] = deque()  # [time, tokens], oldest first
        self._tokens = 0.0
        self._lock = asyncio.Lock()

    @property
    def idle(self) -> bool:
        return self.rpm is None and self.tpm is None

    async def acquire(self, tokens: int) -> list[float]:
        """Waits for room and takes it; the entry is to be given to `correct` with what was really used."""
        async with self._lock:
            while (wait := self._wait(tokens)) > 0:
                await self._sleep(wait)
            entry = [self._clock(), float(tokens)]
            self._window.append(entry)
            self._tokens += tokens
            return entry

    def _wait(self, tokens: int) -> float:
        now = self._clock()
        while self._window and self._window[0][0] <= now - WINDOW:
            self._tokens -= self._window.popleft()[1]
        if not self._window:
            return 0.0  # a request above the limit alone still has to go some time
        until = now
        if self.rpm is not None and len(self._window) >= self.rpm:
            until = self._window[len(self._window) - self.rpm][0] + WINDOW
        if self.tpm is not None:
            excess = self._tokens + tokens - self.tpm
            for at, used in self._window:
                if excess <= 0:
                    break
                excess -= used
                until = max(until, at + WINDOW)
        return until - now

    def correct(self, entry: list[float], tokens: int | None) -> None:
        """Replaces the estimate by what the server counted; None keeps it."""
        if tokens is not None and any(entry is e for e in self._window):
            self._tokens += tokens - entry[1]
            entry[1] = float(tokens)


class Limited:
    """`inner` behind a limiter that several models may share."""

    def __init__(self, inner: Model, limiter: Limiter) -> None:
        self.name, self.base_url, self.can_score = inner.name, inner.base_url, inner.can_score
        self._inner, self._limiter = inner, limiter

    async def complete(self, request: Request) -> Reply:
        if self._limiter.idle:
            return await self._inner.complete(request)
        entry = await self._limiter.acquire(estimate(request))
        reply = await self._inner.complete(request)
        used = reply.usage
        known = used.input is not None and used.output is not None
        self._limiter.correct(entry, (used.input or 0) + (used.output or 0) if known else None)
        return reply
