"""One line of the doctor: what was looked at, how it is, what was found, what to do.

Owns the shape and the three short ways to make one. Leaves out every check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Line:
    """`advice` is empty only where nothing needs doing."""

    name: str
    state: State
    found: str
    advice: str = ""


def ok(name: str, found: str, advice: str = "") -> Line:
    return Line(name, "ok", found, advice)


def warning(name: str, found: str, advice: str) -> Line:
    """Work is possible, but something may go wrong or slowly."""
    return Line(name, "warning", found, advice)


def problem(name: str, found: str, advice: str) -> Line:
    """Something that was asked for cannot work as it is."""
    return Line(name, "problem", found, advice)
