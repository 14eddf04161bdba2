"""Task sets: JSONL files of Task rows, the user's or shipped ones; ids checked, bad rows named.

Owns reading, identity (content hash, duplicates) and the choice of as many as are wanted. Leaves out what an
environment makes of `params`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from roleagent_lite.config import brief
from roleagent_lite.content import find
from roleagent_lite.errors import ConfigError
from roleagent_lite.redact import mend
from roleagent_lite.types import Split, Task

_KEYS = ("id", "env", "goal", "seed", "params", "split", "parent", "validated")
# Exact types: true is no whole number here.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "id": ((str, int, NoneType), "a text or a whole number"),
    "seed": ((int,), "a whole number"),
    "params": ((dict,), "an object"),
    "split": ((str,), f"one of {', '.join(get_args(Split))}"),
    "parent": ((str, NoneType), "a text"),
    "validated": ((bool,), "true or false"),
}
_BOM = b"\xef\xbb\xbf"
MAX_LINE = 4_000_000  # bytes; a real task row has at most a few hundred kilobytes
MAX_FILE = 1_000_000_000  # bytes
MAX_DEPTH = 60  # of nested objects and lists in a row
MAX_SEED = 2**63  # what databases, generators and servers take


def content_id(row: Mapping[str, Any]) -> str:
    """A stable id of what the task is: adding rows elsewhere in the file does not change it."""
    what = {k: row.get(k) for k in ("env", "goal", "seed", "params")}
    digest = hashlib.sha256(json.dumps(what, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace"))
    return "t" + digest.hexdigest()[:12]


def _shown(value: Any) -> str:
    text = brief(value)
    return text if len(text) <= 80 else text[:79] + "…"


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
        return f"{wrong[0]} must be a non-empty text, found {_shown(row[wrong[0]])}; has {', '.join(row)}"
    wrong = [k for k, (kinds, _) in _KINDS.items() if k in row and type(row[k]) not in kinds]
    if wrong:
        return f"{wrong[0]} must be {_KINDS[wrong[0]][1]}, found {_shown(row[wrong[0]])}"
    if abs(row.get("seed", 0)) >= MAX_SEED:
        return f"seed must lie within ±2^63, found {_shown(row['seed'])}"
    if row.get("split", "train") not in get_args(Split):
        return f"split is {_shown(row['split'])}; known: {', '.join(get_args(Split))}"
    return None


def _mended(value: Any, depth: int = 0) -> Any:
    """Parsed JSON without lone surrogates: no file and no request could hold them. Raises ValueError for
    numbers and depths that none could hold either."""
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        return {mend(k): _mended(v, depth + 1) for k, v in value.items()}
    return [_mended(v, depth + 1) for v in value] if isinstance(value, list) else value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a key given twice is refused, for readers differ in which of the two they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"has the key {_shown(twice)} twice")
    return found


def _parse(line: str) -> Any:
    """The value of one line. Raises ValueError."""
    try:
        return _mended(json.loads(line, parse_constant=_no_number, object_pairs_hook=_once))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refusal(path: Path, bad: Mapping[int, str], hint: str = "") -> ConfigError:
    lines = [f"line {number}: {bad[number]}" for number in sorted(bad)]
    more = [f"and {len(lines) - 20} more"] if len(lines) > 20 else []
    head = f"task file {path} cannot be used" + (f" ({hint})" if hint else "")
    return ConfigError(f"{head}:\n  " + "\n  ".join([*lines[:20], *more]))


_PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PAR1", b"SQLite")


def _other_kind(data: bytes) -> str:
    """What kind of file it is where it is no JSONL in UTF-8, with what to do; "" where that is not clear."""
    head = data[:4096]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or head[:64].count(b"\0") > 8:
        return "this looks like UTF-16, not UTF-8: save the file as UTF-8"
    if head.startswith(_PACKED):
        return "this looks like a packed or binary file: unpack it, or export it as JSONL"
    text = head.removeprefix(_BOM).lstrip()
    if text.startswith(b"["):
        return "this looks like one JSON array: write each task as an object on its own line, without commas"
    if text.startswith(b"{") and b"\r" in head and b"\n" not in head:
        return "its lines end in CR alone: save the file with LF line ends"
    if text.startswith(b"{") and not text.split(b"\n", 1)[0].rstrip().endswith((b"}", b"},")):
        return "each task must stand on one line: this looks like JSON over several lines"
    if text and not text.startswith(b"{") and re.match(rb"[\w \"']+[,;\t][\w \"',;\t]*\r?\n", text):
        return 'this looks like CSV: write each task as an object on a line, {"env": "...", "goal": "..."}'
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "this is not UTF-8 (Latin-1 or a Windows encoding?): save the file as UTF-8"
    return ""


def _read(path: Path) -> tuple[list[tuple[int, Any]], dict[int, str], str]:
    """Rows and what is wrong, each by its physical line, and a hint where the file is of another kind."""
    rows: list[tuple[int, Any]] = []
    bad: dict[int, str] = {}
    try:
        if path.stat().st_size > MAX_FILE:
            raise ConfigError(f"task file {path} has over {MAX_FILE} bytes; split it")
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read task file {path}: {error.strerror}") from None
    if data.startswith((b"\xff\xfe", b"\xfe\xff", *_PACKED)):
        raise ConfigError(f"task file {path} cannot be used: {_other_kind(data)}")
    for number, raw in enumerate(data.split(b"\n"), 1):
        if len(raw) > MAX_LINE:
            bad[number] = f"longer than {MAX_LINE} bytes"
            continue
        try:
            if line := raw.removeprefix(_BOM).decode("utf-8").strip():
                rows.append((number, _parse(line)))
        except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are both ValueErrors
            bad[number] = str(error)
    return rows, bad, _other_kind(data) if bad or not all(isinstance(row, dict) for _, row in rows) else ""


def read_rows(path: Path) -> list[tuple[int, Any]]:
    """Physical line number and parsed value of each non-blank line. Raises ConfigError naming bad lines."""
    rows, bad, hint = _read(path)
    if bad:
        raise _refusal(path, bad, hint)
    return rows


Check = Callable[[Task], None]


def load_tasks(name: str | Path, split: Split | None = None, *, check: Check | None = None) -> list[Task]:
    """All tasks of a JSONL file or of a shipped set, in file order, or those of one split.

    Missing ids become content hashes. check: raises ConfigError for a task that its world cannot play. Raises
    ConfigError that lists every bad line with its number, the keys needed and the keys found; duplicate ids
    are refused with both lines named.
    """
    path = find("tasks", str(name), ".jsonl")
    rows, bad, hint = _read(path)
    tasks = tasks_in(path, rows, bad, hint=hint, check=check)
    return [t for t in tasks if split is None or t.split == split]


def tasks_in(
    path: Path,
    rows: Sequence[tuple[int, Any]],
    bad: Mapping[int, str] | None = None,
    *,
    hint: str = "",
    check: Check | None = None,
) -> list[Task]:
    """The tasks of a file's rows, each with its line; `bad`: lines that are wrong already."""
    wrong = {**(bad or {}), **{n: p for n, row in rows if (p := _problem(row))}}
    tasks = []
    for number, row in rows:
        if number in wrong:
            continue
        given = row.get("id")
        task = Task(**{**row, "id": content_id(row) if given is None or given == "" else str(given)})
        try:
            if check is not None:
                check(task)
        except ConfigError as error:
            wrong[number] = str(error)
        tasks.append(task)
    if wrong:
        raise _refusal(path, wrong, hint)
    seen: dict[str, int] = {}
    for (number, row), task in zip(rows, tasks, strict=True):
        unnamed, row_id = row.get("id") in (None, ""), task.id
        if row_id in seen:
            advice = (
                "they are the same task: remove one, or give them ids"
                if unnamed
                else "give each task its own id, or leave ids out"
            )
            raise ConfigError(
                f"task file {path}: lines {seen[row_id]} and {number} have the same id '{row_id}'; {advice}"
            )
        seen[row_id] = number
    if not tasks:
        raise ConfigError(
            f"task file {path} holds no tasks; each line is an object with at least env and goal"
        )
    return tasks


def file_hash(name: str | Path) -> str:
    """SHA-256 (first 16 hex digits) of the task file's bytes, for comparisons across runs."""
    return hashlib.sha256(find("tasks", str(name), ".jsonl").read_bytes()).hexdigest()[:16]


def split_of(tasks: Sequence[Task], split: Split) -> list[Task]:
    return [t for t in tasks if t.split == split]


def family_of(task: Task) -> str:
    """`params.type` or `params.task_type` where the set has one, else the environment's name."""
    return str(task.params.get("type") or task.params.get("task_type") or task.env)


def choose(tasks: Sequence[Task], n: int | None) -> tuple[Task, ...]:
    """At most `n` tasks (None: all), in file order, every family as often as every other where it can.

    Within a family they are chosen by the hash of their ids: neither the order of the file nor the order of
    its families decides, and a row added elsewhere changes the choice as little as can be.
    """
    if n is None or n >= len(tasks):
        return tuple(tasks)
    turns: Counter[str] = Counter()
    ranked: list[tuple[int, bytes, str]] = []
    for task in sorted(tasks, key=_digest):
        family = family_of(task)
        ranked.append((turns[family], _digest(task), task.id))
        turns[family] += 1
    kept = {id for _, _, id in sorted(ranked)[:n]}
    return tuple(task for task in tasks if task.id in kept)


def _digest(task: Task) -> bytes:
    return hashlib.sha256(task.id.encode("utf-8", "replace")).digest()
