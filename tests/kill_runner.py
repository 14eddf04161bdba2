"""Runs in processes of their own, and their violent ends: what the tests of resume need of a second process.

A fork server imports the heavy libraries once, so that a session costs its work and not its imports. In such
a process the scripted kitchen plays a run; every request that reaches its model leaves a line in a side file,
outside the run, under the recorder's key. The process can kill itself (SIGKILL) once the tables have grown by
a given number of bytes, which is nearly always inside a record: then half of that record is on the disk.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sys
import threading
import zlib
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from roleagent_lite import jobs
from roleagent_lite.cli import main as entry
from roleagent_lite.config import from_mapping
from roleagent_lite.lm.recorder import Recorder
from roleagent_lite.memory import Memory
from roleagent_lite.table import Table
from roleagent_lite.types import Request
from tests.scripted_world import provider, rule

# Everything slow but LanceDB, whose threads do not survive a fork.
HEAVY = ["tests.kill_runner", "dspy", "gepa", "scipy.stats", "pandas", "pyarrow", "aiohttp", "rich.progress"]
HEAVY += ["lance_namespace_urllib3_client"]
DEADLINE = 120.0  # seconds until a session that hangs fails its test
_key: ContextVar[str] = ContextVar("key")


@dataclass(frozen=True)
class Session:
    """One process's part in a run. `die_at`: bytes that the tables may grow by, None = to the end;
    `die_indexing`: seconds after the writing of the search index has begun."""

    run: Path
    settings: Mapping[str, Any]
    sent: Path
    die_at: int | None = None
    die_indexing: float | None = None
    replay: bool = False


def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """A forked process that has begun to run `target`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(HEAVY)
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def finish(process: BaseProcess) -> int:
    """Its exit code, negative for a signal."""
    process.join(DEADLINE)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"a session did not end within {DEADLINE:g} s")
    return process.exitcode


def play(session: Session) -> int:
    """Plays one session to its end in a process of its own; its exit code."""
    return finish(start(_play, session))


def begin(*arguments: str, cwd: Path, **environment: str) -> BaseProcess:
    """`roleagent-lite ARGUMENTS` in a forked process that goes on."""
    return start(run_command, arguments, cwd, environment)


def command(*arguments: str, cwd: Path, **environment: str) -> tuple[int, str, str]:
    """`roleagent-lite ARGUMENTS` in a forked process: exit code, standard output, standard error."""
    process = begin(*arguments, cwd=cwd, **environment)
    code = finish(process)
    out, err = (cwd / f"{process.pid}.{name}" for name in ("out", "err"))
    return code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")


# --- inside the child ---


def _play(session: Session) -> None:
    _key_every_request()
    if session.die_at is not None:
        die_after(session.die_at)
    if session.die_indexing is not None:
        _die_indexing(session.die_indexing)
    log = os.open(session.sent, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def logged(request: Request) -> str:
        line = {"key": _key.get(), "module": request.module, "pid": os.getpid()}
        os.write(log, json.dumps(line).encode() + b"\n")
        await asyncio.sleep(zlib.crc32(_key.get().encode()) % 4 / 1000)  # so that workers overlap
        return rule(request).replace("next:", "next →")  # a kill may fall inside a character, too

    models = None if session.replay else provider(logged)
    jobs.evolve(from_mapping(session.settings), run_dir=session.run, models=models, replay=session.replay)


def _key_every_request() -> None:
    """Lets the model know the recorder's key of the request it gets."""
    buy = Recorder._buy

    async def keyed(self: Recorder, run: Any, key: str, request: Request, inner: Any) -> Any:
        _key.set(key)
        return await buy(self, run, key, request, inner)

    setattr(Recorder, "_buy", keyed)  # noqa: B010 - mypy refuses a plain assignment to a method


def die_after(bytes_left: int) -> None:
    """This process kills itself once the tables have grown by so much, most likely inside a record."""
    append, left, lock = Table._append, [bytes_left], threading.Lock()

    def dying(self: Table[Any], data: bytes) -> int:
        with lock:
            if len(data) <= left[0]:
                left[0] -= len(data)
                return append(self, data)
            append(self, data[: left[0]])
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("killed")

    setattr(Table, "_append", dying)  # noqa: B010


def _die_indexing(seconds: float) -> None:
    replace = Memory.replace

    def dying(self: Memory, *arguments: Any, **named: Any) -> Any:
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return replace(self, *arguments, **named)

    setattr(Memory, "replace", dying)  # noqa: B010


def run_command(arguments: tuple[str, ...], cwd: Path, environment: Mapping[str, str]) -> None:
    """`roleagent-lite ARGUMENTS` in this process, its output in files named after it in `cwd`."""
    os.chdir(cwd)
    os.environ.update(environment)
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{os.getpid()}.{name}", os.O_WRONLY | os.O_CREAT), stream)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8")
    entry.main(arguments)
