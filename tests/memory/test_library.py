"""The one rule of the library: not in a child that was forked from a process that used it."""

from __future__ import annotations

import pytest

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.memory import library


def test_a_user_may_use_it_again_and_a_forked_child_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_first_user", None)
    assert library.lancedb().connect and library.lancedb() is library.lancedb()
    monkeypatch.setattr(library, "_first_user", 1)
    with pytest.raises(RoleAgentError, match="'spawn'"):
        library.lancedb()
