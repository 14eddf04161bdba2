"""A user's own world: what `roleagent-lite env new cellar` writes, run here, with a step limit by task."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from roleagent_lite.envs import template
from roleagent_lite.types import Task

with TemporaryDirectory() as folder:
    _path, _ = template.write("cellar", Path(folder))
    _module = ModuleType("tests.cellar_written")
    exec(compile(_path.read_text(encoding="utf-8"), str(_path), "exec"), _module.__dict__)
sys.modules[_module.__name__] = _module
_Written: Any = _module.Cellar


class Cellar(_Written):  # type: ignore[misc]
    """The written one."""

    @staticmethod
    def max_steps(task: Task) -> int:
        return int(task.params.get("max_steps", _Written.max_steps))
