"""How the tables of a memory store are: whether they open, how many rows, which vectors, how many pieces.

Owns reading that from LanceDB without changing anything. Leaves out what is good or bad about it (doctor).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.memory.schema import made_by
from roleagent_lite.memory.store import Memory
from roleagent_lite.redact import scrub


@dataclass(frozen=True, slots=True)
class TableHealth:
    """`error`: why the table cannot be read, "" where it can. `dim` 0: no vectors; `without`: rows that have
    none though the table has; `twice`: rows whose id another row has too."""

    table: str
    error: str = ""
    rows: int = 0
    embedder: str = ""
    dim: int = 0
    without: int = 0
    twice: int = 0
    fragments: int = 0
    indices: int = 0
    bytes: int = 0


def health(path: Path) -> list[TableHealth]:
    """One entry a table of the store at `path`, by name; every row's id is read, so that a lost file shows.

    Raises RoleAgentError in a process forked from one that had opened a store."""
    memory = Memory(path)
    return [_health(memory, table) for table in memory.tables()]


def _health(memory: Memory, table: str) -> TableHealth:
    try:
        handle = memory._open(table, check=False)
        if handle is None:
            return TableHealth(table, "its making was broken off")
        rows = int(handle.count_rows())
        ids = handle.search().select(["id"]).limit(rows).to_arrow()["id"].to_pylist() if rows else []
        name, dim = made_by(handle.schema)
        without = int(handle.count_rows("vector IS NULL")) if "vector" in handle.schema.names else 0
        stats = handle.stats()
        return TableHealth(
            table, "", rows, name, dim, without, len(ids) - len(set(ids)),
            stats["fragment_stats"]["num_fragments"], stats["num_indices"], stats["total_bytes"],
        )  # fmt: skip
    except (OSError, RuntimeError, ValueError, KeyError, RoleAgentError) as error:  # LanceDB's too
        return TableHealth(table, scrub(f"{type(error).__name__}: {error}".splitlines()[0][:300]))
