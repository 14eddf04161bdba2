"""`mcp:WHERE`: the tools of an MCP server as a world: call tools, then answer.

WHERE is the address of a server that speaks streamable HTTP (`mcp:http://127.0.0.1:8000/mcp`) or the command
that starts one on its standard streams (`mcp:python server.py`), which then runs once an episode. A task's
`params`: `answers` (golden, a list; else every answer scores 0), `tools` (names of those shown, all if left
out), `begin` (calls made before the first observation, unseen: a server that goes on between episodes has to
be brought to its beginning), `calls` (what leads to the answer, for a plan), `max_steps` 20.

Who may be called: an address on this computer may stand in a task file; a command, or an address elsewhere,
works only where the user named it on the command line (`--env`), began the run here, or vouched for it
(`--trust`): `allow`. Owns the conversation (one thread a session, for the package is asynchronous), the form
of actions and the score. Leaves out prompts, resources, sampling and questions of the server to the user.
Needs the extra `mcp`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from roleagent_lite.envs import params, toolcall
from roleagent_lite.envs.reach import HERE, listens
from roleagent_lite.envs.search.answers import exact
from roleagent_lite.errors import ConfigError, EnvironmentFault, MissingExtra
from roleagent_lite.types import Observation, Task, Transition

PREFIX = "mcp:"
STEPS = 20
TIMEOUT = 60.0  # seconds for one call, and for a server to start
MOST_TOOLS = 1000
MOST_SHOWN = 6000  # characters of one result
WANTS = "goal and params.answers (a list)"
VOCABULARY = f"{toolcall.FORM}, or answer[TEXT] to end"
_ANSWER = re.compile(r"\s*answer\[(.*)\]\s*", re.S)

_allowed: set[str] = set()


def allow(name: str) -> None:
    """Says that the user named this environment: its command or its distant server may be used."""
    if name.startswith(PREFIX):
        _allowed.add(name)


def _is_address(where: str) -> bool:
    return where.startswith(("http://", "https://"))


def _vetted(name: str) -> str:
    """What follows `mcp:`, if it may be used. Raises ConfigError."""
    where = name.removeprefix(PREFIX).strip()
    if not where:
        raise ConfigError(f"environment {name}: name a server's address or the command that starts it")
    if name in _allowed or (_is_address(where) and urlsplit(where).hostname in HERE):
        return where
    what = "calls a server elsewhere" if _is_address(where) else "starts a program"
    raise ConfigError(
        f"environment {name} {what}, which a task file alone may not ask for: if you trust it, name it on "
        f"the command line (--env {shlex.quote(name)}, with --tasks FILE for its tasks)"
    )


def ready(name: str) -> str:
    """What follows `mcp:`, if it can be used here. Raises MissingExtra, ConfigError, EnvironmentFault."""
    if find_spec("mcp") is None:
        raise MissingExtra(f"environment {name} needs the package mcp: pip install 'roleagent-lite[mcp]'")
    where = _vetted(name)
    if _is_address(where):
        if not listens(where):
            raise EnvironmentFault(f"{name} does not answer as an MCP server: nothing listens there")
        return where
    try:
        program = shlex.split(where)[0]
    except ValueError as error:  # a quotation mark too few
        raise ConfigError(f"environment {name}: the command cannot be read: {error}") from None
    if shutil.which(program) is None:
        raise ConfigError(f"environment {name}: there is no program '{program}' on PATH")
    return where


def texts_of(task: Task) -> tuple[list[str] | None, ...]:
    """A task's answers, calls, begin and tools. Raises ConfigError."""
    answers, calls, begin, tools = (params.texts(task, key) for key in ("answers", "calls", "begin", "tools"))
    return answers, calls, begin, tools


def limit(task: Task) -> int:
    """Steps an episode may have: params.max_steps, else 20."""
    return params.steps(task, STEPS)


class Session:
    """One connection to a server, from another thread. Raises EnvironmentFault where it fails."""

    def __init__(self, name: str) -> None:
        self._where = ready(name)
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._inbox: asyncio.Queue[tuple[str, dict[str, Any], Future[Any]] | None] = asyncio.Queue()
        opened: Future[list[Any]] = Future()
        self._thread = threading.Thread(target=self._run, args=(opened,), daemon=True)
        self._thread.start()
        try:
            self.tools = self._wait(opened, "does not answer as an MCP server")
        except EnvironmentFault:
            self.close()
            raise

    def _run(self, opened: Future[list[Any]]) -> None:
        with (
            Path(os.devnull).open("w", encoding="utf-8") as silence,  # what it says on standard error
            asyncio.Runner(loop_factory=lambda: self._loop) as runner,
        ):
            try:
                runner.run(self._talk(opened, silence))
            except BaseException as error:  # noqa: BLE001  # border: an MCP server
                if not opened.done():
                    opened.set_exception(error)
            while not self._inbox.empty():  # who waits is told
                item = self._inbox.get_nowait()
                if item is not None and not item[2].done():
                    item[2].set_exception(EnvironmentFault("the connection has ended"))

    async def _talk(self, opened: Future[list[Any]], silence: Any) -> None:
        from mcp import Client

        async with Client(self._server(silence), read_timeout_seconds=TIMEOUT, cache=None) as client:
            tools, cursor = [], None
            while True:
                page = await client.list_tools(cursor=cursor)
                tools += page.tools
                cursor = page.next_cursor
                if not cursor or len(tools) > MOST_TOOLS:
                    break
            opened.set_result(tools)
            while (item := await self._inbox.get()) is not None:
                name, arguments, answer = item
                try:
                    answer.set_result(await client.call_tool(name, arguments))
                except Exception as error:  # noqa: BLE001  # border: an MCP server
                    answer.set_exception(error)

    def _server(self, silence: Any) -> Any:
        if _is_address(self._where):
            return self._where
        from mcp import StdioServerParameters
        from mcp.client.stdio import stdio_client

        command, *arguments = shlex.split(self._where)
        return stdio_client(StdioServerParameters(command=command, args=arguments), errlog=silence)

    def _wait(self, answer: Future[Any], what: str) -> Any:
        try:
            return answer.result(TIMEOUT + 5)
        except EnvironmentFault:
            raise
        except BaseException as error:  # border: an MCP server
            if isinstance(error, KeyboardInterrupt):
                raise
            raise EnvironmentFault(f"{self._name} {what}: {_innermost(error)}") from error

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """What a tool says, and whether it says that it failed."""
        answer: Future[Any] = Future()
        if not self._thread.is_alive():
            raise EnvironmentFault(f"{self._name}: the connection has ended")
        self._loop.call_soon_threadsafe(self._inbox.put_nowait, (tool, arguments, answer))
        result = self._wait(answer, f"failed at {tool}")
        return _text(result.content), bool(result.is_error)

    def close(self) -> None:
        """Ends the conversation, and the server where it was started for it."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._inbox.put_nowait, None)
            self._thread.join(TIMEOUT)


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:300]


def _text(content: Sequence[Any]) -> str:
    """Content as text; what is none is named."""
    parts = [str(block.text) if block.type == "text" else f"[{block.type}]" for block in content]
    text = "\n".join(parts)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


class Tools:
    """An Environment: one session, one answer; a plan where the task gives `calls`."""

    def __init__(self, name: str, task: Task) -> None:
        golden, self._plan, begin, shown = texts_of(task)
        self._golden = golden or []
        self._session = Session(name)
        try:
            known = {tool.name: tool for tool in self._session.tools}
            lacking = [one for one in shown or () if one not in known]
            if lacking:
                raise ConfigError(
                    f"task {task.id}: {name} has no tool {lacking[0]}; it has {', '.join(known)}"
                )
            self._tools = known
            for action in begin or ():
                text, valid = self._called(action)
                if not valid:
                    raise ConfigError(f"task {task.id}: params.begin: {text}")
            self._tools = {one: known[one] for one in shown or known}
        except BaseException:
            self._session.close()
            raise
        self._listed = "Tools:\n" + "\n".join(
            toolcall.line(tool.name, tool.description or "", tool.input_schema or {})
            for tool in self._tools.values()
        )
        self._seen = f"{task.goal}\n\n{self._listed}"
        self._score, self._done = 0.0, False

    def observe(self) -> Observation:
        return Observation(self._seen)

    def _called(self, action: str) -> tuple[str, bool]:
        """What a call brings, and whether it was one."""
        found = toolcall.split(action)
        if found is None:
            return f"This is no action. Write {VOCABULARY}.", False
        name, written = found
        if name not in self._tools:
            return f"There is no tool {name}.", False
        arguments = toolcall.arguments(name, written)
        if isinstance(arguments, str):
            return arguments, False
        text, failed = self._session.call(name, arguments)
        return (f"{name} failed: {text}" if failed else text), True

    def step(self, action: str) -> Transition:
        """A call shows what it brings, with the tools below it; an answer ends the episode."""
        if self._done:
            return Transition(self.observe(), 0.0, True, valid=False)
        answered = _ANSWER.fullmatch(action)
        if answered is not None:
            self._done, self._score = True, float(exact(answered[1], self._golden)) if self._golden else 0.0
            self._seen = f"You answered: {answered[1]}"
            return Transition(self.observe(), self._score, True)
        text, valid = self._called(action)
        self._seen = f"{text}\n\n{self._listed}"
        return Transition(self.observe(), 0.0, False, valid)

    def score(self) -> float:
        """1.0 where the answer equals a golden one but for case, punctuation and articles, else 0.0."""
        return self._score

    def walkthrough(self) -> list[str]:
        """The calls that the task names, then a golden answer. Raises ConfigError where it names none."""
        if self._plan is None or not self._golden:
            raise ConfigError(
                "this task does not say what leads to its answer (params.calls, params.answers)"
            )
        return [*self._plan, f"answer[{self._golden[0]}]"]

    def close(self) -> None:
        """Ends the session."""
        self._session.close()
