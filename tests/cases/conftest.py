"""The field cases wait as a server asks, and else not long: what they test is not the length of a backoff."""

from __future__ import annotations

from functools import partial

import pytest

from roleagent_lite.lm import pool
from roleagent_lite.lm.retry import Retried


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "Retried", partial(Retried, first=0.01))
