"""The version is said once in code and once in pyproject.toml; both agree."""

from __future__ import annotations

import tomllib
from pathlib import Path

import roleagent_lite
from roleagent_lite.version import __version__


def test_package_and_project_file_agree() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == __version__ == roleagent_lite.__version__
