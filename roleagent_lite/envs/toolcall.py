"""Calls of tools as actions: `NAME({"argument": "value"})`, and how a tool is shown in one line.

Owns the form and its refusals in words. Leaves out who is called (mcp, verifiers) and calls written as Python
(tools.calls).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

FORM = 'TOOL_NAME({"argument": "value"}) with the arguments as one JSON object'
_CALL = re.compile(r"\s*([\w.:/-]+)\s*\(\s*(.*?)\s*\)\s*", re.S)


def split(action: str) -> tuple[str, str] | None:
    """(the tool's name, its arguments as written) where `action` has the form of a call, else None."""
    found = _CALL.fullmatch(action)
    return None if found is None else (found[1], found[2])


def arguments(name: str, written: str) -> dict[str, Any] | str:
    """The arguments of a call; a sentence where they are no JSON object. Nothing written = none."""
    try:
        read = json.loads(written or "{}")
    except (ValueError, RecursionError) as error:
        return f"The arguments of {name} are no JSON: {error}."
    return read if isinstance(read, dict) else f"The arguments of {name} must be one JSON object."


def line(name: str, about: str, schema: Mapping[str, Any]) -> str:
    """A tool in one line: name, arguments with their kinds (? = may be left out), what it does."""
    needed = schema.get("required", ())
    shown = (
        f'"{one}"{"" if one in needed else "?"}: '
        + str(kind.get("type", "any") if isinstance(kind, Mapping) else "any")
        for one, kind in schema.get("properties", {}).items()
    )
    said = " ".join(about.split())[:300]
    return f"- {name}({{{', '.join(shown)}}})" + (f" - {said}" if said else "")
