"""A stand-in for the classic interface of `verifiers` 0.1.14: the same names, the same loop, no network.

Used by tests/envs/test_verifiers.py where the library (some 700 MB with what it needs) is not installed;
where it is, the same tests run on it. Written from its documented interface: messages, client, stop
conditions, rubric. Leaves out datasets (a list of rows does), usage, tokens, retries and servers.
"""

from __future__ import annotations

import importlib
import inspect
import json
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class Model(dict[str, Any]):
    """A record that is read by key, by `get` and by attribute, as the library's are."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class ResponseMessage(Model):
    pass


class Response(Model):
    pass


class ToolCall(Model):
    pass


class Error(Exception):
    pass


class OverlongPromptError(Error):
    pass


class Client(ABC):
    """Seven methods have to be there; the one that the environment calls is get_response."""

    def __init__(self, client: Any) -> None:
        self.client = client

    @abstractmethod
    def setup_client(self, config: Any) -> Any: ...

    @abstractmethod
    async def get_native_response(self, prompt: Any, model: str, sampling_args: Any) -> Any: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def get_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **more: Any
    ) -> Any:
        return await self.get_native_response(prompt, model, sampling_args)


def stop(method: Any) -> Any:
    method.stop = True
    return method


def cleanup(method: Any) -> Any:
    method.cleanup = True
    return method


async def _called(function: Callable[..., Any], **known: Any) -> Any:
    """With those of `known` that it takes, awaited where it is asynchronous."""
    takes = inspect.signature(function).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in takes):
        known = {name: known[name] for name in (p.name for p in takes) if name in known}
    value = function(**known)
    return await value if inspect.isawaitable(value) else value


class Rubric:
    def __init__(self, funcs: Any = None, weights: Any = None) -> None:
        self.funcs = list(funcs or [])
        self.weights = list(weights or [1.0] * len(self.funcs))

    def _of_a_group(self, function: Any) -> bool:
        return bool({"states", "completions"} & set(inspect.signature(function).parameters))

    @property
    def has_group_rewards(self) -> bool:
        return any(map(self._of_a_group, self.funcs))

    async def score_rollout(self, state: Any) -> None:
        known = {name: state.get(name) for name in ("prompt", "completion", "answer", "info")}
        rewards = [await _called(one, **known, state=state) for one in self.funcs]
        state["reward"] = sum(a * b for a, b in zip(rewards, self.weights, strict=True))

    async def cleanup(self, state: Any) -> None:
        state["rubric_cleaned"] = True


class Environment:
    def __init__(
        self, dataset: Any = None, eval_dataset: Any = None, system_prompt: str | None = None,
        few_shot: Any = None, rubric: Rubric | None = None, max_turns: int = -1,
    ) -> None:  # fmt: skip
        asked = [{"role": "system", "content": system_prompt}] if system_prompt else []
        asked += few_shot or []

        def formed(rows: Any) -> Any:
            return rows and [
                {"prompt": [*asked, {"role": "user", "content": row.get("question")}], **row} for row in rows
            ]

        self.dataset, self.eval_dataset = formed(dataset), formed(eval_dataset)
        self.tool_defs: list[Any] = []
        self.rubric, self.max_turns = rubric or Rubric(), max_turns
        # Fails in any thread but the main one, and takes the handler there, as the library's does.
        sys.modules["verifiers.envs.environment"].signal.signal(signal.SIGINT, signal.default_int_handler)

    def get_dataset(self) -> Any:
        return self.dataset

    def get_eval_dataset(self) -> Any:
        return self.eval_dataset or self.dataset

    def _marked(self, mark: str) -> list[Any]:
        """Stop conditions or cleanups; where there is an error it is looked at first."""
        found = [getattr(self, name) for name in dir(type(self)) if hasattr(getattr(type(self), name), mark)]
        return sorted(found, key=lambda method: method.__name__ != "has_error")


class MultiTurnEnv(Environment):
    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def setup_state(self, state: Any) -> Any:
        return state

    @stop
    async def has_error(self, state: Any) -> bool:
        return state["error"] is not None

    @stop
    async def prompt_too_long(self, state: Any) -> bool:
        return bool(state.get("prompt_too_long"))

    @stop
    async def max_turns_reached(self, state: Any) -> bool:
        return 0 < self.max_turns <= len(state["trajectory"])

    @stop
    async def has_final_env_response(self, state: Any) -> bool:
        return state.get("final_env_response") is not None

    async def is_completed(self, state: Any) -> bool:
        for condition in self._marked("stop"):
            if await condition(state):
                return True
        return False

    async def get_prompt_messages(self, state: Any) -> Any:
        if not state["trajectory"]:
            return state["prompt"]
        last = state["trajectory"][-1]
        messages = [*last["prompt"], *last["completion"]]
        return [*messages, *map(Model, await self.env_response(messages, state))]

    async def rollout(self, input: Any, client: Client, model: str, sampling_args: Any = None) -> Any:
        state = Model(input, prompt=[Model(one) for one in input["prompt"]], trajectory=[], error=None)
        try:
            await self.setup_state(state)
            while not await self.is_completed(state):
                try:
                    prompt = await self.get_prompt_messages(state)
                    if state.get("final_env_response") is not None:
                        continue
                    reply = await client.get_response(
                        prompt=prompt, model=model, tools=self.tool_defs or None, state=state,
                        sampling_args=sampling_args,
                    )  # fmt: skip
                    said = Model(role="assistant", **reply.message)
                    state["trajectory"].append({"prompt": prompt, "completion": [said]})
                except OverlongPromptError:
                    state["prompt_too_long"] = True
                except Error as error:
                    state["error"] = error
        finally:
            last = state["trajectory"][-1] if state["trajectory"] else {"prompt": [], "completion": []}
            whole = [*last["prompt"], *last["completion"], *(state.get("final_env_response") or [])]
            state["completion"] = whole[len(state["prompt"]) :]
            for handler in self._marked("cleanup"):
                await handler(state)
        return state


class SingleTurnEnv(MultiTurnEnv):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_turns=1, **kwargs)


class ToolEnv(MultiTurnEnv):
    def __init__(self, tools: list[Callable[..., Any]], max_turns: int = 10, **kwargs: Any) -> None:
        super().__init__(max_turns=max_turns, **kwargs)
        self.tool_map = {tool.__name__: tool for tool in tools}
        kinds = {int: "integer", str: "string"}
        self.tool_defs = [
            Model(
                name=tool.__name__,
                description=inspect.getdoc(tool) or "",
                parameters={
                    "properties": {
                        p.name: {"type": kinds.get(p.annotation, "object")}
                        for p in inspect.signature(tool).parameters.values()
                    },
                    "required": [
                        p.name for p in inspect.signature(tool).parameters.values() if p.default is p.empty
                    ],
                },
            )
            for tool in tools
        ]

    @stop
    async def no_tools_called(self, state: Any) -> bool:
        return bool(state["trajectory"]) and not state["trajectory"][-1]["completion"][-1].get("tool_calls")

    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        answers = []
        for call in messages[-1].tool_calls:
            try:
                value = self.tool_map[call.name](**json.loads(call.arguments))
            except Exception as error:
                value = error
            answers.append({"role": "tool", "tool_call_id": call.id, "content": str(value)})
        return answers


def load_environment(env_id: str, **kwargs: Any) -> Any:
    try:
        module = importlib.import_module(env_id.replace("-", "_").split("/")[-1])
    except ImportError as error:
        raise ValueError(f"Could not import '{env_id}' environment.") from error
    return module.load_environment(**kwargs)


@contextmanager
def installed() -> Iterator[None]:
    """Puts the stand-in where `import verifiers` finds it."""
    names: dict[str, list[Any]] = {
        "verifiers": [MultiTurnEnv, SingleTurnEnv, ToolEnv, Rubric, Error, stop, cleanup, load_environment],
        "verifiers.clients": [Client],
        "verifiers.errors": [Error, OverlongPromptError],
        "verifiers.types": [Response, ResponseMessage, ToolCall],
        "verifiers.envs": [],
        "verifiers.envs.environment": [],
    }
    modules = {name: ModuleType(name) for name in names}
    for name, held in names.items():
        for one in held:
            setattr(modules[name], one.__name__, one)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(modules[parent], last, modules[name])
    vars(modules["verifiers.envs.environment"])["signal"] = signal
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)
