"""Task sets: JSONL files of Task rows, the user's or shipped ones; ids checked, bad rows named.

Owns reading and identity (content hash, duplicates). Leaves out what an environment makes of `params`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from roleagent_lite.content import find
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Split, Task

_KEYS = ("id", "env", "goal", "seed", "params", "split", "parent", "validated")
MAX_LINE = 4_000_000  # bytes; a real task row has at most a few hundred kilobytes


def content_id(row: Mapping[str, Any]) -> str:
    """A stable id of what the task is: adding rows elsewhere in the file does not change it."""
    what = {k: row.get(k) for k in ("env", "goal", "seed", "params")}
    digest = hashlib.sha256(json.dumps(what, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace"))
    return "t" + digest.hexdigest()[:12]


def _problem(row: Any) -> str | None:
    if not isinstance(row, dict):
        return f"needs an object with the keys env and goal, found {type(row).__name__}"
    missing = [k for k in ("env", "goal") if k not in row]
    if missing:
        return f"needs {', '.join(missing)}; has {', '.join(row) or 'no keys'}"
    unknown = [k for k in row if k not in _KEYS]
    if unknown:
        return f"has unknown keys {', '.join(unknown)}; known: {', '.join(_KEYS)}"
    wrong = [k for k in ("env", "goal") if not isinstance(row[k], str) or not row[k].strip()]
    if wrong:
        return f"{wrong[0]} must be a non-empty text, found {row[wrong[0]]!r}; has {', '.join(row)}"
    if not isinstance(row.get("seed", 0), int) or not isinstance(row.get("params", {}), dict):
        return "seed must be a whole number and params an object"
    if row.get("split", "train") not in get_args(Split):
        return f"split is {row['split']!r}; known: {', '.join(get_args(Split))}"
    return None


def read_rows(path: Path) -> list[tuple[int, Any]]:
    """Physical line number and parsed value of each non-blank line. Raises ConfigError naming bad lines."""
    rows: list[tuple[int, Any]] = []
    bad: list[str] = []
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read task file {path}: {error.strerror}") from None
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if len(raw) > MAX_LINE:
            bad.append(f"line {number}: longer than {MAX_LINE} bytes")
            continue
        try:
            line = raw.decode("utf-8").strip()
            if line:
                rows.append((number, json.loads(line)))
        except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are both ValueErrors
            bad.append(f"line {number}: {error}")
    if bad:
        raise ConfigError(f"task file {path} cannot be used:\n  " + "\n  ".join(bad[:20]))
    return rows


def load_tasks(name: str | Path, split: Split | None = None) -> list[Task]:
    """All tasks of a JSONL file or of a shipped set, in file order, or those of one split.

    Missing ids become content hashes. Raises ConfigError that lists every bad line with its number, the
    keys needed and the keys found; duplicate ids are refused with both lines named.
    """
    path = find("tasks", str(name), ".jsonl")
    rows = read_rows(path)
    bad = [f"line {n}: {p}" for n, row in rows if (p := _problem(row))]
    if bad:
        raise ConfigError(f"task file {path} cannot be used:\n  " + "\n  ".join(bad[:20]))
    tasks: list[Task] = []
    seen: dict[str, int] = {}
    for number, row in rows:
        given = row.get("id")
        row_id = content_id(row) if given is None or given == "" else str(given)
        if row_id in seen:
            raise ConfigError(
                f"task file {path}: lines {seen[row_id]} and {number} have the same id '{row_id}'; "
                "give each task its own id, or leave ids out"
            )
        seen[row_id] = number
        tasks.append(Task(**{**row, "id": row_id}))
    if not tasks:
        raise ConfigError(
            f"task file {path} holds no tasks; each line is an object with at least env and goal"
        )
    return [t for t in tasks if split is None or t.split == split]


def file_hash(name: str | Path) -> str:
    """SHA-256 (first 16 hex digits) of the task file's bytes, for comparisons across runs."""
    return hashlib.sha256(find("tasks", str(name), ".jsonl").read_bytes()).hexdigest()[:16]


def split_of(tasks: Sequence[Task], split: Split) -> list[Task]:
    return [t for t in tasks if t.split == split]
