"""roleagent-lite: one LLM improves itself as agent and as world.

`evolve` and `evaluate` (`..._async` where a loop runs) and `load_tasks` are imported on first use, so that
`import roleagent_lite` stays light.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from roleagent_lite.version import __version__

__all__ = ["RunConfig", "__version__", "evaluate", "evaluate_async", "evolve", "evolve_async", "load_tasks"]

if TYPE_CHECKING:
    from roleagent_lite.config import RunConfig
    from roleagent_lite.jobs import evaluate, evaluate_async, evolve, evolve_async
    from roleagent_lite.tasksets import load_tasks

_WHERE = {
    "RunConfig": "roleagent_lite.config",
    "evolve": "roleagent_lite.jobs",
    "evaluate": "roleagent_lite.jobs",
    "evolve_async": "roleagent_lite.jobs",
    "evaluate_async": "roleagent_lite.jobs",
    "load_tasks": "roleagent_lite.tasksets",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        import importlib

        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'roleagent_lite' has no attribute '{name}'")


class _Room(ModuleType):
    """The room `roleagent_lite.evolve` under the name of the job: called, it is the job."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from roleagent_lite.jobs import evolve

        return evolve(*arguments, **options)


class _Package(ModuleType):
    """Importing the room `evolve` puts it where the function `evolve` was; both must work, in any order."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "evolve" and isinstance(value, ModuleType):
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
