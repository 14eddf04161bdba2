"""The command line inside the test's process: quick, for what needs no process of its own."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roleagent_lite import redact
from roleagent_lite.cli import border
from roleagent_lite.cli.main import main

Inside = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logging, signals, the environment, known secrets and the log file are afterwards as they were."""
    root = logging.getLogger()
    handlers, level, handler = root.handlers[:], root.level, signal.getsignal(signal.SIGTERM)
    secrets, before = set(redact._secrets), dict(os.environ)
    monkeypatch.setitem(border._state, "log", None)
    yield
    for one in root.handlers[:]:
        if one not in handlers:
            one.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    signal.signal(signal.SIGTERM, handler)
    redact._secrets.clear()
    redact._secrets.update(secrets)
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def inside(
    untouched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Inside:
    """`inside("eval", "--tasks", ...)` in `tmp_path`; what a user would see, as of a finished process."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(arguments)
        out, err = capsys.readouterr()
        code = left.value.code
        return subprocess.CompletedProcess(arguments, code if isinstance(code, int) else 0, out, err)

    return run
