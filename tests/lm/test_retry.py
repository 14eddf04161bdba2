"""One retry policy: how often, how long, what for, and when to stop everybody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from roleagent_lite.errors import (
    BudgetStop,
    ContentFiltered,
    ContextTooLong,
    FatalModelError,
    ModelError,
    TransientModelError,
    UnsupportedRequest,
)
from roleagent_lite.lm.faults import Unreachable
from roleagent_lite.lm.retry import Breaker, Retried
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.types import Reply, Request
from tests.lm.kit import ask


class Clock:
    """A sleep that only notes what it was asked for."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


def playing(*answers: str | Reply | Exception) -> Callable[[Request], str | Reply]:
    left = list(answers)

    def rule(request: Request) -> str | Reply:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return rule


def retried(*answers: str | Reply | Exception, retries: int = 2) -> tuple[Retried, ScriptedModel, Clock]:
    model, clock = ScriptedModel(playing(*answers)), Clock()
    return Retried(model, retries, Breaker(), sleep=clock.sleep), model, clock


BUSY = TransientModelError("busy", status=503)


async def test_a_good_reply_is_asked_for_once() -> None:
    model, inner, clock = retried("ok")
    assert (await model.complete(ask())).text == "ok"
    assert (inner.requests, clock.waits) == (1, [])


async def test_transient_errors_are_tried_twice_more_with_growing_waits() -> None:
    model, inner, clock = retried(BUSY, BUSY, "ok")
    assert (await model.complete(ask())).text == "ok"
    assert inner.requests == 3
    first, second = clock.waits
    assert 0.25 <= first <= 0.75
    assert 0.5 <= second <= 1.5
    model, inner, clock = retried(BUSY)
    with pytest.raises(TransientModelError, match="busy"):
        await model.complete(ask())
    assert (inner.requests, len(clock.waits)) == (3, 2)


async def test_no_retries_means_one_request() -> None:
    model, inner, clock = retried(BUSY, retries=0)
    with pytest.raises(TransientModelError):
        await model.complete(ask())
    assert (inner.requests, clock.waits) == (1, [])


async def test_the_jitter_is_seeded() -> None:
    waits = []
    for _ in range(2):
        model, _, clock = retried(BUSY, BUSY, "ok")
        await model.complete(ask())
        waits.append(clock.waits)
    assert waits[0] == waits[1]


async def test_rep_05_an_empty_reply_makes_three_requests_and_each_is_reported() -> None:
    lost: list[Reply | ModelError] = []
    model, inner, _ = retried("  \n")
    with pytest.raises(TransientModelError, match="empty reply"):
        await model.complete(ask(), lost.append)
    assert (inner.requests, len(lost)) == (3, 3)
    thinking_only = Reply("", reasoning="hm")
    model, inner, _ = retried(thinking_only, "ok")
    assert (await model.complete(ask())).text == "ok"


@pytest.mark.parametrize("finish", ["length", "refusal", "content_filter"])
async def test_rep_07_an_empty_reply_with_a_reason_is_passed_on(finish: str) -> None:
    model, inner, _ = retried(Reply("", finish))
    assert (await model.complete(ask())).finish == finish
    assert inner.requests == 1


async def test_scores_need_no_text() -> None:
    model, inner, _ = retried(Reply("", scores=((-1.0,),)))
    assert (await model.complete(ask())).scores == ((-1.0,),)
    assert inner.requests == 1


async def test_net_01_the_server_s_wait_is_kept() -> None:
    model, _, clock = retried(TransientModelError("slow", status=429, retry_after=2.0), "ok")
    await model.complete(ask())
    assert len(clock.waits) == 1 and 2.0 <= clock.waits[0] <= 3.0


async def test_net_01_a_wait_of_an_hour_stops_the_run_with_words() -> None:
    model, inner, clock = retried(TransientModelError("slow", status=429, retry_after=3600.0))
    with pytest.raises(FatalModelError, match=r"asks to wait 3,600 s.*resume") as caught:
        await model.complete(ask())
    assert (inner.requests, clock.waits, caught.value.retry_after) == (1, [], 3600.0)
    with pytest.raises(FatalModelError, match="3,600"):
        await model.complete(ask())
    assert inner.requests == 1


async def test_net_01_a_long_wait_on_a_later_attempt_stops_too() -> None:
    long = TransientModelError("slow", status=429, retry_after=120.0)
    model, inner, clock = retried(BUSY, long, "ok")
    with pytest.raises(FatalModelError, match="120 s"):
        await model.complete(ask())
    assert (inner.requests, len(clock.waits)) == (2, 1)


@pytest.mark.parametrize(
    "error", [ContextTooLong("long"), FatalModelError("key"), BudgetStop("cap"), ValueError()]
)
async def test_what_cannot_get_better_is_not_tried_again(error: Exception) -> None:
    model, inner, _ = retried(error)
    with pytest.raises(type(error)):
        await model.complete(ask())
    assert inner.requests == 1


async def test_a_fatal_error_ends_a_series_of_retries() -> None:
    model, inner, _ = retried(BUSY, FatalModelError("key"))
    with pytest.raises(FatalModelError):
        await model.complete(ask())
    assert inner.requests == 2


async def test_net_07_eight_workers_send_at_most_eight_requests_on_a_wrong_key() -> None:
    async def refuse(request: Request) -> str:
        await asyncio.sleep(0.001)
        raise FatalModelError("wrong key", status=401)

    inner = ScriptedModel(refuse)
    model = Retried(inner, 2, Breaker())
    tasks = iter(range(50))
    seen: list[ModelError] = []

    async def worker() -> None:
        for n in tasks:
            try:
                await model.complete(ask(str(n)))
            except ModelError as error:
                seen.append(error)

    await asyncio.gather(*(worker() for _ in range(8)))
    assert inner.requests <= 8
    assert len(seen) == 50 and all(isinstance(e, FatalModelError) and e.status == 401 for e in seen)


async def test_an_unreachable_server_is_fatal_after_the_retries() -> None:
    model, inner, clock = retried(Unreachable("cannot reach the server X"))
    with pytest.raises(
        FatalModelError, match=r"cannot reach the server X after 3 attempts; start the server"
    ):
        await model.complete(ask())
    assert (inner.requests, len(clock.waits)) == (3, 2)


async def test_a_server_that_comes_up_meanwhile_is_used() -> None:
    model, inner, _ = retried(Unreachable("cannot reach"), "ok")
    assert (await model.complete(ask())).text == "ok"
    assert inner.requests == 2


def silent(patience: int, *answers: str | Reply | Exception) -> tuple[Retried, Breaker]:
    breaker = Breaker(patience)
    model = ScriptedModel(playing(*answers))
    return Retried(model, 0, breaker, sleep=Clock().sleep), breaker


async def failing(model: Retried, *samples: str) -> list[bool]:
    """Whether each call's error ended the run."""
    fatal = []
    for sample in samples:
        with pytest.raises(ModelError) as raised:
            await model.complete(ask(sample=sample))
        fatal.append(raised.value.fatal)
    return fatal


async def test_nothing_answered_from_the_start_ends_the_run_with_the_first_reason() -> None:
    model, breaker = silent(3, TransientModelError("down", status=500), BUSY)
    assert await failing(model, "a", "b", "c", "d") == [False, False, True, True]
    assert "first 3 episodes got an answer: down" in str(breaker.error)


async def test_one_episode_alone_never_ends_a_run() -> None:
    model, _ = silent(3, BUSY)
    assert not any(await failing(model, *"aaaaaa"))


@pytest.mark.parametrize("answer", ["ok", Reply(""), ContextTooLong("long"), ContentFiltered("no")])
async def test_an_answer_of_any_kind_ends_the_watch(answer: str | Reply | Exception) -> None:
    model, breaker = silent(2, BUSY, answer, BUSY)
    await failing(model, "a")
    if answer == "ok":
        await model.complete(ask(sample="b"))
    else:
        await failing(model, "b")
    assert not any(await failing(model, *"cdefgh")) and breaker.error is None


async def test_failures_of_two_kinds_are_not_added_up() -> None:
    model, _ = silent(3, BUSY, BUSY, UnsupportedRequest("top_p"), BUSY)
    assert await failing(model, *"abcdef") == [False, False, False, False, False, True]


async def test_without_patience_nothing_is_watched() -> None:
    model, _ = silent(0, BUSY)
    assert not any(await failing(model, *"abcdefgh"))
