"""What LanceDB raises, in words: which store, what it met, what to do.

Owns the wording. Leaves out our own errors, which pass through.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.redact import scrub


class _Placed(Protocol):
    path: Path


S = TypeVar("S", bound=_Placed)
P = ParamSpec("P")
T = TypeVar("T")

_FULL = re.compile(r"no space|file too large|quota|os error (27|28|122)", re.IGNORECASE)
_CLOSED = re.compile(r"read-only|permission denied|not permitted|os error (1|13|30)\b", re.IGNORECASE)


def advice(words: str) -> str:
    """What to do about an error of the library."""
    if _FULL.search(words):
        return "free some space and resume"
    if _CLOSED.search(words):
        return "mend the permissions of that folder, or copy the run to one that can be written"
    return "delete that folder and resume: it is an index, and is made again from the run's tables"


def told(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """`method` of a store; what the library raises in it comes out as a RoleAgentError naming the store."""

    @wraps(method)
    def clear(self: S, /, *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return method(self, *arguments, **named)
        except (OSError, RuntimeError, ValueError) as error:  # all that LanceDB and Arrow raise are these
            words = _first(error)
            raise RoleAgentError(f"memory store {self.path}: {words}; {advice(words)}") from error

    return clear


def _first(error: Any) -> str:
    """The first line, without the places in the library's source and without keys."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return scrub(re.sub(r",?\s*/\S+\.rs:\d+:\d+", "", line))[:300]
