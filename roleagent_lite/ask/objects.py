"""JSON objects in what a model wrote: in fences, in prose, in lists, with small faults.

Owns finding and decoding. Leaves out what the values mean (parse). Nothing is completed: a cut-off object is
no object.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from roleagent_lite.redact import mend

_DECODER = json.JSONDecoder(strict=False)  # raw line breaks inside strings are common and harmless
MAX_STARTS = 200  # opening braces looked at; a real reply has a handful


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, dict):
        return {mend(str(k)): _clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(v) for v in value]
    return value


def _closing(text: str, start: int) -> int | None:
    """Index behind the brace that closes the one at `start`, strings skipped; None if it stays open."""
    depth, quote, i = 0, "", start
    while i < len(text):
        char = text[i]
        if quote:
            if char == "\\":
                i += 1
            elif char == quote:
                quote = ""
        elif char == '"':
            quote = char
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return None


def _outside_strings(pattern: str, by: str, text: str) -> str:
    parts = re.split(r'("(?:\\.|[^"\\])*")', text, flags=re.DOTALL)
    return "".join(p if i % 2 else re.sub(pattern, by, p) for i, p in enumerate(parts))


def _lenient(text: str) -> dict[str, Any] | None:
    """A closed object with trailing commas, or in Python's notation; None where that does not help."""
    try:
        value = _DECODER.decode(_outside_strings(r",(\s*[}\]])", r"\1", text))
    except ValueError:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def find_objects(text: str) -> list[dict[str, Any]]:
    """All outermost JSON objects in `text`, in order, lone surrogates replaced."""
    found: list[dict[str, Any]] = []
    at = text.find("{")
    for _ in range(MAX_STARTS):
        if at < 0:
            break
        end: int | None
        value: Any
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = _closing(text, at)
            value = _lenient(text[at:end]) if end else None
        if isinstance(value, dict) and end:
            found.append(_clean(value))
            at = text.find("{", end)
        else:
            at = text.find("{", at + 1)
    return found


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().lower()).rstrip("s")


def pick(objects: Iterable[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any] | None:
    """Of several objects the first that holds most of `names`, keys renamed to them; None if none holds any.

    Keys match in any case, with spaces or hyphens for underscores, in singular or plural. An object whose
    own keys match nothing is looked into (a wrapper such as {"answer": {...}}).
    """
    wanted = {_key(n): n for n in names}
    best: dict[str, Any] | None = None
    for obj in objects:
        named = {wanted[_key(k)]: v for k, v in obj.items() if _key(k) in wanted}
        if not named:
            inner: list[Mapping[str, Any]] = []
            for value in obj.values():
                items = value if isinstance(value, list) else [value]
                inner += [i for i in items if isinstance(i, dict)]
            named = pick(inner, wanted.values()) or {}
        if len(named) > len(best or {}):
            best = named
    return best
