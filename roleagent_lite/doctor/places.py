"""Checks of directories: room, writing, runs and who holds them, memory stores.

Owns which amounts of room are too little and what is said of a run. Leaves out reading tables (store,
memory). Nothing is written but one small file that goes at once.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from roleagent_lite.config import load
from roleagent_lite.doctor.line import Line, ok, problem, warning
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.memory.health import TableHealth, health
from roleagent_lite.store import Run, held

LOW_DISK = 2 << 30  # bytes; a long run and its store
NO_DISK = 100 << 20  # bytes; not even the embedded model fits
MANY = 20  # runs looked at, the newest
FRAGMENTS = 1000  # pieces of a table above which reading slows down


def existing(path: Path) -> Path:
    """`path` or its nearest parent that is there."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def disk(name: str, path: Path, free: int | None = None) -> Line:
    try:
        free = shutil.disk_usage(existing(path)).free if free is None else free
    except OSError as error:
        return problem(name, f"{path}: {error.strerror}", "name another folder")
    shown = f"{free / 1e9:.1f} GB free at {path}"
    if free < NO_DISK:
        return problem(name, shown, "free some space there: what is written next will not fit")
    if free < LOW_DISK:
        return warning(name, shown, "free some space there: a long run may not fit")
    return ok(name, shown)


def writable(name: str, path: Path) -> Line:
    """Whether a file can be made in `path`, or in the parent in which `path` would be made."""
    at = existing(path)
    try:
        with tempfile.NamedTemporaryFile(dir=at, prefix=".doctor-") as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        return problem(
            name, f"{at} cannot be written: {error.strerror}", "mend its permissions, or name another folder"
        )
    return ok(name, f"{path} can be written" if at == path.absolute() else f"{path} can be made")


def _torn(run: Path) -> list[str]:
    """Tables that end inside a record."""
    found = []
    for table in sorted(run.glob("*.jsonl")):
        with table.open("rb") as file:
            if file.seek(0, 2) and file.seek(-1, 2) >= 0 and file.read(1) != b"\n":
                found.append(table.name)
    return found


def run_lines(run: Path, whole: bool = False) -> list[Line]:
    """What is odd about one run; `whole`: read every record, and say something in any case."""
    name = f"run {run.name}"
    try:
        load(run / "config.toml")
        if held(run):
            return [ok(name, "a live process is writing it", "wait for it, or use another --run name")]
        torn = _torn(run)
        if whole:
            with Run.open(run) as opened:
                counts = f"{len(opened.trajectories)} episodes, {len(opened.calls)} calls"
                found = [ok(name, f"{opened.status}; {counts}")]
        else:
            found = []
    except (RoleAgentError, OSError) as error:
        return [problem(name, str(error), "mend or delete what is named")]
    if torn:
        found.append(
            warning(
                name,
                f"{', '.join(torn)} end inside a record, as a kill leaves them",
                "resume the run: the half record is dropped and redone",
            )
        )
    return found


def _found_runs(root: Path) -> list[Path]:
    """Runs in a folder, the newest last."""
    if not root.is_dir():
        return []
    found = [p for p in root.iterdir() if (p / "config.toml").is_file()]
    return sorted(found, key=lambda p: ((p / "config.toml").stat().st_mtime, p.name))


def runs(root: Path) -> list[Line]:
    """One line on all runs in a folder, and one for each of the newest 20 that is held, torn or broken."""
    found = _found_runs(root)
    if not found:
        return [ok("runs", f"none in {root}/ yet")]
    recent = found[-MANY:]
    more = f", the newest {MANY} were looked at" if len(found) > MANY else ""
    return [
        ok("runs", f"{len(found)} in {root}/{more}"),
        *(line for run in recent for line in run_lines(run)),
    ]


def _table_line(name: str, one: TableHealth) -> Line:
    if one.error:
        return problem(
            name,
            f"table {one.table} cannot be read: {one.error}",
            "delete this memory folder: it is an index and is made again from the run",
        )
    vectors = f"vectors of {one.dim} by {one.embedder}" if one.dim else "no vectors"
    shown = f"{one.table}: {one.rows} rows, {vectors}, {one.fragments} fragments, {one.indices} indices"
    if one.twice:
        return problem(name, f"{shown}; {one.twice} ids twice", "delete this memory folder: it is made again")
    if one.fragments > FRAGMENTS:
        return warning(name, shown, "delete this memory folder: it is made again in one piece")
    if one.without:
        return ok(name, f"{shown}; {one.without} rows are found by words only")
    return ok(name, shown)


def stores(folders: Sequence[Path]) -> list[Line]:
    """One line a table of the memory stores in these runs. LanceDB is loaded only where there is a table."""
    lines = []
    for run in folders:
        path = run / "memory"
        if any(path.glob("*.lance")):
            lines += [_table_line(f"store of {run.name}", one) for one in health(path)]
    return lines or [ok("stores", "no memory store yet")]


def all_stores(root: Path, opened: bool) -> list[Line]:
    """The stores of the newest runs; `opened` False: only that they are there (LanceDB loads slowly)."""
    recent = _found_runs(root)[-MANY:]
    if opened:
        return stores(recent)
    tables = [t for run in recent for t in (run / "memory").glob("*.lance")]
    if not tables:
        return stores([])
    size = sum(f.stat().st_size for t in tables for f in t.rglob("*") if f.is_file())
    return [
        ok(
            "stores",
            f"{len(tables)} tables, {size / 1e6:.1f} MB, not opened",
            "--stores or --run looks inside",
        )
    ]
