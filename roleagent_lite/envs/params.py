"""Reads a task's `params` strictly: a value of the wrong kind is refused in words, with the task's id.

Owns the few kinds that worlds share. Leaves out what a parameter means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.types import Task


def _refused(task: Task, key: str, expected: str) -> ConfigError:
    return ConfigError(f"task {task.id}: params.{key} must be {expected}, found {task.params.get(key)!r:.60}")


def whole(task: Task, key: str, default: int | None = None, *, least: int = 0) -> int:
    """A whole number of at least `least`; `default` where it is not given (None: it must be)."""
    value = task.params.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise _refused(task, key, f"a whole number of at least {least}")
    return value


def steps(task: Task, default: int) -> int:
    """Steps an episode may have: params.max_steps, else `default`."""
    value = task.params.get("max_steps", default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _refused(task, "max_steps", "a positive whole number")
    return value


def flag(task: Task, key: str, default: bool = False) -> bool:
    value = task.params.get(key, default)
    if not isinstance(value, bool):
        raise _refused(task, key, "true or false")
    return value


def text(task: Task, key: str) -> str:
    """A text that is not empty."""
    value = task.params.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _refused(task, key, "a text")
    return value


def choice(task: Task, key: str, known: Sequence[str], default: str | None = None) -> str:
    """One of `known`; the nearest is named where it is none."""
    value = task.params.get(key, default)
    if not isinstance(value, str) or value not in known:
        hint = nearest(value, known) if isinstance(value, str) else f": one of {', '.join(known[:12])}"
        raise ConfigError(f"task {task.id}: params.{key} is {value!r:.60}{hint}")
    return value


def some(task: Task, key: str) -> list[str]:
    """A list of one text or more."""
    found = texts(task, key)
    if not found:
        raise _refused(task, key, "a list of texts, one at least")
    return found


def texts(task: Task, key: str) -> list[str] | None:
    """A list of texts; None where it is not given."""
    value: Any = task.params.get(key)
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise _refused(task, key, "a list of texts")
    return list(value)
