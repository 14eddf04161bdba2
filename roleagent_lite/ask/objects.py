"""JSON objects in what a model wrote: in fences, in prose, in lists, with small faults.

Owns finding and decoding. Leaves out what the values mean (parse). Nothing is completed: a cut-off object is
no object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from roleagent_lite.redact import mend

_DECODER = json.JSONDecoder(strict=False)  # raw line breaks inside strings are common and harmless
MAX_STARTS = 200  # opening braces looked at; a real reply has a handful
MAX_DEPTH = 60  # of objects and lists in one another; deeper is no answer to any form of ours
_MENDED = 300_000  # characters that small faults are looked for in, over all of a text
_NESTING = re.compile(r'"(?:\\.|[^"\\])*(?:"|$)|[{}]', re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<double>"(?:\\.|[^"\\])*")|(?P<single>'(?:\\.|[^'\\])*')|(?P<comma>,(?=\s{0,99}[}\]]))"""
    r"""|(?P<word>\b(?:True|False|None)\b)|(?P<round>[()])""",
    re.DOTALL,
)
_ESCAPE = re.compile(
    r"""\\(?:(?P<good>["\\/bfnrt]|u[0-9a-fA-F]{4})|x(?P<hex>[0-9a-fA-F]{2})|(?P<other>.))|\"""", re.DOTALL
)
_JSON_WORDS = {"True": "true", "False": "false", "None": "null", "(": "[", ")": "]"}


def _clean(value: Any, depth: int = 0) -> Any:
    """`value` without lone surrogates. Raises ValueError where it is nested too deep."""
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, dict):
        return {mend(k): _clean(v, depth + 1) for k, v in value.items()}
    return [_clean(v, depth + 1) for v in value] if isinstance(value, list) else value


def _closing(text: str, start: int) -> int | None:
    """Index behind the brace that closes the one at `start`, strings skipped; None if it stays open."""
    depth = 0
    for found in _NESTING.finditer(text, start):
        if found[0] == "{":
            depth += 1
        elif found[0] == "}":
            depth -= 1
            if depth == 0:
                return found.end()
    return None


def _string(body: str) -> str:
    """A JSON string of what stands between the quotes, JSON's escapes and Python's alike."""

    def escape(found: re.Match[str]) -> str:
        if found["good"]:
            return found[0]
        if found["hex"]:
            return f"\\u00{found['hex']}"
        if found["other"]:
            return "'" if found["other"] == "'" else json.dumps("\\" + found["other"])[1:-1]
        return '\\"'

    return f'"{_ESCAPE.sub(escape, body)}"'


def _as_json(found: re.Match[str]) -> str:
    if found["double"] or found["single"]:
        return _string(found[0][1:-1])
    return "" if found["comma"] else _JSON_WORDS[found[0]]


def _lenient(text: str) -> dict[str, Any] | None:
    """A closed object with trailing commas, wrong escapes, or in Python's notation; None where that does not
    help. Python's own parser is not asked: it takes minutes for some short texts."""
    try:
        value = _DECODER.decode(_TOKEN.sub(_as_json, text))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def find_objects(text: str) -> list[dict[str, Any]]:
    """All outermost JSON objects in `text`, in order, lone surrogates replaced; none nested deeper than 60.

    Takes well under a second for 100,000 characters, whatever they are.
    """
    found: list[dict[str, Any]] = []
    left = _MENDED
    at = text.find("{")
    for _ in range(MAX_STARTS):
        if at < 0:
            break
        end: int | None
        value: Any
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            value, end = None, _closing(text, at) if left > 0 else None
            left -= (end or len(text)) - at
            value = _lenient(text[at:end]) if end and left > 0 else None
        try:
            value = _clean(value)
        except ValueError:
            value = None
        if isinstance(value, dict) and end:
            found.append(value)
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
