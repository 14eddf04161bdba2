"""Stores every call with messages as sent and reply as received, and answers from what is stored.

Owns the key of a call, the order of writing (dispatched, sent, stored), replay, and what a failed call
leaves behind. Leaves out the tables themselves (store) and spending (ledger).

The key is a SHA-256 over role, module, model, base URL, messages, temperature, max_tokens, seed, schema,
choices and sample; the sample is `Request.sample` + `~` + attempt, the attempt being how often this process
has asked the same before. It is given out before the first await, so that the order in which replies arrive
changes nothing, and a resumed or replayed run finds the replies of the first one.

In the table `dispatched` a call K leaves: `K` (call) when it is first sent, `K#n` (again) when a later
process sends it, `K!` (failed) for the first refusal, `K-n` (void) for later refusals and for a sending that
a cap or a fatal error stopped, `K+n` (lost) for a reply that was paid for and not usable, or may have been
(`unread`: it was cut, or is none). `requests` of a refusal: how often the call was sent until then.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from typing import Any, Protocol

import roleagent_lite.errors as errors
from roleagent_lite.errors import BudgetStop, ConfigError, ModelError
from roleagent_lite.lm.faults import may_be_billed
from roleagent_lite.lm.ledger import Ledger
from roleagent_lite.lm.retry import Lost
from roleagent_lite.redact import clean
from roleagent_lite.store import Event, Run
from roleagent_lite.types import Call, Reply, Request, Usage

# Failures that are the answer to a request: asked again it would fail again, so a resume does not ask.
_SETTLED = ("ContextTooLong", "ContentFiltered")
MAX_TEXT = 1_000_000  # characters of a reply that are kept and used; a whole book has fewer


def kept(reply: Reply) -> Reply:
    """`reply` without keys, and no longer than MAX_TEXT; one that is cut says so and has finish "length".

    What is stored is what the caller gets, so that a resume reads the same.
    """
    # Cleaned before it is cut: half a key would not be known for one.
    text, reasoning = clean(reply.text), clean(reply.reasoning)
    cut = len(text) > MAX_TEXT
    reply = replace(reply, text=_cut(text), reasoning=None if reasoning is None else _cut(reasoning))
    if not cut:
        return reply
    finish = "length" if reply.finish == "stop" else reply.finish
    return replace(reply, finish=finish, token_ids=None, logprobs=None)  # they would be those of the whole


def _cut(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n[cut here: the reply had {len(text):,} characters]"


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
            return Call(key, self.name, self.base_url, request, kept(await self._inner.complete(request)))
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
        who: dict[str, Any] = {"role": request.role, "model": self.name}
        if key in run.dispatched:  # by an earlier process: each sending has an event of its own
            run.dispatched.put(Event(self._free(run, key, "#"), "again", who))
        else:
            run.dispatched.put(Event(key, "call", who))

        requests = 0  # that brought no reply

        def lost(what: Reply | ModelError) -> None:
            nonlocal requests
            if isinstance(what, Reply):
                used: dict[str, Any] = {f.name: getattr(what.usage, f.name) for f in fields(Usage)}
                self._ledger.lose(request.role, self.name)
            else:
                requests += 1
                if not may_be_billed(what):
                    return
                used = {"unread": True}  # the ledger has heard of it
            run.dispatched.put(Event(self._free(run, key, "+"), "lost", who | used))

        try:
            reply = await inner.complete(request, lost)
        except (BudgetStop, ModelError) as error:
            sent = {"requests": requests}
            if isinstance(error, BudgetStop) or error.fatal or f"{key}!" in run.dispatched:
                run.dispatched.put(Event(self._free(run, key, "-"), "void", who | sent))  # no reply, no bill
            else:
                said = {"error": type(error).__name__, "message": str(error), "status": error.status}
                run.dispatched.put(Event(key + "!", "failed", who | sent | said))
            raise
        call = Call(key, self.name, self.base_url, request, kept(reply))
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
