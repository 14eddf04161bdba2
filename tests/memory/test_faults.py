"""Errors of the library: named with the store and with what to do; our own pass through."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite import redact
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.memory.faults import advice, told


class Store:
    path = Path("runs/r/memory")

    @told
    def raises(self, error: Exception) -> None:
        raise error

    @told
    def adds(self, a: int, *, b: int = 1) -> int:
        return a + b


LANCE = "lance error: LanceError(IO): File too large (os error 27), /root/.cargo/x/writer/structural.rs:258:9"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (LANCE, "free some space"),
        ("No space left on device (os error 28)", "free some space"),
        ("Disk quota exceeded (os error 122)", "free some space"),
        ("Read-only file system (os error 30)", "permissions"),
        ("Permission denied (os error 13)", "permissions"),
        ("Dataset at path x was not found", "delete that folder"),
        ("os error 130", "delete that folder"),
    ],
)
def test_what_to_do(words: str, what: str) -> None:
    assert what in advice(words)
    with pytest.raises(RoleAgentError, match=rf"memory store runs/r/memory: .*{what}"):
        Store().raises(RuntimeError(words))


def test_one_line_without_the_library_s_source_and_without_keys() -> None:
    redact.register("swordfish-4711")
    with pytest.raises(RoleAgentError) as caught:
        Store().raises(OSError(f"{LANCE} swordfish-4711\nsecond line"))
    assert ".rs" not in str(caught.value) and "second" not in str(caught.value)
    assert "swordfish" not in str(caught.value) and "File too large (os error 27)" in str(caught.value)
    with pytest.raises(RoleAgentError, match="ValueError"):
        Store().raises(ValueError())


def test_ours_and_results_pass_through() -> None:
    assert Store().adds(1, b=2) == 3
    with pytest.raises(ConfigError, match=r"^mine$"):
        Store().raises(ConfigError("mine"))
    with pytest.raises(KeyError):
        Store().raises(KeyError("x"))
