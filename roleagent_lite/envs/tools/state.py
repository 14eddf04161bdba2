"""What the objects of the APIs hold, as plain data: for comparing, for hashing, for facts.

Public attributes only, as BFCL's checker compares them; wall-clock times are private there. Files and
folders become `{"__class__": name, ...}` without their parent; a folder that holds itself is named by how far
up it stands. Leaves out what is right (truth.py).
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

MOST_DEPTH = 60  # of nested objects; deeper ones are refused, so that comparing always ends
MOST_NODES = 100_000
_ATOMS = frozenset({str, int, float, bool, type(None)})


class TooDeep(ValueError):
    """A state that nests or grows beyond what is compared."""


class _Walk:
    """One walk through objects, which may hold themselves."""

    def __init__(self) -> None:
        self._above: list[int] = []
        self._nodes = 0

    def plain(self, value: Any) -> Any:
        if type(value) in _ATOMS:
            return value
        self._nodes += 1
        if len(self._above) > MOST_DEPTH or self._nodes > MOST_NODES:
            raise TooDeep(f"a state of over {MOST_DEPTH} levels or {MOST_NODES} parts is not compared")
        if id(value) in self._above:
            return {"__cycle__": len(self._above) - self._above.index(id(value))}
        self._above.append(id(value))
        try:
            return self._parts(value)
        finally:
            self._above.pop()

    def _parts(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.plain(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.plain(part) for part in value]
        if isinstance(value, tuple):
            return tuple(self.plain(part) for part in value)
        if isinstance(value, set | frozenset):
            return {self.plain(part) for part in value}
        if not hasattr(value, "__dict__"):
            return str(value)
        attributes = {key: self.plain(part) for key, part in _public(value) if key != "parent"}
        return {"__class__": type(value).__name__, **attributes}


def _public(one: Any) -> Iterator[tuple[str, Any]]:
    return ((key, value) for key, value in vars(one).items() if not key.startswith("_"))


def public(one: Any) -> dict[str, Any]:
    """The public attributes of an API's object. Raises TooDeep."""
    walk = _Walk()
    return {key: walk.plain(value) for key, value in _public(one)}


def as_json(value: Any) -> str:
    """Plain data as canonical JSON: sorted keys as texts, no spaces, sets as sorted lists."""
    return json.dumps(_listed(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _listed(part) for key, part in value.items()}
    if isinstance(value, set):
        return sorted(map(_listed, value), key=repr)
    return [_listed(part) for part in value] if isinstance(value, list | tuple) else value


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(as_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def standing(one: Any) -> str:
    """The path of the folder in which a file system stands; "" for every other object."""
    place = getattr(one, "_current_dir", None)
    names: list[str] = []
    while place is not None and len(names) <= MOST_DEPTH:
        names.append(place.name)
        place = place.parent
    return "/" + "/".join(reversed(names)) if names else ""


def key(instances: Mapping[str, Any], more: Any) -> str:
    """A hash of the true state, 16 hex digits: public attributes, where a file system stands, what the next
    random draws will be, and `more`. Raises TooDeep."""
    parts: list[Any] = [more]
    for name, one in sorted(instances.items()):
        draws = getattr(one, "_random", None)
        drawn = hash(draws.getstate()[1]) if isinstance(draws, random.Random) else None
        parts.append([name, public(one), standing(one), drawn])
    try:
        text = json.dumps(parts, sort_keys=True, default=lambda some: sorted(some, key=repr))
    except TypeError:  # keys that cannot be compared with one another
        text = as_json(parts)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def facts(instances: Mapping[str, Any]) -> list[str]:
    """The state in lines `Class.attribute.part: value`, sorted. Raises TooDeep."""
    found = [
        f"{name}.{path}: {value}"
        for name, one in instances.items()
        for path, value in _leaves("", public(one))
    ]
    return sorted(found + [f"{n} stands in: {standing(o)}" for n, o in instances.items() if standing(o)])


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _leaves(f"{path}.{name}" if path else str(name), part)
    else:
        yield path, as_json(value)
