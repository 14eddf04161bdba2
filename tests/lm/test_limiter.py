"""Rates per minute on a clock of our own: no window of 60 seconds ever holds more than allowed."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roleagent_lite.lm.limiter import Limited, Limiter, connections, estimate
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.types import Message, Reply, Usage
from tests.lm.kit import ask


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def limiter(rpm: int | None, tpm: int | None) -> tuple[Limiter, Clock]:
    clock = Clock()
    return Limiter(rpm, tpm, clock=clock, sleep=clock.sleep), clock


async def times(rpm: int | None, tpm: int | None, tokens: list[int]) -> list[float]:
    limit, _ = limiter(rpm, tpm)
    return [(await limit.acquire(t))[0] for t in tokens]


async def test_requests_a_minute() -> None:
    assert await times(2, None, [1] * 5) == [0, 0, 60, 60, 120]


async def test_tokens_a_minute() -> None:
    assert await times(None, 100, [60, 40, 1, 99]) == [0, 0, 60, 60]


async def test_a_request_above_the_limit_goes_alone() -> None:
    assert await times(None, 100, [500, 500, 10]) == [0, 60, 120]


async def test_no_limit_never_waits() -> None:
    assert await times(None, None, [10**9] * 3) == [0, 0, 0]
    assert limiter(None, None)[0].idle and not limiter(1, None)[0].idle


async def test_what_was_really_used_replaces_the_estimate() -> None:
    limit, clock = limiter(None, 100)
    entry = await limit.acquire(90)
    limit.correct(entry, 10)
    await limit.acquire(90)
    assert clock.now == 0
    late = await limit.acquire(50)
    assert clock.now == 60
    limit.correct(entry, 10_000)  # long gone from the window
    limit.correct(late, None)
    await limit.acquire(50)
    assert clock.now == 60


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=30),
    st.one_of(st.none(), st.integers(1, 5)),
    st.one_of(st.none(), st.integers(50, 120)),
)
def test_no_window_holds_too_much(tokens: list[int], rpm: int | None, tpm: int | None) -> None:
    at = asyncio.run(times(rpm, tpm, tokens))
    assert at == sorted(at)
    for i, start in enumerate(at):
        inside = [j for j in range(i, len(at)) if at[j] < start + 60]
        assert rpm is None or len(inside) <= rpm
        assert tpm is None or sum(tokens[j] for j in inside) <= tpm


async def test_waiting_calls_go_in_order() -> None:
    limit, _ = limiter(1, None)
    order: list[int] = []

    async def one(n: int) -> None:
        await limit.acquire(1)
        order.append(n)

    await asyncio.gather(*(one(n) for n in range(4)))
    assert order == [0, 1, 2, 3]


async def test_a_limited_model_counts_what_the_server_counted() -> None:
    limit, clock = limiter(None, 1000)
    model = Limited(ScriptedModel(lambda r: Reply("x", usage=Usage(5, 5))), limit)
    request = ask(max_tokens=900, messages=(Message("user", "x" * 40),))
    assert estimate(request) == 910
    await model.complete(request)
    await model.complete(request)
    assert clock.now == 0  # 10 really used, then 910 estimated
    unknown = Limited(ScriptedModel(lambda r: Reply("x", usage=Usage(5, None))), limit)
    await unknown.complete(request)
    await unknown.complete(request)
    assert clock.now == 60


async def test_an_idle_limiter_is_out_of_the_way() -> None:
    model = Limited(ScriptedModel(lambda r: "x"), Limiter(None, None))
    assert (await model.complete(ask())).text == "x"
    assert (model.name, model.base_url, model.can_score) == ("scripted", None, False)


# --- connections ---


@pytest.mark.parametrize(("files", "found"), [(1044, 512), (276, 128), (1, 1), (100_000, 600)])
def test_half_of_the_files_that_are_left(monkeypatch: pytest.MonkeyPatch, files: int, found: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (files, files))
    monkeypatch.setattr(Path, "iterdir", lambda path: iter([path] * 20))
    assert connections(600) == found


def test_where_nothing_says_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1024, 1024))
    monkeypatch.setattr(Path, "iterdir", lambda path: Path("/no/such").stat())
    assert connections(600) == 512


def test_without_a_limit_of_files_as_many_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda what: (endless, endless))
    assert connections(7) == 7
