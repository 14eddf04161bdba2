"""Run: one directory of append-only JSONL tables. The three jobs meet here and nowhere else.

Owns which tables a run has, its lock and which settings it may be resumed with. Rows are written once by
key: a second `put` of the same key is a no-op, which makes resume the same program as the first run. A reader
opens the tables that it asks for. Leaves out the file of a table (table).
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import roleagent_lite.types as nouns
from roleagent_lite.config import RunConfig, dump_toml, load
from roleagent_lite.errors import ConfigError, RoleAgentError, nearest
from roleagent_lite.redact import clean, one_line, register_url
from roleagent_lite.table import Table, torn_bytes


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


TABLES = tuple(_TABLES)


class Run:
    """A run directory, open for reading or (one process at a time) for writing.

    Attributes tasks, dispatched, calls, trajectories, trials, credits, diagnoses, prompt_sets, results,
    events are Tables. `config` is the resolved RunConfig saved in config.toml.
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
        found = {
            n: self.__dict__[n].torn if n in self.__dict__ else torn_bytes(self._path(n)) for n in _TABLES
        }
        return {name: size for name, size in found.items() if size}

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> Run:
        """A new run, or the same one again; refuses one whose config differs, naming the difference.

        A run in which nothing was sent or played yet starts anew, whatever it was to be.

        Raises ConfigError where the folder holds files of another origin that a run would write over, and
        RoleAgentError where the directory cannot be made or written.
        """
        refuse_links(path)
        for url in (config.limits.base_url, config.model, *config.models.model_dump().values()):
            register_url(url)  # before the first file is written
        safe = RunConfig.model_validate(clean(config.model_dump()))
        saved = path / "config.toml"
        try:
            _refuse_foreign(path)
            path.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(path)
        except OSError as error:
            raise RoleAgentError(f"cannot write run directory {path}: {error.strerror}") from None
        try:
            if saved.exists() and _unused(path) and not config.limits.replay:
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
            (path / "config.toml.part").unlink(missing_ok=True)
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
        refuse_links(path)
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
        return path.is_file() and path.stat().st_size > torn_bytes(path)

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


def refuse_links(path: Path) -> None:
    """Raises ConfigError where a run directory holds a link, a pipe or a device: what is written into it
    would land elsewhere, what is read would be another's. A run that others made may hold anything.
    """
    for folder in (path, path / "memory"):
        for base, folders, files in os.walk(folder, followlinks=False):
            for name in (*folders, *files):
                odd = Path(base) / name
                try:
                    mode = odd.lstat().st_mode
                except FileNotFoundError:  # the index of a run that is being played changes under us
                    continue
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise ConfigError(
                        f"run {path} holds {odd.relative_to(path)}, which is a link or no file; a run "
                        "consists of plain files. Remove it if the run is yours; else do not use the run"
                    )
            if folder == path:
                break  # only the index has folders that we write into


def _refuse_foreign(path: Path) -> None:
    """Raises ConfigError where a run begun at `path` would write over what no run wrote: a folder of the
    user's own may hold settings as config.toml and tasks as tasks.jsonl.
    """
    if (path / "lock").exists():  # every run has one from its first moment on
        return
    if inside := run_names(path):
        raise ConfigError(f"{path} is a folder of runs ({inside[-1]}, …); name a folder in it for this run")
    tables = [name for name in (f"{table}.jsonl" for table in _TABLES) if (path / name).exists()]
    if (path / "config.toml").exists() and any(_holds_records(path / name) for name in tables):
        return  # a run that was copied without its lock
    known = ("config.toml", *tables, "report.md", "report.json", "report.html")
    if theirs := [name for name in known if (path / name).exists()]:
        raise ConfigError(
            f"{path} is no run, but holds files that a run would write over ({', '.join(theirs)}); "
            "name another folder for the run"
        )


def _holds_records(table: Path) -> bool:
    with table.open("rb") as file:
        return file.read(5) == b'{"v":'


def _take_lock(path: Path) -> IO[str]:
    lock = (path / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConfigError(
            f"run {path} is being written by another process; wait, or use another --run name "
            "(distill: --out)"
        ) from None
    return lock


def held(run: Path) -> bool:
    """Whether a live process writes this run. The shared lock that asks is let go at once."""
    try:
        with (run / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False


# What may change between a kill and a resume without mixing two experiments. The base URL and max_tokens may
# not: they are part of a call's key, so what was paid for would be bought again.
_FREE = {"workers", "limits.rpm", "limits.tpm", "limits.timeout", "limits.retries", "limits.api_key_env"}
_FREE |= {"budget.max_usd", "budget.max_calls", "budget.price", "limits.replay"}


def _unused(path: Path) -> bool:
    """Whether nothing was sent or played in a run: then its settings may still change."""
    used = (path / f"{name}.jsonl" for name in ("dispatched", "calls", "trajectories", "trials"))
    return not any(table.exists() and table.stat().st_size for table in used)


def _refuse_other(path: Path, saved: RunConfig, now: RunConfig) -> None:
    differing = _difference(saved, now)
    if differing:
        raise ConfigError(
            f"run {path} was started with other settings ({differing}); "
            "use another --run name (distill: --out), or the same settings to resume"
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


# --- runs by name ---


def run_names(root: Path) -> list[str]:
    """Runs under `root`, the newest last."""
    if not root.is_dir():
        return []
    found = [p for p in root.iterdir() if (p / "config.toml").is_file()]
    return [p.name for p in sorted(found, key=lambda p: ((p / "config.toml").stat().st_mtime, p.name))]


def run_name(name: str) -> str:
    """`name` itself, for a run to be begun. Raises ConfigError unless it is one folder name that can be shown
    in one line."""
    if name in ("", ".", "..") or "/" in name or one_line(name) != name:
        raise ConfigError(
            f"--run '{one_line(name)}': a run's name is the name of one folder, without '/' and control "
            "characters; --runs FOLDER says where that folder lies"
        )
    return name


def find_run(name: str, root: Path) -> Path:
    """The directory of a run given by name or path. Raises ConfigError with the nearest name."""
    for path in (root / name, Path(name)):
        if (path / "config.toml").is_file():
            return path
    known = [one_line(one) for one in run_names(root)]
    raise ConfigError(
        f"no run '{one_line(name)}' in {root}/"
        + (nearest(name, known) if known else "; there are no runs yet")
    )
