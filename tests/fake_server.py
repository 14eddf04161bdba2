"""FAKE: a small model server on 127.0.0.1 that plays a script, counts requests and keeps what it was sent.

Speaks OpenAI's chat dialect (`/v1/chat/completions`, `/v1/models`), Anthropic's messages (`/v1/messages`) and
Ollama's own (`/api/chat`, `/api/tags`; whole or as a stream of lines). It runs in a thread of its own, or in
a process of its own: `python -m tests.fake_server` prints its port and serves until its input closes.
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
    """A reply, put into the dialect of the path that was asked. `usage` None: the field is left out; "null":
    it is there and null. `finish` in OpenAI's words (another word stays as it is); `reasoning`: the thinking,
    in the dialect's own place. `message`: more fields of OpenAI's message; all know `refusal` of these.
    """

    text: str | None
    finish: str | None = "stop"
    usage: Any = field(default_factory=lambda: dict(COUNTED))
    message: Mapping[str, Any] = field(default_factory=dict)
    delay: float = 0.0
    reasoning: str | None = None


@dataclass(frozen=True)
class Raw:
    """Bytes, or text, as they are; anything else as JSON. `cut`: this many bytes of the body are sent under
    its full length, then the end. `chunked`: in chunks of 16 bytes, the last chunk missing where it is cut.
    `kind` "": no content type.
    """

    status: int = 200
    body: Any = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    cut: int | None = None
    delay: float = 0.0
    chunked: bool = False


Answer = Say | Raw
Script = Callable[[Seen], Answer]


def fail(status: int, message: str = "", code: str | None = None, **headers: str) -> Raw:
    """An error in OpenAI's shape; header names are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(status, {"error": {"message": message, "code": code, "type": code}}, named)


def anthropic_fail(status: int, kind: str, message: str = "", **headers: str) -> Raw:
    """An error in Anthropic's shape; status 200: an error object where a message was due."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(status, {"type": "error", "error": {"type": kind, "message": message or kind}}, named)


def ollama_fail(status: int, message: str) -> Raw:
    """An error in the shape of Ollama's own endpoints."""
    return Raw(status, {"error": message})


def page(status: int, title: str) -> Raw:
    """The web page that a proxy sends in place of an answer."""
    style = "<style>body { color: red } /* temperature system role */</style>"
    head = f"<head><title>{title}</title>{style}</head>"
    return Raw(status, f"<html>{head}<body><h1>{title}</h1></body></html>", {}, "text/html; charset=utf-8")


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


def anthropic_stream(pieces: Sequence[str], *, error: str = "", stop: str | None = "end_turn") -> Raw:
    """A stream of Anthropic's events; with `error` it breaks off in an error event of that type."""
    events: list[tuple[str, Any]] = [("message_start", {"message": {"id": "m", "role": "assistant"}})]
    events += [("content_block_delta", {"delta": {"type": "text_delta", "text": piece}}) for piece in pieces]
    if error:
        events.append(("error", {"error": {"type": error, "message": error}}))
    elif stop is not None:
        events += [("message_delta", {"delta": {"stop_reason": stop}}), ("message_stop", {})]
    text = "".join(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events)
    return Raw(200, text, {}, "text/event-stream")


def in_turn(*answers: Answer) -> Script:
    """One answer after another; the last one for ever."""
    return lambda seen: answers[min(seen.number, len(answers) - 1)]


def always(text: str) -> Script:
    return lambda seen: Say(text)


class FakeServer:
    """`with FakeServer(script) as fake:` then `fake.url`, `fake.requests`, `fake.count`.

    `script` sees the chat requests alone; they are numbered from 0. `paths`: where the chat endpoint answers
    (404 elsewhere); `latency`: seconds, or a range drawn from with `seed`; `models`: what `/models` lists;
    `host`: an address of this machine, "::1" for instance.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        latency: float | tuple[float, float] = 0.0,
        paths: Sequence[str] = ("/v1/chat/completions", "/v1/messages", "/api/chat"),
        models: Sequence[str] = ("fake",),
        seed: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        self.requests: list[Seen] = []
        self.others: list[Seen] = []
        self.slept: list[float] = []
        self.host, self.port = host, 0
        self._script = script or always('{"action": "take key"}')
        self._latency, self._paths, self._models = latency, tuple(paths), tuple(models)
        self._random = random.Random(seed)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake-server", daemon=True)

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"

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
        server = await asyncio.start_server(self._connection, self.host, self.port, backlog=1024)
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
        streaming = isinstance(body, Mapping) and bool(body.get("stream", bare == "/api/chat"))
        raw = encode(answer, bare, streaming) if isinstance(answer, Say) else answer
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
        if (method, path) == ("GET", "/api/tags") and "/api/chat" in self._paths:
            return Raw(200, {"models": [{"name": m, "model": m} for m in self._models]})
        return Raw(404, "404 page not found", {}, "text/plain")

    @staticmethod
    async def _write(writer: asyncio.StreamWriter, raw: Raw) -> bool:
        body = raw.body if isinstance(raw.body, str | bytes) else json.dumps(raw.body)
        data = body if isinstance(body, bytes) else body.encode("utf-8", errors="surrogatepass")
        sent = data if raw.cut is None else data[: raw.cut]
        lines = [f"HTTP/1.1 {raw.status} X", *([f"Content-Type: {raw.kind}"] if raw.kind else [])]
        lines += ["Transfer-Encoding: chunked" if raw.chunked else f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in raw.headers.items()]
        if raw.chunked:
            pieces = [sent[at : at + 16] for at in range(0, len(sent), 16)]
            sent = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
            sent += b"0\r\n\r\n" if raw.cut is None else b""
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + sent)
        await writer.drain()
        return raw.cut is None


def encode(say: Say, path: str, streaming: bool = False) -> Raw:
    """`say` in the dialect of `path`; Ollama's also as the stream that it sends where none is declined."""
    if path.endswith("/messages"):
        return _as_anthropic(say)
    if path.endswith("/api/chat"):
        return _as_ollama(say, streaming)
    message = {"role": "assistant", "content": say.text, **say.message}
    if say.reasoning is not None:
        message["reasoning_content"] = say.reasoning
    body: dict[str, Any] = {
        "id": "c-1", "object": "chat.completion", "created": 0, "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": say.finish}],
    }  # fmt: skip
    if say.usage is not None:
        body["usage"] = None if say.usage == "null" else say.usage
    return Raw(200, body)


def _as_anthropic(say: Say) -> Raw:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": say.text or ""}]
    if say.reasoning is not None:
        blocks.insert(0, {"type": "thinking", "thinking": say.reasoning, "signature": "c2ln"})
    words = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
    stop = "refusal" if say.message.get("refusal") else words.get(say.finish or "", say.finish)
    body: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": blocks,
        "stop_reason": stop,
    }  # fmt: skip
    if say.usage is not None:
        used = say.usage if isinstance(say.usage, Mapping) else {}
        counts = {"input_tokens": used.get("prompt_tokens"), "output_tokens": used.get("completion_tokens")}
        body["usage"] = None if say.usage == "null" else counts
    return Raw(200, body)


def _as_ollama(say: Say, streaming: bool) -> Raw:
    message: dict[str, Any] = {"role": "assistant", "content": say.text or ""}
    if say.reasoning is not None:
        message["thinking"] = say.reasoning
    last: dict[str, Any] = {"model": "fake", "done": True, "done_reason": say.finish}
    if isinstance(say.usage, Mapping):
        last["prompt_eval_count"] = say.usage.get("prompt_tokens")
        last["eval_count"] = say.usage.get("completion_tokens")
    if not streaming:
        return Raw(200, {**last, "message": message})
    lines = ({"model": "fake", "message": message, "done": False}, last)
    return Raw(200, "".join(json.dumps(line) + "\n" for line in lines), {}, "application/x-ndjson")


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
