"""Runs that a test has opened are closed behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distill import make


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while make.OPENED:
        make.OPENED.pop().close()
