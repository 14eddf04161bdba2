"""Fixtures of the shell world."""

from __future__ import annotations

import pytest

from tests.envs.shell.bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
