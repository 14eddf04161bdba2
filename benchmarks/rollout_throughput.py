"""Throughput of 64 concurrent model calls against a local server, as a share of the most that is possible.

The server runs in a process of its own and answers after a drawn latency. The limit is 64 / mean latency
calls a second: what 64 callers reach that need no time of their own. The same number of calls is made in
the same run by (a) this project's models, recorder, ledger and retry policy included, and (b) a bare
asyncio loop over the openai SDK without any of that.

    python benchmarks/rollout_throughput.py [--calls 1920] [--fixed]

Goal: at least 0.90 of the limit on two idle cores at latencies spread over 100 to 300 ms, and ahead of (b).
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

ROOT = Path(__file__).resolve().parent.parent
CALLERS = 64
PROMPT = (
    "You are in the middle of a room. Looking quickly around you, you see a shelf, a drawer, a desk. " * 31
)
REPLY = '{"thought": "The key must be near.", "action": "take key", "predictions": ["You hold the key."]}'


@contextlib.contextmanager
def server(low: float, high: float) -> Iterator[str]:
    """The fake server in another process; yields its base URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fake_server", "--low", str(low), "--high", str(high), "--reply", REPLY],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.stdin.close()
        process.wait(10)


async def spread(one: Callable[[int], Awaitable[None]], calls: int) -> tuple[float, float]:
    """(seconds, CPU milliseconds a call) for `calls` calls by 64 callers; `one(n)` makes the n-th call.

    Callers take the next call from one queue, as rollouts take the next episode.
    """
    todo = iter(range(calls))

    async def caller() -> None:
        for n in todo:
            await one(n)

    await asyncio.gather(*(one(-1 - number) for number in range(CALLERS)))  # connections and imports
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, 1000 * cpu / calls


async def ours(url: str, calls: int) -> tuple[float, float]:
    from roleagent_lite.config import from_mapping
    from roleagent_lite.lm.pool import open_models
    from roleagent_lite.store import Run
    from roleagent_lite.types import Message, Request

    config = from_mapping({"model": "openai/fake", "limits": {"base_url": url}, "budget": {"price": "1/2"}})
    with tempfile.TemporaryDirectory() as folder, Run.create(Path(folder) / "run", config) as run:
        async with open_models(config, run) as models:
            agent = models["agent"]

            async def one(n: int) -> None:
                messages = (Message("system", PROMPT), Message("user", f"This is call {n}."))
                await agent.complete(Request("agent", "act", messages, temperature=0.9, sample=str(n)))

            return await spread(one, calls)


async def bare(url: str, calls: int) -> tuple[float, float]:
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

        return await spread(one, calls)


async def compare(low: float, high: float, calls: int) -> None:
    limit = CALLERS / ((low + high) / 2)
    print(f"latency {low * 1000:.0f} to {high * 1000:.0f} ms, {CALLERS} callers, limit {limit:.0f} calls/s")
    shares = {}
    for name, run in (("roleagent-lite", ours), ("bare openai SDK", bare)):
        with server(low, high) as url:
            seconds, cpu = await run(url, calls)
        shares[name] = calls / seconds / limit
        print(f"  {name:16} {shares[name]:.3f} of the limit, {cpu:.2f} ms CPU a call")
    print(f"  ours / bare      {shares['roleagent-lite'] / shares['bare openai SDK']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=1920)
    parser.add_argument("--fixed", action="store_true", help="also at a fixed latency of 200 ms")
    args = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    asyncio.run(compare(0.1, 0.3, args.calls))
    if args.fixed:
        asyncio.run(compare(0.2, 0.2, args.calls))


if __name__ == "__main__":
    main()
