"""`verifiers:ID`: an environment of the `verifiers` library, its classic kind, as a world.

Owns the turning of the loop inside out: the environment plays its own `rollout`, and asks the client that it
was given for each reply; here that client waits for the agent's action. So stop conditions, tools and errors
are the environment's own, and its rubric scores the end. Classic are MultiTurnEnv and what is made of it
(SingleTurnEnv, ToolEnv, EnvGroup), of `verifiers` 0.1.14 to 0.3. Leaves out that library's v1 framework,
which runs the model itself behind a server and has no step to take, rewards that compare the rollouts of a
group, and pictures.

A task's `params`: `row` of the environment's data, `from` ("train" or "eval", the latter where there is any),
`kwargs` (given to its `load_environment`), `success_at` (the reward from which an episode counts as solved;
without it the score is the reward itself, held to 0..1), `max_steps` (the environment's own turns, else 30).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any

from roleagent_lite.envs import params, toolcall
from roleagent_lite.errors import ConfigError, EnvironmentFault, MissingExtra
from roleagent_lite.types import Observation, Task, Transition

PREFIX = "verifiers:"
STEPS = 30
WAIT = 600.0  # seconds that an environment may take to answer a reply
MOST_ROWS = {"train": 2000, "eval": 600}  # of an environment's data, as tasks without a file
MODEL = "roleagent-lite"
VOCABULARY = (
    "your reply to the environment's last message, in the form that it asks for; where it lists tools, "
    f"{toolcall.FORM} calls one"
)
NEEDED = "pip install 'verifiers>=0.1.14,<0.4'"
OVER = "The episode has ended."
_loads, _loops = threading.Lock(), threading.Lock()
_Shown = list[tuple[str, str]]  # messages as (role, text)


def library(name: str) -> Any:
    """The package, in a version with the classic interface. Raises MissingExtra."""
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")  # our screen has its own
    logging.getLogger("verifiers").setLevel(logging.ERROR)  # its warnings are for who writes environments
    try:
        import verifiers
        import verifiers.clients
        import verifiers.envs.environment as base
    except ImportError as error:
        if error.name == "verifiers" or not (error.name or "").startswith("verifiers."):
            raise MissingExtra(
                f"environment {name} needs the package verifiers ({error}): {NEEDED}"
            ) from None
        raise MissingExtra(
            f"environment {name}: verifiers {metadata.version('verifiers')} has not the classic interface, "
            "which 0.1.14 to 0.3 have (from 0.4 on its v1 framework runs the model itself and offers no "
            f"step): {NEEDED}"
        ) from None
    # Where an environment is made the library takes SIGINT and SIGTERM for itself, which fails outside the
    # main thread; here they are the program's.
    base.signal = SimpleNamespace(**{**vars(signal), "signal": lambda *_: None})
    return verifiers


def _loaded(name: str, kwargs: str) -> Any:
    with _loads:  # one at a time: two episodes that begin at once share what the first one loads
        return _load(name, kwargs)


@cache
def _load(name: str, kwargs: str) -> Any:
    package = library(name)
    try:
        env = package.load_environment(name.removeprefix(PREFIX), **json.loads(kwargs))
    except (Exception, SystemExit) as error:  # border: a stranger's module
        raise ConfigError(f"environment {name} cannot be loaded: {error}") from error
    if any(kind.__module__.startswith("verifiers.v1") for kind in type(env).__mro__):
        raise ConfigError(
            f"environment {name} is written for verifiers' v1 framework, which runs the model itself and "
            "offers no step; classic environments (MultiTurnEnv, SingleTurnEnv, ToolEnv) can be played"
        )
    if getattr(env.rubric, "has_group_rewards", False):
        raise ConfigError(f"environment {name} rewards the rollouts of a group against each other")
    return env


def _environment(name: str, task: Task) -> Any:
    kwargs = task.params.get("kwargs", {})
    if not isinstance(kwargs, Mapping):
        raise ConfigError(f"task {task.id}: params.kwargs must be an object, found {kwargs!r:.80}")
    return _loaded(name, json.dumps(dict(kwargs), sort_keys=True))


def _data(env: Any, source: str) -> Any:
    """Its rows of a source, None where it has none of its own."""
    kept = "dataset" if source == "train" else "eval_dataset"
    if getattr(env, kept, None) is None and getattr(env, f"{kept}_source", None) is None:
        return None
    return env.get_dataset() if source == "train" else env.get_eval_dataset()


def _row(name: str, env: Any, task: Task) -> dict[str, Any]:
    """The row of the environment's data that `task` names. Raises ConfigError."""
    first = "train" if _data(env, "eval") is None else "eval"
    source = params.choice(task, "from", ("train", "eval"), first)
    data, number = _data(env, source), params.whole(task, "row")
    if data is None or number >= len(data):
        held = "no data" if data is None else f"{len(data)} rows, counted from 0,"
        raise ConfigError(f"task {task.id}: params.row is {number}, but {name} has {held} under '{source}'")
    return dict(data[number])


def rows(name: str) -> Iterator[dict[str, Any]]:
    """The environment's data as task rows: `train` for training, `eval` one in three for dev, else for test.

    Where it has only one of the two, no split is named. At most 2,000 and 600 rows.
    """
    env = _loaded(name, "{}")
    sources = {one: data for one in MOST_ROWS if (data := _data(env, one)) is not None}
    for source, data in sources.items():
        for number in range(min(len(data), MOST_ROWS[source])):
            row = {"id": f"{source}-{number}", "params": {"row": number, "from": source}}
            row["goal"] = _text(_shown(data[number].get("prompt") or []))
            if len(sources) > 1:
                row["split"] = "train" if source == "train" else "test" if number % 3 else "dev"
            yield row


def limit(name: str, task: Task) -> int:
    """Steps an episode may have: params.max_steps, else the environment's own turns, else 30."""
    turns = getattr(_environment(name, task), "max_turns", 0)
    return params.steps(task, turns if isinstance(turns, int) and turns > 0 else STEPS)


def _said(content: Any) -> str:
    """A message's content as text; what is none in it is named."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(str(one.get("text") or f"[{one.get('type', 'part')}]") for one in content)


def _shown(messages: Any) -> _Shown:
    if isinstance(messages, str):
        return [("user", messages)]
    return [(str(one.get("role")), _said(one.get("content"))) for one in messages]


def _text(messages: _Shown) -> str:
    """Messages as one text; who said which only where some of them are an assistant's (examples)."""
    named = any(role == "assistant" for role, _ in messages)
    return "\n\n".join(f"{role}: {text}" if named else text for role, text in messages if text.strip())


def _new(before: _Shown, now: _Shown) -> _Shown:
    """What was said since `before` and one reply; all of it where the environment has begun anew."""
    if now[: len(before)] != before:
        return now
    rest = now[len(before) :]
    return rest[1:] if rest and rest[0][0] == "assistant" else rest


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The loop that all rollouts run on, in a thread of its own: environments share what they hold."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="verifiers", daemon=True).start()
    return loop


class _Rollout:
    """One rollout of the environment, which waits for its replies. Raises EnvironmentFault where it fails."""

    _reply: asyncio.Future[Any]  # what the environment waits for
    _task: asyncio.Task[None]

    def __init__(self, name: str, env: Any, row: dict[str, Any]) -> None:
        self._name, self._env, self._row = name, env, row
        self._told: SimpleQueue[Any] = SimpleQueue()  # (messages, tools) that wait for a reply, or the end
        self._over = threading.Event()
        self._said = 0
        self.state: Any = None
        with _loops:
            self._on = _loop()
        self._on.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._task = self._on.create_task(self._play())

    async def _play(self) -> None:
        try:
            state = await self._env.rollout(self._row, self._client(), MODEL, {})
            if state.get("error") is None:
                await self._env.rubric.score_rollout(state)
            await self._env.rubric.cleanup(state)
            self._told.put(state)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # border: a stranger's
            self._told.put(error)
        finally:
            self._over.set()

    def _client(self) -> Any:
        """A client of the library's kind whose replies are the agent's actions."""
        from verifiers.clients import Client

        async def get_response(
            _: Any, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **more: Any
        ) -> Any:
            self._reply = self._on.create_future()
            self._told.put((_shown(prompt), list(tools or ())))
            return await self._reply

        def unused(*_: Any, **__: Any) -> Any:
            raise NotImplementedError("the agent answers; no server is called")

        body = dict.fromkeys(Client.__abstractmethods__, unused) | {"get_response": get_response}
        return type("Agent", (Client,), body)(SimpleNamespace())

    def next(self) -> tuple[_Shown, list[Any]] | None:
        """(all messages, tools) where a reply is waited for; None at the end, with `state`."""
        try:
            told = self._told.get(timeout=WAIT)
        except Empty:
            raise EnvironmentFault(f"{self._name} has not answered for {WAIT:g} seconds") from None
        if isinstance(told, tuple):
            return told
        if isinstance(told, BaseException):
            raise EnvironmentFault(f"{self._name}: {type(told).__name__}: {told}") from told
        if (error := told.get("error")) is not None:
            raise EnvironmentFault(f"{self._name}: {error!r:.500}")
        self.state = told
        return None

    def reply(self, text: str, call: tuple[str, dict[str, Any]] | None = None) -> None:
        """Gives the waiting environment its reply: a text, or a call of one of its tools."""
        from verifiers.types import Response, ResponseMessage, ToolCall

        self._said += 1
        calls = None
        if call is not None:
            calls = [ToolCall(id=f"call-{self._said}", name=call[0], arguments=json.dumps(call[1]))]
        message = ResponseMessage(
            content=text,
            tool_calls=calls,
            finish_reason="tool_calls" if calls else "stop",
            is_truncated=False,
        )
        said = Response(id=f"reply-{self._said}", created=0, model=MODEL, message=message)
        self._on.call_soon_threadsafe(self._reply.set_result, said)

    def cut(self) -> None:
        """Ends it as the library does where a conversation has become too long; it is scored as it stands."""
        from verifiers.errors import OverlongPromptError

        self._on.call_soon_threadsafe(self._reply.set_exception, OverlongPromptError("cut off"))

    def close(self) -> None:
        """Ends it without a score; the environment cleans up."""
        if not self._over.is_set():
            self._on.call_soon_threadsafe(lambda: self._task.cancel())
            self._over.wait(WAIT)


class Classic:
    """An Environment: one rollout of a classic `verifiers` environment."""

    def __init__(self, name: str, task: Task) -> None:
        self._success_at = task.params.get("success_at")
        if not isinstance(self._success_at, int | float | None) or isinstance(self._success_at, bool):
            raise ConfigError(f"task {task.id}: params.success_at must be a number")
        env = _environment(name, task)
        self._made = (name, env, _row(name, env, task))
        self._actions: list[str] = []
        self._score = 0.0
        self._open()

    def _open(self) -> None:
        self._rollout = _Rollout(*self._made)
        self._before: _Shown = []
        self._tools: dict[str, Any] = {}
        self._seen, self._listed = "", ""
        self._done = self._cut = False
        try:
            self._read()
        except BaseException:
            self._rollout.close()
            raise

    def _read(self) -> None:
        """Takes in what the environment says next."""
        told = self._rollout.next()
        if told is None:
            last = self._rollout.state.get("final_env_response")
            self._seen, self._done = _text(_shown(last or [])) or OVER, True
            self._score = self._scored()
            return
        now, tools = told
        self._seen = _text(_new(self._before, now)) or "The environment says nothing."
        self._before = now
        self._tools = {tool.get("name"): tool for tool in tools}
        self._listed = "".join(
            "\n" + toolcall.line(name, tool.get("description") or "", tool.get("parameters") or {})
            for name, tool in self._tools.items()
        )

    def _scored(self) -> float:
        reward = float(self._rollout.state.get("reward") or 0.0)
        if self._success_at is not None:
            return float(reward >= self._success_at)
        return min(1.0, max(0.0, reward))

    def observe(self) -> Observation:
        listed = f"\n\nTools:{self._listed}" if self._listed and not self._done else ""
        return Observation(self._seen + listed)

    def step(self, action: str) -> Transition:
        """Replies to the environment; a call of a tool whose arguments cannot be read is told and no turn."""
        if self._cut:  # the score was asked for on the way: that rollout is over, another goes the same way
            self._open()
            for earlier in list(self._actions):
                self._say(earlier)
        if self._done:
            return Transition(self.observe(), 0.0, True, valid=False)
        problem = self._say(action)
        if problem:
            self._seen = problem
            return Transition(self.observe(), 0.0, False, valid=False)
        self._actions.append(action)
        return Transition(self.observe(), self._score if self._done else 0.0, self._done)

    def _say(self, action: str) -> str:
        """Sends a reply and takes in the answer; a sentence where it cannot be sent."""
        call = toolcall.split(action)
        if call is None or call[0] not in self._tools:
            self._rollout.reply(action)
        else:
            arguments = toolcall.arguments(*call)
            if isinstance(arguments, str):
                return arguments
            self._rollout.reply("", (call[0], arguments))
        self._read()
        return ""

    def score(self) -> float:
        """The rubric's reward, 0..1. Asked before the end it scores the conversation as it stands."""
        if not self._done and not self._cut:
            self._rollout.cut()
            if self._rollout.next() is not None:
                raise EnvironmentFault(f"{self._made[0]} goes on where it was cut off")
            self._cut, self._score = True, self._scored()
        return self._score

    def close(self) -> None:
        """Ends the rollout; the environment itself stays loaded for the next one."""
        self._rollout.close()
