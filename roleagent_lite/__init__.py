"""roleagent-lite: one LLM improves itself as agent and as world.

`evolve`, `evaluate` and `load_tasks` are imported on first use, so that `import roleagent_lite` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["RunConfig", "__version__", "evaluate", "evolve", "load_tasks"]

if TYPE_CHECKING:
    from roleagent_lite.config import RunConfig
    from roleagent_lite.jobs import evaluate, evolve
    from roleagent_lite.tasksets import load_tasks

_WHERE = {
    "RunConfig": "roleagent_lite.config",
    "evolve": "roleagent_lite.jobs",
    "evaluate": "roleagent_lite.jobs",
    "load_tasks": "roleagent_lite.tasksets",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        import importlib

        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'roleagent_lite' has no attribute '{name}'")
