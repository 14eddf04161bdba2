"""Run: one directory of append-only JSONL tables. The three jobs meet here and nowhere else.

One record a line, schema number in each. A torn last line (a kill) is cut off at open and counted, so that
the record is redone. Rows are written once by key: a second `put` of the same key is a no-op, which makes
resume the same program as the first run. Nothing here is ever unpickled. Only keys and offsets stay in
memory, and a reader has those of the tables that it asks for.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

import roleagent_lite.types as nouns
from roleagent_lite.config import RunConfig, dump_toml, load
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.redact import clean, harmless, register_url

SCHEMA = 1
# How a record begins whose key needs no escapes: the rest of the line is looked at when it is read.
_HEAD = re.compile(rb'\{"v":%d,"key":"([^"\\\x00-\x1f]*)","row":' % SCHEMA)
_CHUNK = 1 << 16
T = TypeVar("T")


class Table(Generic[T]):
    """One append-only file of records of one kind, indexed by key (offsets only; rows stay on disk).

    Not for two processes at once (`Run` holds a lock); safe for threads.
    """

    def __init__(self, path: Path, kind: type[T], key: Callable[[T], str]) -> None:
        self.path = path
        self.torn = 0
        self._adapter = TypeAdapter(kind)
        self._key = key
        self._offsets: dict[str, int] = {}
        self._lock = threading.Lock()
        self._out: IO[bytes] | None = None
        self._in: IO[bytes] | None = None
        self._tail: int | None = None  # where the next record goes, if known
        self._end: int | None = None  # where whole records end, if half a record stands behind them
        if path.is_file():  # a device (/dev/full) has nothing to read, or no end
            self._scan()

    def _scan(self) -> None:
        good = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    self.torn, self._end = len(line), good
                    break
                self._offsets[self._key_in(line, number)] = good
                good += len(line)

    def _key_in(self, line: bytes, number: int) -> str:
        head = _HEAD.match(line)
        try:
            if head is not None and line.endswith(b"}\n"):
                return head[1].decode("utf-8")
            row = json.loads(line)
            if row["v"] != SCHEMA:
                raise ConfigError(
                    f"{self.path} line {number} has schema {row['v']}, this version reads {SCHEMA}; "
                    "use the version that wrote the run"
                )
            return str(row["key"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(number, error) from None

    def _damaged(self, number: int, error: Exception) -> RoleAgentError:
        return RoleAgentError(
            f"{self.path} line {number} is damaged ({error}); delete that line to redo its record"
        )

    def _encode(self, key: str, row: T) -> bytes:
        plain = self._adapter.dump_python(row, mode="json")
        text = self._json(key, plain)
        if not harmless(text):
            text = self._json(key, clean(plain))
        return text.encode("utf-8") + b"\n"

    def _json(self, key: str, row: Any) -> str:
        body = {"v": SCHEMA, "key": key, "row": row}
        try:
            return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except ValueError as error:
            raise RoleAgentError(
                f"cannot write {self.path}: record '{key}' holds a number that is not finite ({error})"
            ) from None

    def put(self, row: T) -> bool:
        """Append `row` unless its key is there; True if written.

        Keys of models and lone surrogates are replaced on the way (`redact.clean`), also in the record's own
        key. Raises RoleAgentError on a full disk and on numbers that are not finite; the table stays whole.
        """
        key = clean(self._key(row))
        with self._lock:
            if key in self._offsets:
                return False
            data = self._encode(key, row)
            try:
                self._offsets[key] = self._append(data)
            except OSError as error:
                raise RoleAgentError(
                    f"cannot write {self.path}: {error.strerror}; what was finished is kept, "
                    "free some space and resume"
                ) from None
            return True

    def _append(self, data: bytes) -> int:
        """Where `data` now stands. On OSError nothing of it stays, or the next append cuts it off."""
        if self._out is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._out = self.path.open("ab", buffering=0)
        self._cut(self._out)
        # A single writer knows where it is; each call into the system lets waiting threads in, and costs.
        start = self._out.seek(0, os.SEEK_END) if self._tail is None else self._tail
        self._tail = None
        try:
            written = self._out.write(data)
            if written != len(data):
                raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes fit")
        except OSError:
            self._end = start
            with contextlib.suppress(OSError):
                self._cut(self._out)
            raise
        self._tail = start + len(data)
        return start

    def _cut(self, out: IO[bytes]) -> None:
        if self._end is not None:
            out.truncate(self._end)
            self._end = None

    def get(self, key: str) -> T | None:
        key = clean(key)
        with self._lock:
            offset = self._offsets.get(key)
            if offset is None:
                return None
            if self._in is None:
                self._in = self.path.open("rb")
            self._in.seek(offset)
            line = self._in.readline()
        return self._decode(line, offset)

    def _decode(self, line: bytes, offset: int) -> T:
        try:
            return self._adapter.validate_python(json.loads(line)["row"])
        except ValidationError as error:
            raise RoleAgentError(f"{self.path}: a record is not of this version's shape: {error}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(self._number(offset), error) from None

    def _number(self, offset: int) -> int:
        """Which line begins at `offset`, from 1."""
        number = 1
        with self.path.open("rb") as file:
            while offset > 0 and (data := file.read(min(offset, _CHUNK))):
                number += data.count(b"\n")
                offset -= len(data)
        return number

    def keys(self) -> list[str]:
        return list(self._offsets)

    def __contains__(self, key: str) -> bool:
        return clean(key) in self._offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[T]:
        for key in self.keys():
            row = self.get(key)
            if row is not None:
                yield row

    def close(self) -> None:
        for file in (self._out, self._in):
            if file is not None:
                file.close()
        self._out = self._in = self._tail = None


@dataclass(frozen=True, slots=True)
class Event:
    """A named fact about the run itself (a round's draw, an acceptance, the end). `data` is plain JSON."""

    key: str
    kind: str
    data: Mapping[str, Any]


_TABLES: dict[str, tuple[Any, Callable[[Any], str]]] = {
    "tasks": (nouns.Task, lambda r: r.id),
    "dispatched": (Event, lambda r: r.key),
    "calls": (nouns.Call, lambda r: r.id),
    "trajectories": (nouns.Trajectory, lambda r: r.id),
    "trials": (nouns.Trajectory, lambda r: r.id),
    "credits": (nouns.Credit, lambda r: r.trajectory),
    "diagnoses": (nouns.Diagnosis, lambda r: r.trajectory),
    "prompt_sets": (nouns.PromptSet, lambda r: r.id),
    "results": (nouns.Result, lambda r: f"{r.suite}/{r.system}"),
    "events": (Event, lambda r: r.key),
}


class Run:
    """A run directory, open for reading or (one process at a time) for writing.

    Attributes tasks, dispatched, calls, trajectories, trials, credits, diagnoses, prompt_sets, results, events are
    Tables. `config` is the resolved RunConfig saved in config.toml.
    """

    tasks: Table[nouns.Task]
    dispatched: Table[Event]
    calls: Table[nouns.Call]
    trajectories: Table[nouns.Trajectory]
    trials: Table[nouns.Trajectory]
    credits: Table[nouns.Credit]
    diagnoses: Table[nouns.Diagnosis]
    prompt_sets: Table[nouns.PromptSet]
    results: Table[nouns.Result]
    events: Table[Event]

    def __init__(self, path: Path, config: RunConfig, lock: IO[str] | None) -> None:
        self.dir = path
        self.config = config
        self._lock = lock
        self._opening = threading.Lock()
        if lock is not None:  # who writes needs every table, and is told of damage before the first call
            for name in _TABLES:
                getattr(self, name)

    def __getattr__(self, name: str) -> Table[Any]:
        """A table, when it is asked for the first time."""
        if name not in _TABLES:
            raise AttributeError(f"a run has no '{name}'")
        with self._opening:
            if name not in self.__dict__:
                self.__dict__[name] = Table(self._path(name), *_TABLES[name])
            table: Table[Any] = self.__dict__[name]
            return table

    def _path(self, name: str) -> Path:
        return self.dir / f"{name}.jsonl"

    @property
    def name(self) -> str:
        return self.dir.name

    @property
    def torn(self) -> dict[str, int]:
        """Tables whose last line was half written, with the bytes that were dropped."""
        found = {n: self.__dict__[n].torn if n in self.__dict__ else _torn(self._path(n)) for n in _TABLES}
        return {name: size for name, size in found.items() if size}

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> Run:
        """A new run, or the same one again; refuses one whose config differs, naming the difference.

        A run in which nothing was sent or played yet starts anew with `config`.

        Raises RoleAgentError where the directory cannot be made or written.
        """
        for url in (config.limits.base_url, config.model, *config.models.model_dump().values()):
            register_url(url)  # before the first file is written
        safe = RunConfig.model_validate(clean(config.model_dump()))
        saved = path / "config.toml"
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(path)
        except OSError as error:
            raise RoleAgentError(f"cannot write run directory {path}: {error.strerror}") from None
        try:
            if saved.exists() and _unused(path) and _difference(load(saved), safe):
                for name in _TABLES:  # a start that failed, say on a misspelt model, keeps no name
                    (path / f"{name}.jsonl").unlink(missing_ok=True)
                saved.unlink()
            if saved.exists():
                _refuse_other(path, load(saved), safe)
            else:
                partial = path / "config.toml.part"
                partial.write_text(dump_toml(safe), encoding="utf-8")
                partial.rename(saved)
            return cls(path, config, lock)
        except OSError as error:
            lock.close()
            raise RoleAgentError(f"cannot write {saved}: {error.strerror}; free some space") from None
        except RoleAgentError:
            lock.close()
            raise

    @classmethod
    def open(cls, path: Path) -> Run:
        """An existing run for reading. Raises ConfigError where there is none."""
        saved = path / "config.toml"
        if not saved.exists():
            raise ConfigError(f"no run at {path} (no config.toml there); `roleagent-lite runs` lists runs")
        return cls(path, load(saved), None)

    def record(self, key: str, kind: str, data: Mapping[str, Any]) -> bool:
        return self.events.put(Event(key, kind, data))

    @property
    def status(self) -> str:
        """new, interrupted or finished."""
        if "finished" in self.events:
            return "finished"
        return "interrupted" if self._begun("dispatched") or self._begun("trajectories") else "new"

    def _begun(self, name: str) -> bool:
        """Whether a table holds a record, without reading it."""
        if name in self.__dict__:
            return bool(len(self.__dict__[name]))
        path = self._path(name)
        return path.is_file() and path.stat().st_size > _torn(path)

    def close(self) -> None:
        for name in _TABLES:
            if name in self.__dict__:
                self.__dict__[name].close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _torn(path: Path) -> int:
    """Bytes behind the last line end of a file: half a record."""
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _CHUNK)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                return size - (start + at + 1)
            end = start
    return size


def _take_lock(path: Path) -> IO[str]:
    lock = (path / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConfigError(
            f"run {path} is being written by another process; wait, or use another --run name"
        ) from None
    return lock


# What may change between a kill and a resume without mixing two experiments. The base URL and max_tokens may
# not: they are part of a call's key, so what was paid for would be bought again.
_FREE = {"workers", "limits.rpm", "limits.tpm", "limits.timeout", "limits.retries", "limits.api_key_env"}
_FREE |= {"budget.max_usd", "budget.max_calls", "budget.price", "limits.replay"}


def _unused(path: Path) -> bool:
    """Whether nothing was sent or played in a run: then its settings may still change."""
    used = (path / f"{name}.jsonl" for name in ("dispatched", "calls", "trajectories"))
    return not any(table.exists() and table.stat().st_size for table in used)


def _refuse_other(path: Path, saved: RunConfig, now: RunConfig) -> None:
    differing = _difference(saved, now)
    if differing:
        raise ConfigError(
            f"run {path} was started with other settings ({differing}); "
            "use another --run name, or the same settings to resume"
        )


def _difference(saved: RunConfig, now: RunConfig) -> str:
    a, b = _flat(saved), _flat(now)
    return "; ".join(
        f"{key}: {a[key]!r} then, {b[key]!r} now" for key in a if key not in _FREE and a[key] != b[key]
    )


def _flat(config: RunConfig) -> dict[str, Any]:
    """Settings by dotted name; all tables of a config are one deep."""
    flat: dict[str, Any] = {}
    for key, value in config.model_dump().items():
        flat |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    return flat
