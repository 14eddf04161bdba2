"""Table: one append-only JSONL file of records, indexed by key. Only keys and offsets stay in memory.

One record a line, schema number in each. A torn last line (a kill) is counted and cut off by the next append,
so that the record is redone; damage elsewhere is named, never skipped. Leaves out what a run is made of
(store). Nothing here is ever unpickled.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.redact import clean, harmless

SCHEMA = 1
# How a record begins whose key needs no escapes: the rest of the line is looked at when it is read.
_HEAD = re.compile(rb'\{"v":%d,"key":"([^"\\\x00-\x1f]*)","row":' % SCHEMA)
_CHUNK = 1 << 16
MAX_LINE = 1 << 28  # bytes of one record; the longest real ones have a few millions
T = TypeVar("T")


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits[:20]} is too large")
    return value


_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite)


def _parsed(line: bytes) -> Any:
    """A record's JSON. Raises ValueError for all that no record of ours can hold."""
    try:
        return _DECODER.decode(line.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


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
        elif path.is_dir():  # found now, and not by the first record, which is paid for by then
            raise ConfigError(f"{path} is a folder where a file of records belongs; move it away")

    def _scan(self) -> None:
        good = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(iter(partial(file.readline, MAX_LINE + 1), b""), 1):
                if len(line) > MAX_LINE:
                    raise self._damaged(number, ValueError(f"longer than {MAX_LINE} bytes"))
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
            row = _parsed(line)
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

    def mend(self) -> None:
        """Cuts half a record off now, which the next `put` would do; for the process that holds the run."""
        with self._lock, contextlib.suppress(OSError):  # then the next `put` says it
            if self._end is not None:
                with self.path.open("r+b") as file:
                    self._cut(file)

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
            return self._adapter.validate_python(_parsed(line)["row"])
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


def torn_bytes(path: Path) -> int:
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
