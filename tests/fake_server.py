"""FAKE: a small model server on 127.0.0.1 that plays a script, counts requests and keeps what it was sent.

Speaks OpenAI's chat dialect (`/v1/chat/completions`, `/v1/models`) and Anthropic's messages
(`/v1/messages`). It runs in a thread of its own, or in a process of its own: `python -m tests.fake_server`
prints its port and serves until its input closes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

COUNTED: Mapping[str, Any] = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


@dataclass(frozen=True)
class Seen:
    """One request as it arrived; `at` in seconds of the monotonic clock, `number` from 0."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    at: float


@dataclass(frozen=True)
class Say:
    """A reply, put into the dialect of the path that was asked. `usage` None: the field is left out."""

    text: str | None
    finish: str = "stop"
    usage: Any = field(default_factory=lambda: dict(COUNTED))
    message: Mapping[str, Any] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True)
class Raw:
    """Bytes as they are. `cut`: this many bytes of the body are sent under its full length, then the end."""

    status: int = 200
    body: Any = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    cut: int | None = None
    delay: float = 0.0


Answer = Say | Raw
Script = Callable[[Seen], Answer]


def fail(status: int, message: str = "", code: str | None = None, **headers: str) -> Raw:
    """An error in OpenAI's shape; header names are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(status, {"error": {"message": message, "code": code, "type": code}}, named)


def refuse(parameter: str, message: str) -> Raw:
    """A 400 that names the parameter it is about."""
    return Raw(400, {"error": {"message": message, "param": parameter, "code": "unsupported_value"}})


def stream(pieces: Sequence[str], *, finish: str | None = "stop", done: bool = True, last: Any = None) -> Raw:
    """A stream of content deltas; without `finish` and `done` it breaks off. `last`: one more event."""
    events: list[Any] = [{"choices": [{"index": 0, "delta": {"content": p}}]} for p in pieces]
    if finish is not None:
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if last is not None:
        events.append(last)
    text = "".join(f"data: {json.dumps(e)}\n\n" for e in events) + ("data: [DONE]\n\n" if done else "")
    return Raw(200, text, {}, "text/event-stream")


def in_turn(*answers: Answer) -> Script:
    """One answer after another; the last one for ever."""
    return lambda seen: answers[min(seen.number, len(answers) - 1)]


def always(text: str) -> Script:
    return lambda seen: Say(text)


class FakeServer:
    """`with FakeServer(script) as fake:` then `fake.url`, `fake.requests`, `fake.count`.

    `script` sees the chat requests alone; they are numbered from 0. `paths`: where the chat endpoint answers
    (404 elsewhere); `latency`: seconds, or a range drawn from with `seed`; `models`: what `/models` lists.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        latency: float | tuple[float, float] = 0.0,
        paths: Sequence[str] = ("/v1/chat/completions", "/v1/messages"),
        models: Sequence[str] = ("fake",),
        seed: int = 0,
    ) -> None:
        self.requests: list[Seen] = []
        self.others: list[Seen] = []
        self.slept: list[float] = []
        self.port = 0
        self._script = script or always('{"action": "take key"}')
        self._latency, self._paths, self._models = latency, tuple(paths), tuple(models)
        self._random = random.Random(seed)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake-server", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def count(self) -> int:
        """Chat requests so far."""
        return len(self.requests)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10), "the fake server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.run(self.serve())

    async def serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {
            k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)
        }
        data = await reader.readexactly(int(headers.get("content-length", "0")))
        body = json.loads(data) if data else None
        bare = path.partition("?")[0]
        if method == "POST" and bare in self._paths:
            seen = Seen(len(self.requests), method, path, headers, body, time.monotonic())
            self.requests.append(seen)
            pause = self._pause()
            answer = self._script(seen)
            await asyncio.sleep(pause + answer.delay)
        else:
            self.others.append(Seen(len(self.others), method, path, headers, body, time.monotonic()))
            answer = self._other(method, bare)
        raw = encode(answer, bare) if isinstance(answer, Say) else answer
        return await self._write(writer, raw)

    def _pause(self) -> float:
        pause = (
            self._latency if isinstance(self._latency, float | int) else self._random.uniform(*self._latency)
        )
        if pause:
            self.slept.append(pause)
        return pause

    def _other(self, method: str, path: str) -> Raw:
        roots = {p.removesuffix("/chat/completions").removesuffix("/messages") for p in self._paths}
        if method == "GET" and path.endswith("/models") and path.removesuffix("/models") in roots:
            return Raw(200, {"object": "list", "data": [{"id": m, "object": "model"} for m in self._models]})
        return Raw(404, "404 page not found", {}, "text/plain")

    @staticmethod
    async def _write(writer: asyncio.StreamWriter, raw: Raw) -> bool:
        body = raw.body if isinstance(raw.body, str) else json.dumps(raw.body)
        data = body.encode("utf-8", errors="surrogatepass")
        lines = [f"HTTP/1.1 {raw.status} X", f"Content-Type: {raw.kind}", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in raw.headers.items()]
        sent = data if raw.cut is None else data[: raw.cut]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + sent)
        await writer.drain()
        return raw.cut is None


def encode(say: Say, path: str) -> Raw:
    if path.endswith("/messages"):
        used = say.usage or {}
        return Raw(200, {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "fake",
            "content": [{"type": "text", "text": say.text or ""}],
            "stop_reason": {"stop": "end_turn", "length": "max_tokens"}.get(say.finish, say.finish),
            "usage": {"input_tokens": used.get("prompt_tokens"),
                      "output_tokens": used.get("completion_tokens")},
        })  # fmt: skip
    message = {"role": "assistant", "content": say.text, **say.message}
    body: dict[str, Any] = {
        "id": "c-1", "object": "chat.completion", "created": 0, "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": say.finish}],
    }  # fmt: skip
    if say.usage is not None:
        body["usage"] = None if say.usage == "null" else say.usage
    return Raw(200, body)


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--low", type=float, default=0.0, help="shortest latency, seconds")
    parser.add_argument("--high", type=float, default=0.0, help="longest latency, seconds")
    parser.add_argument("--reply", default='{"action": "take key"}')
    args = parser.parse_args()
    fake = FakeServer(always(args.reply), latency=(args.low, args.high))
    serving = asyncio.create_task(fake.serve())
    while not fake.port:
        await asyncio.sleep(0.01)
    print(fake.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the parent goes
    fake._stop.set()
    await serving


if __name__ == "__main__":
    asyncio.run(_main())
