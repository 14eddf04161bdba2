"""ExternalAgent: the user's own agent, named on the command line as `module:callable`.

The call is `callable(view, prompt_set, ask)`; it returns the action as text, or a Decision. `view` is a
`types.View`; `prompt_set.texts` holds the texts that evolve; `ask(module, inputs, **options)` asks one of the
prompt files with the run's models, budget and record, under the view's prompt set, sample and temperature,
and gives an `Answer`. A coroutine function awaits `ask(...)`. A plain function runs in a worker thread, and
`ask` blocks there until the answer is in.

Owns import and call. Leaves out what the agent does.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from roleagent_lite.ask import Answer, Asker
from roleagent_lite.errors import ConfigError, RoleAgentError, nearest
from roleagent_lite.types import Decision, PromptSet, View


def load_callable(spec: str) -> Callable[..., Any]:
    """What `module:callable` names; modules of the working directory count. Raises ConfigError."""
    module_name, _, attribute = spec.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # border: the user's module
        raise ConfigError(f"agent '{spec}': cannot import module '{module_name}': {error!r}") from error
    finally:
        sys.path.remove(here)
        if here not in sys.path:  # last, so that a file there cannot hide a library imported later
            sys.path.append(here)
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [n for n in vars(found) if not n.startswith("_")] if hasattr(found, "__dict__") else []
            raise ConfigError(f"agent '{spec}': '{module_name}' has no '{part}'{nearest(part, names)}")
        found = getattr(found, part)
    if not callable(found):
        raise ConfigError(f"agent '{spec}' is no function or class with a call, but {type(found).__name__}")
    if inspect.isclass(found):
        found = found()
    return found  # type: ignore[no-any-return]


class ExternalAgent:
    """Plays the callable as an Agent. `name` is for messages."""

    def __init__(self, call: Callable[..., Any], asker: Asker, prompt_set: PromptSet, name: str) -> None:
        self.prompt_set = prompt_set
        self._call = call
        self._asker = asker
        self._name = name
        self._is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
            getattr(call, "__call__", None)  # noqa: B004  an object whose call is a coroutine function
        )

    async def act(self, view: View) -> Decision:
        """Raises RoleAgentError naming the agent where the callable raises or returns something else."""

        async def ask(module: str, inputs: Mapping[str, str], **options: Any) -> Answer:
            settings = {"sample": view.sample, "temperature": view.temperature, **options}
            return await self._asker.ask(module, inputs, prompt_set=self.prompt_set, **settings)

        loop = asyncio.get_running_loop()

        def ask_and_wait(module: str, inputs: Mapping[str, str], **options: Any) -> Answer:
            return asyncio.run_coroutine_threadsafe(ask(module, inputs, **options), loop).result()

        try:
            if self._is_async:
                said = await self._call(view, self.prompt_set, ask)
            else:
                said = await asyncio.to_thread(self._call, view, self.prompt_set, ask_and_wait)
        except RoleAgentError:
            raise
        except Exception as error:
            raise RoleAgentError(f"agent '{self._name}' raised {type(error).__name__}: {error}") from error
        if isinstance(said, str):
            return Decision(action=said, said=said)
        if not isinstance(said, Decision):
            raise RoleAgentError(
                f"agent '{self._name}' returned {type(said).__name__}; "
                "expected the action as text or a Decision"
            )
        return said
