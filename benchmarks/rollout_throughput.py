"""Throughput of 64 concurrent rollouts against a local server, as a share of the most that is possible.

The server runs in a process of its own and answers after a drawn latency. The limit is 64 / mean latency
calls a second: what 64 callers reach that need no time of their own. Measured in the same run, each while
all 64 are busy: (a) rollouts of this project: household episodes, prompts, DSPy, recorder, ledger, retry
policy and the environment's own work included; (b) its model calls alone, recorder included; (c) a bare
asyncio loop over the openai SDK that keeps nothing.

    python benchmarks/rollout_throughput.py [--calls 3200] [--fixed]

Goal: (a) at least 0.90 of the limit on two idle cores at latencies spread over 100 to 300 ms, and ahead of
(c). At a fixed latency all replies arrive together and wait for each other: `--fixed` is for the record.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CALLERS = 64
PROMPT = (
    "You are in the middle of a room. Looking quickly around you, you see a shelf, a drawer, a desk. " * 31
)
REPLY = '{"thought": "I should look around first.", "action": "look", "predictions": ["You see a shelf."]}'
Measured = tuple[float, float]  # calls a second, CPU milliseconds a call


@contextlib.contextmanager
def server(low: float, high: float) -> Iterator[str]:
    """The fake server in another process; yields its base URL."""
    command = [sys.executable, "-m", "tests.fake_server", "--low", str(low), "--high", str(high)]
    with subprocess.Popen(
        [*command, "--reply", REPLY], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.stdin.close()
            process.wait(10)


class Window:
    """Calls, seconds and CPU between `open` and `close`, each time with 64 in flight."""

    def __init__(self) -> None:
        self.measured: Measured | None = None
        self.opened = False

    def open(self, calls: int) -> None:
        self._calls, self._start, self._cpu = calls, time.perf_counter(), self._used()
        self.opened = True

    def close(self, calls: int) -> None:
        done = calls - self._calls
        seconds = time.perf_counter() - self._start
        self.measured = (done / seconds, 1000 * (self._used() - self._cpu) / done)

    @staticmethod
    def _used() -> float:
        now = resource.getrusage(resource.RUSAGE_SELF)
        return now.ru_utime + now.ru_stime


async def loop(one: Callable[[int], Awaitable[Any]], calls: int) -> Measured:
    """64 callers that take the next of `calls` calls; `one(n)` makes the n-th."""
    await asyncio.gather(*(one(-1 - number) for number in range(CALLERS)))  # connections and imports
    todo, window, done = iter(range(calls)), Window(), 0

    async def caller() -> None:
        nonlocal done
        for n in todo:
            await one(n)
            done += 1
            if done == CALLERS:
                window.open(done)
        if window.measured is None:  # nothing is left to start: from here on fewer than 64 are busy
            window.close(done)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    assert window.measured is not None
    return window.measured


@contextlib.asynccontextmanager
async def opened(url: str) -> Any:
    from roleagent_lite.config import from_mapping
    from roleagent_lite.lm.pool import open_models
    from roleagent_lite.store import Run

    config = from_mapping(
        {"model": "openai/fake", "limits": {"base_url": url}, "budget": {"price": "1/2"}, "workers": CALLERS}
    )
    with tempfile.TemporaryDirectory() as folder, Run.create(Path(folder) / "run", config) as run:
        async with open_models(config, run) as models:
            yield run, models


async def rollouts(url: str, calls: int) -> Measured:
    """(a): as many household episodes as make about `calls` calls."""
    from roleagent_lite.agents.make import make_agent
    from roleagent_lite.ask import Asker, load_prompts
    from roleagent_lite.rollout import Episode, play_many
    from roleagent_lite.tasksets import load_tasks
    from roleagent_lite.types import Progress

    tasks = load_tasks("household-medium", "train")
    async with opened(url) as (run, models):
        prompts = load_prompts("v1")
        agent = make_agent("generate", Asker(models, prompts), prompts.seed_set())

        async def play(number: int, count: int, listener: Callable[[Progress], None] | None = None) -> float:
            episodes = [Episode(tasks[n % len(tasks)], number, n, 0.9) for n in range(count)]
            before = models.ledger.snapshot().total.calls
            await play_many(agent, episodes, run=run, workers=CALLERS, model_name="fake", listener=listener)
            return float((models.ledger.snapshot().total.calls - before) / count)

        length = await play(0, CALLERS)  # connections and imports; how many calls an episode makes
        count = max(2 * CALLERS, int(calls / length))
        window = Window()

        def hear(progress: Progress) -> None:
            if not window.opened:
                window.open(models.ledger.snapshot().total.calls)
            if progress.done == count - CALLERS + 1 and window.measured is None:
                window.close(models.ledger.snapshot().total.calls)

        await play(1, count, hear)
        assert window.measured is not None
        return window.measured


async def calls_alone(url: str, calls: int) -> Measured:
    """(b): the models of this project, with record, ledger and retry policy."""
    from roleagent_lite.types import Message, Request

    async with opened(url) as (_, models):
        agent = models["agent"]

        async def one(n: int) -> None:
            messages = (Message("system", PROMPT), Message("user", f"This is call {n}."))
            await agent.complete(Request("agent", "act", messages, temperature=0.9, sample=str(n)))

        return await loop(one, calls)


async def bare(url: str, calls: int) -> Measured:
    """(c): nothing but the openai SDK."""
    import openai

    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def one(n: int) -> None:
            await client.chat.completions.create(
                model="fake",
                temperature=0.9,
                max_tokens=512,
                messages=[
                    {"role": "system", "content": PROMPT},
                    {"role": "user", "content": f"This is call {n}."},
                ],
            )

        return await loop(one, calls)


async def compare(low: float, high: float, calls: int) -> None:
    limit = CALLERS / ((low + high) / 2)
    print(f"latency {low * 1000:.0f} to {high * 1000:.0f} ms, {CALLERS} at once, limit {limit:.0f} calls/s")
    shares = {}
    for name, run in (("rollouts", rollouts), ("calls alone", calls_alone), ("bare openai SDK", bare)):
        with server(low, high) as url:
            rate, cpu = await run(url, calls)
        shares[name] = rate / limit
        print(f"  {name:16} {shares[name]:.3f} of the limit, {cpu:.2f} ms CPU a call", flush=True)
    print(f"  rollouts / bare  {shares['rollouts'] / shares['bare openai SDK']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=3200)
    parser.add_argument("--fixed", action="store_true", help="also at a fixed latency of 200 ms")
    args = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    asyncio.run(compare(0.1, 0.3, args.calls))
    if args.fixed:
        asyncio.run(compare(0.2, 0.2, args.calls))


if __name__ == "__main__":
    main()
