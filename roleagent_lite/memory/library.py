"""LanceDB itself, imported where it is first used, and never in a process that was forked from a user of it.

Owns that one rule. Leaves out every use of the library (memory/store.py).
"""

from __future__ import annotations

import os
from typing import Any

from roleagent_lite.errors import RoleAgentError

_first_user: int | None = None  # the process in which the library's threads were started


def lancedb() -> Any:
    """The library. Raises RoleAgentError in a forked child: its threads do not survive a fork."""
    global _first_user
    import lancedb

    _first_user = _first_user or os.getpid()
    if _first_user != os.getpid():
        raise RoleAgentError(
            "the memory store was already open when this process was forked, and LanceDB may hang in a "
            "forked child; start workers with the 'spawn' method, or open the store only in them"
        )
    return lancedb
