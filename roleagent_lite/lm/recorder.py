"""Stores every call with messages as sent and reply as received, and answers from what is stored.

Owns the key of a call, the order of writing (dispatched, sent, stored), replay, and what a failed call
leaves behind. Leaves out the tables themselves (store) and spending (ledger).

The key is a SHA-256 over role, module, model, base URL, messages, temperature, max_tokens, seed, schema,
choices and sample; the sample is `Request.sample` + `~` + attempt, the attempt being how often this process
has asked the same before. It is given out before the first await, so that the order in which replies arrive
changes nothing, and a resumed or replayed run finds the replies of the first one.

In the table `dispatched` a call K leaves: `K` (call) when it is first sent, `K#n` (again) when a later
process sends it, `K!` (failed) for the first refusal, `K-n` (void) for later refusals and for a sending that
a cap or a fatal error stopped, `K+n` (lost) for a reply that was paid for and not usable.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from typing import Any, Protocol

import roleagent_lite.errors as errors
from roleagent_lite.errors import BudgetStop, ConfigError, ModelError
from roleagent_lite.lm.ledger import Ledger
from roleagent_lite.lm.retry import Lost
from roleagent_lite.redact import clean
from roleagent_lite.store import Event, Run
from roleagent_lite.types import Call, Reply, Request, Usage

# Failures that are the answer to a request: asked again it would fail again, so a resume does not ask.
_SETTLED = ("ContextTooLong", "ContentFiltered")


class Attempts(Protocol):
    """What a recorder stands on: a model that reports replies it paid for and could not use."""

    name: str
    base_url: str | None
    can_score: bool

    async def complete(self, request: Request, lost: Lost | None = None) -> Reply: ...


class Counter:
    """How often each request was made in this process, over all models of a pool."""

    def __init__(self) -> None:
        self._seen: dict[bytes, int] = {}

    def next(self, digest: bytes) -> int:
        attempt = self._seen.get(digest, 0)
        self._seen[digest] = attempt + 1
        return attempt


class Recorder:
    """A Model whose calls are stored in `run` (None: nowhere) and answered from there where it can.

    `inner` None = replay: a call without a record raises ConfigError. Raises what `inner` raises, and in
    replay what was raised then.
    """

    def __init__(
        self,
        inner: Attempts | None,
        run: Run | None,
        ledger: Ledger,
        *,
        name: str,
        base_url: str | None = None,
        can_score: bool = False,
        counter: Counter | None = None,
    ) -> None:
        self.name, self.base_url, self.can_score = name, base_url, can_score
        self._inner, self._run, self._ledger = inner, run, ledger
        self._counter = counter or Counter()

    def key(self, request: Request) -> str:
        """The key of this request's next attempt (64 hex digits); each call of this method is one attempt."""
        digest = hashlib.sha256(_canonical(request, self.name, self.base_url))
        attempt = self._counter.next(digest.digest())
        digest.update(b"~%d" % attempt)
        return digest.hexdigest()

    async def complete(self, request: Request) -> Reply:
        return (await self.call(request)).reply

    async def call(self, request: Request) -> Call:
        """The call with its id, bought or from the record."""
        key = self.key(request)
        run = self._run
        if run is None:
            if self._inner is None:
                raise ConfigError("replay: there is no run to replay from")
            return Call(key, self.name, self.base_url, request, await self._inner.complete(request))
        stored = run.calls.get(key)
        if stored is not None:
            self._ledger.replay(request.role, self.name)
            return Call(key, self.name, self.base_url, request, stored.reply)
        self._raise_stored_failure(run, key)
        if self._inner is None:
            raise ConfigError(
                f"replay: run '{run.name}' holds no reply to this {request.role} call of module "
                f"'{request.module}' (sample {request.sample}); run without --replay to buy it"
            )
        return await self._buy(run, key, request, self._inner)

    async def _buy(self, run: Run, key: str, request: Request, inner: Attempts) -> Call:
        who = {"role": request.role, "model": self.name}
        if key in run.dispatched:  # by an earlier process: each sending has an event of its own
            run.dispatched.put(Event(self._free(run, key, "#"), "again", who))
        else:
            run.dispatched.put(Event(key, "call", who))

        def lost(reply: Reply) -> None:
            used = {f.name: getattr(reply.usage, f.name) for f in fields(Usage)}
            run.dispatched.put(Event(self._free(run, key, "+"), "lost", who | used))
            self._ledger.lose(request.role, self.name)

        try:
            reply = await inner.complete(request, lost)
        except (BudgetStop, ModelError) as error:
            if isinstance(error, BudgetStop) or error.fatal or f"{key}!" in run.dispatched:
                run.dispatched.put(Event(self._free(run, key, "-"), "void", who))  # no reply, no bill
            else:
                said = {"error": type(error).__name__, "message": str(error), "status": error.status}
                run.dispatched.put(Event(key + "!", "failed", who | said))
            raise
        # Cleaned of keys before anyone cuts it to length, and the same now as when a resume reads it.
        reply = replace(reply, text=clean(reply.text), reasoning=clean(reply.reasoning))
        call = Call(key, self.name, self.base_url, request, reply)
        run.calls.put(call)
        return call

    @staticmethod
    def _free(run: Run, key: str, mark: str) -> str:
        number = 1
        while f"{key}{mark}{number}" in run.dispatched:
            number += 1
        return f"{key}{mark}{number}"

    def _raise_stored_failure(self, run: Run, key: str) -> None:
        event = run.dispatched.get(key + "!")
        if event is None:
            return
        kind = str(event.data.get("error"))
        if self._inner is not None and kind not in _SETTLED:
            return  # a broken connection then says nothing about now
        known = getattr(errors, kind, ModelError)
        raise known(str(event.data.get("message")), status=event.data.get("status"))


def _canonical(request: Request, model: str, base_url: str | None) -> bytes:
    body: list[Any] = [
        request.role,
        request.module,
        model,
        base_url,
        [(m.role, m.content) for m in request.messages],
        request.temperature,
        request.max_tokens,
        request.seed,
        request.schema,
        request.choices,
        request.sample,
    ]
    return json.dumps(body, sort_keys=True, separators=(",", ":"), default=dict).encode()
