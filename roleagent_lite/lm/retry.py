"""The one retry policy (tenacity) and the one place where a reply is found empty.

Owns how often, how long and what for. Leaves out deciding what is transient (faults) and what is billed
(ledger). A model that failed for good stays failed: every later call of any worker raises at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from roleagent_lite.errors import (
    ContentFiltered,
    ContextTooLong,
    FatalModelError,
    ModelError,
    TransientModelError,
)
from roleagent_lite.lm.faults import Unreachable
from roleagent_lite.types import Model, Reply, Request

MAX_WAIT = 60.0  # seconds; a server that asks for more is answered by stopping, not by silent sleep
Sleep = Callable[[float], Awaitable[None]]
Lost = Callable[[Reply | ModelError], None]


class Breaker:
    """Remembers the first fatal error, for all workers and roles of one pool.

    It is one, too, where nothing is answered: calls of `patience` samples (episodes, that is) failed for one
    kind of reason after all their retries, and not one reply has come since the pool was opened (0: never).
    One reply, and a server's word on a prompt (too long, filtered), end that watch for good: who answers may
    fail as often as it does.
    """

    def __init__(self, patience: int = 0) -> None:
        self.error: ModelError | None = None
        self._patience = patience
        self._silent: dict[str, ModelError] = {}

    def answered(self) -> None:
        self._patience = 0
        self._silent.clear()

    def unanswered(self, sample: str, error: ModelError) -> ModelError:
        """What the end of a call that brought no reply means: `error`, or the end of the run."""
        if isinstance(error, ContextTooLong | ContentFiltered):
            self.answered()
        if error.fatal or not self._patience:
            return error
        if any(type(other) is not type(error) for other in self._silent.values()):
            self._silent.clear()
        self._silent.setdefault(sample, error)
        if len(self._silent) < self._patience:
            return error
        first = next(iter(self._silent.values()))
        fatal = FatalModelError(
            f"not one of the first {len(self._silent)} episodes got an answer: {first}. The run is stopped "
            "here; when the server answers, resume it with the same command",
            status=first.status,
        )
        self.trip(fatal)
        return fatal

    def check(self) -> None:
        if self.error is not None:
            raise type(self.error)(
                str(self.error), status=self.error.status, retry_after=self.error.retry_after
            )

    def trip(self, error: ModelError) -> None:
        if self.error is None:
            self.error = error


class Retried:
    """`inner` asked again after transient errors and empty replies, `retries` times at most.

    Waits double from `first` seconds with jitter, or are what the server said. Raises what the last attempt
    raised; FatalModelError where the server cannot be reached or asks for more than a minute.
    """

    def __init__(
        self,
        inner: Model,
        retries: int,
        breaker: Breaker,
        *,
        sleep: Sleep = asyncio.sleep,
        seed: int = 0,
        first: float = 0.5,
    ) -> None:
        self.name = inner.name
        self.base_url = inner.base_url
        self.can_score = inner.can_score
        self._inner = inner
        self._retries = retries
        self._breaker = breaker
        self._sleep = sleep
        self._random = random.Random(seed)
        self._first = first

    async def complete(self, request: Request, lost: Lost | None = None) -> Reply:
        """A usable reply. `lost` hears of each request that brought none: of the reply that was paid for and
        cannot be used, or of the error."""
        self._breaker.check()
        try:
            try:
                return await self._attempt(request, lost)  # the common way, without tenacity's bookkeeping
            except TransientModelError as error:
                return await self._again(request, lost, error)
        except ModelError as error:
            ended = self._breaker.unanswered(request.sample, error)
            if ended is error:
                raise
            raise ended from None

    async def _attempt(self, request: Request, lost: Lost | None) -> Reply:
        self._breaker.check()
        try:
            reply = await self._inner.complete(request)
        except ModelError as error:
            if error.fatal:
                self._breaker.trip(error)
            if lost is not None:
                lost(error)
            raise
        self._breaker.answered()
        if reply.finish == "stop" and not reply.text.strip() and reply.scores is None:
            if lost is not None:
                lost(reply)
            raise TransientModelError(f"empty reply from {self.name}")
        return reply

    async def _again(self, request: Request, lost: Lost | None, first: TransientModelError) -> Reply:
        from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

        self._refuse_long(first)
        pending: list[TransientModelError] = [first]

        def wait(state: RetryCallState) -> float:
            outcome = state.outcome.exception() if state.outcome else None
            asked = outcome.retry_after if isinstance(outcome, ModelError) else None
            jitter = self._random.random()
            if asked is not None:
                return asked + jitter * min(1.0, asked)
            backoff: float = self._first * 2.0 ** (state.attempt_number - 1)
            return min(MAX_WAIT, backoff) * (0.5 + jitter)

        policy = AsyncRetrying(
            retry=retry_if_exception_type(TransientModelError),
            stop=stop_after_attempt(self._retries + 1),
            wait=wait,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            async for attempt in policy:
                with attempt:
                    if pending:  # the attempt that has already been made
                        raise pending.pop()
                    try:
                        return await self._attempt(request, lost)
                    except TransientModelError as error:
                        self._refuse_long(error)
                        raise
        except Unreachable as error:
            fatal = FatalModelError(
                f"{error} after {self._retries + 1} attempts; start the server or check its URL, then resume"
            )
            self._breaker.trip(fatal)
            raise fatal from None
        raise AssertionError("tenacity returned without an outcome")  # pragma: no cover

    def _refuse_long(self, error: TransientModelError) -> None:
        if error.retry_after is not None and error.retry_after > MAX_WAIT:
            fatal = FatalModelError(
                f"{error}; the server asks to wait {error.retry_after:,.0f} s. What is finished is kept: "
                "resume the run then with the same command",
                status=error.status,
                retry_after=error.retry_after,
            )
            self._breaker.trip(fatal)
            raise fatal
