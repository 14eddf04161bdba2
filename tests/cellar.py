"""A user's own world, as `roleagent-lite env new cellar` writes it: its text is the template's, run here."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from roleagent_lite.envs import template

with TemporaryDirectory() as folder:
    _path, _ = template.write("cellar", Path(folder))
    _module = ModuleType("tests.cellar_written")
    exec(compile(_path.read_text(encoding="utf-8"), str(_path), "exec"), _module.__dict__)
sys.modules[_module.__name__] = _module
Cellar = _module.Cellar
