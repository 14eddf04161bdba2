"""A provider that misbehaves at random, seeded: the scripted kitchen behind every fault that users report.

What becomes of a call is drawn from the seed and the call's label, which holds what is asked and how often,
and neither port nor session: so a run that is killed and resumed has to end like an undisturbed one, however
often its calls were cut off. `plan` says what each call comes to; `ChaosServer` plays it, kills the process
that asks at a given request, or refuses everything from a given request on (an outage).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from roleagent_lite.lm import recorder
from roleagent_lite.lm.http import HttpModel
from roleagent_lite.lm.recorder import Recorder
from roleagent_lite.types import Request
from tests.fake_server import Answer, FakeServer, Raw, Say, Seen, fail, stream
from tests.kill_runner import die_after, run_command
from tests.kitchen_server import module, serve

RETRIES = 2
NEVER = 600.0  # seconds until an answer that nobody waits for
GONE = -1  # `Raw.cut`: closed without a byte
Make = Callable[[str, Seen, random.Random], Answer]  # from the right reply, the request and the draw


def _fenced(good: str, seen: Seen, draw: random.Random) -> Answer:
    label, end = draw.choice([("json", "\n"), ("", "\n"), ("JSON", "\n"), ("json", "\r\n")])
    return Say(f"Let me see.{end}{end}```{label}{end}{good}{end}```{end}That is my move.")


def _closing_tag(good: str, seen: Seen, draw: random.Random) -> Answer:
    return Say(f'maybe {{"action": "look"}} first</think>\n{good}')


def _both_tags(good: str, seen: Seen, draw: random.Random) -> Answer:
    return Say(f'<think>maybe {{"action": "look"}} first</think>\n{good}')


def _one_chunk(good: str, seen: Seen, draw: random.Random) -> Answer:
    return stream(["<think>first look", f" around</think>{good[:9]}", good[9:]])


def _surrogates(good: str, seen: Seen, draw: random.Random) -> Answer:
    return Say(
        good.replace('": "', '": "\\ud83d\\udd11 \\ud83d\\u0000 ', 1) if module(seen) == "act" else good
    )


def _no_usage(good: str, seen: Seen, draw: random.Random) -> Answer:
    return Say(good, usage=draw.choice([None, "null", {"prompt_tokens": None}]))


def _key_in_thinking(good: str, seen: Seen, draw: random.Random) -> Answer:
    return Say(good, message={"reasoning_content": f"I was asked by {seen.headers['authorization']}"})


def _at(seconds: float) -> Make:
    def make(good: str, seen: Seen, draw: random.Random) -> Answer:
        return fail(429, "slow down", Retry_After=f"{seconds:g}")

    return make


def _at_date(good: str, seen: Seen, draw: random.Random) -> Answer:
    return fail(429, "slow down", Retry_After=formatdate(time.time() + 1, usegmt=True))


def _echo(status: int) -> Make:
    def make(good: str, seen: Seen, draw: random.Random) -> Answer:
        return fail(status, f"cannot serve a request with {seen.headers['authorization']}")

    return make


def _overload(good: str, seen: Seen, draw: random.Random) -> Answer:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    return Raw(200, f"event: error\ndata: {json.dumps(error)}\n\n", {}, "text/event-stream")


def _short(good: str, seen: Seen, draw: random.Random) -> Answer:
    body = {"choices": [{"message": {"content": good}, "finish_reason": "stop"}]}
    return Raw(200, body, cut=draw.randrange(1, 40))


def _refusal(good: str, seen: Seen, draw: random.Random) -> Answer:
    return Say(None, message={"refusal": "I cannot help with that."})


def _always(answer: Answer) -> Make:
    return lambda good, seen, draw: answer


# --- the kinds, by what becomes of a call ---

USABLE: Mapping[str, Make] = {
    "REP-01 fence": _fenced,
    "REP-03 closing tag alone": _closing_tag,
    "REP-03 both tags": _both_tags,
    "REP-03 both in one chunk": _one_chunk,
    "REP-10 surrogates": _surrogates,
    "ACC-01 no usage": _no_usage,
    "ACC-07 key in thinking": _key_in_thinking,
}
# Asked again; the reason of an episode in which the last attempt ends so.
PASSING: Mapping[str, tuple[str, Make]] = {
    "REP-05 null": ("empty reply", _always(Say(None))),
    "REP-05 blank": ("empty reply", _always(Say(" \n"))),
    "NET-01 milliseconds": ("provider", _always(fail(429, "slow down", retry_after_ms="30"))),
    "NET-01 seconds": ("provider", _at(1)),
    "NET-01 date": ("provider", _at_date),
    "NET-01 without a time": ("provider", _always(fail(429, "slow down"))),
    "ACC-07 key in a 500": ("provider", _echo(500)),
    "ACC-07 key in a 503": ("provider", _echo(503)),
    "NET-03 stream cut": ("stream cut", _always(stream(["take", " k", "e"], finish=None, done=False))),
    "NET-03 short body": ("stream cut", _short),
    "NET-03 no byte": ("stream cut", _always(Raw(cut=GONE))),
    "NET-03 overload in a stream": ("provider", _overload),
    "NET-03 no answer in time": ("provider", _always(Say("late", delay=NEVER))),
}
# The end of an episode: its outcome and reason.
ENDING: Mapping[str, tuple[str, str, Make]] = {
    "REP-07 half": ("cut_off", "max_tokens", lambda good, _, __: Say(good[: len(good) // 2], "length")),
    "REP-07 null": ("cut_off", "max_tokens", _always(Say(None, "length"))),
    "NET-05 code": ("cut_off", "context", _always(fail(400, "too much", "context_length_exceeded"))),
    "NET-05 longer": (
        "cut_off",
        "context",
        _always(fail(400, "the input is longer than the model's context")),
    ),
    "NET-05 prompt": ("cut_off", "context", _always(fail(400, "prompt is too long: 9000 tokens"))),
    "NET-05 another 400": ("infrastructure_error", "provider", _always(fail(400, "top_p is out of range"))),
    "NET-09 filter": ("cut_off", "filtered", _always(fail(400, "no", "content_filter"))),
    "NET-09 filtered reply": ("cut_off", "filtered", _always(Say("", "content_filter"))),
}
# Asked once more in words; the outcome where the second reply ends so, too.
REASKED: Mapping[str, tuple[str, str, Make]] = {
    "REP malformed": ("bad_format", "wrong form", _always(Say("I would rather talk about the weather."))),
    "REP-08 refusal": ("cut_off", "refused", _refusal),
}
# End the run, which is resumed; from some request on everything is answered so.
OUTAGES: Mapping[str, Make] = {
    "NET-07 wrong key": _echo(401),
    "NET-01 no credit": _always(fail(429, "you exceeded your current quota", "insufficient_quota")),
    "NET-01 an hour": _at(3600),
}
KINDS = {*USABLE, *PASSING, *ENDING, *REASKED}
_SLOW = "NET-03 no answer in time"  # costs a whole timeout, so it is rarer and never comes twice in a call


@dataclass(frozen=True)
class Plan:
    """What a call comes to. `kinds`: one an attempt, the last for ever; "" = the right reply as it is.

    `end` ("" = a usable reply, "reask", an outcome's kind) and `reason` as the outcome has it.
    """

    kinds: tuple[str, ...]
    end: str = ""
    reason: str = ""


def plan(seed: int, label: str) -> Plan:
    """Drawn from the two alone."""
    draw = random.Random(f"{seed}/{label}")
    luck = draw.random()
    if luck < 0.60:
        return Plan(("",))
    if luck < 0.76:
        return Plan((draw.choice(list(USABLE)),))
    if luck < 0.92:
        names = [name for name in PASSING if name != _SLOW]
        failing = [draw.choice(names) for _ in range(draw.choices([1, 2, RETRIES + 1], [6, 3, 2])[0])]
        if draw.random() < 0.03:
            failing[0] = _SLOW
        if len(failing) <= RETRIES:
            return Plan((*failing, ""))
        return Plan(tuple(failing), "infrastructure_error", PASSING[failing[-1]][0])
    if luck < 0.96:
        name = draw.choice(list(ENDING))
        return Plan((name,), *ENDING[name][:2])
    name = draw.choice(list(REASKED))
    return Plan((name,), "reask")


def _make(kind: str) -> Make:
    if kind in USABLE:
        return USABLE[kind]
    if kind in PASSING:
        return PASSING[kind][1]
    if kind in OUTAGES:
        return OUTAGES[kind]
    return (ENDING.get(kind) or REASKED[kind])[2]


@dataclass(frozen=True)
class Sent:
    """One request. `session` counts the processes; `at`: monotonic seconds; `wait`: what it was told to."""

    session: int
    key: str
    label: str
    sample: str
    module: str
    attempt: int
    kind: str
    at: float
    wait: float


@dataclass
class Trouble:
    """What happens to one session: a kill `delay` seconds after its `kill`-th request, or an outage."""

    kill: int | None = None
    delay: float = 0.0
    outage: str = ""
    outage_from: int = 0
    requests: int = field(default=0, init=False)


class ChaosServer(FakeServer):
    """`with ChaosServer(seed) as server:`, then `server.begin(Trouble())` before each session's process."""

    def __init__(self, seed: int) -> None:
        super().__init__(self._chaos)
        self.log: list[Sent] = []
        self.session = -1
        self._seed = seed
        self._trouble = Trouble()
        self._attempts: Counter[str] = Counter()

    def begin(self, trouble: Trouble) -> None:
        self._trouble, self._attempts = trouble, Counter()
        self.session += 1

    def sent(self, session: int) -> list[Sent]:
        return [one for one in self.log if one.session == session]

    def planned(self, label: str) -> Plan:
        return plan(self._seed, label)

    def _chaos(self, seen: Seen) -> Answer:
        asked = {name: values[0] for name, values in parse_qs(seen.path.partition("?")[2]).items()}
        label, trouble = asked["label"], self._trouble
        number = self._attempts[label]
        self._attempts[label] += 1
        kinds = self.planned(label).kinds
        kind = kinds[min(number, len(kinds) - 1)]
        trouble.requests += 1
        if trouble.outage and trouble.requests >= trouble.outage_from:
            kind = trouble.outage
        if trouble.requests == trouble.kill:
            asyncio.get_running_loop().call_later(trouble.delay, _kill, int(asked["pid"]))
        good = serve(seen)
        assert isinstance(good, Say) and good.text is not None
        draw = random.Random(f"{self._seed}/{label}/{number}")
        answer = _make(kind)(good.text, seen, draw) if kind else good
        wait = 1.0 if kind == "NET-01 seconds" else 0.03 if kind == "NET-01 milliseconds" else 0.0
        self.log.append(
            Sent(self.session, asked["key"], label, asked["sample"], module(seen), number, kind,
                 time.monotonic(), wait)
        )  # fmt: skip
        return answer

    @staticmethod
    async def _write(writer: asyncio.StreamWriter, raw: Raw) -> bool:
        return False if raw.cut == GONE else await FakeServer._write(writer, raw)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


# --- inside the process that asks ---

_query: ContextVar[str] = ContextVar("query")


def run_labelled(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], die_at: int | None
) -> None:
    """`roleagent-lite ARGUMENTS`; each request tells the server what it is, in the query of its URL.

    `die_at`: bytes by which the tables may grow before the process kills itself inside a record.
    """
    _label_every_request()
    if die_at is not None:
        die_after(die_at)
    run_command(tuple(arguments), cwd, environment)


def _label_every_request() -> None:
    key_of, once, counter = Recorder.key, HttpModel._once, recorder.Counter()

    def labelled(self: Recorder, request: Request) -> str:
        key = key_of(self, request)
        digest = hashlib.sha256(recorder._canonical(request, self.name, None))
        attempt = counter.next(digest.digest())
        label = f"{digest.hexdigest()[:16]}.{attempt}"
        tag = {"key": key, "label": label, "sample": request.sample, "pid": os.getpid()}
        _query.set(urlencode(tag))
        return key

    async def tagged(self: HttpModel, method: str, url: str, data: bytes | None) -> tuple[int, Any, str]:
        return await once(self, method, f"{url}?{_query.get()}" if method == "POST" else url, data)

    setattr(Recorder, "key", labelled)  # noqa: B010 - mypy refuses a plain assignment to a method
    setattr(HttpModel, "_once", tagged)  # noqa: B010
