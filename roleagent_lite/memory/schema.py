"""The schema of a memory table: its columns, and which embedder made its vectors.

Owns what a table's metadata says and the wording when it does not fit the present embedder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.memory.rows import OWN, Item
from roleagent_lite.types import Embedder


def make_schema(table: str, items: Sequence[Item], embedder: Embedder | None) -> Any:
    """An Arrow schema: id, text, data, the items' columns (type of the first value met), vector if embedded.

    The embedder's name and size are its metadata ("" and 0 for none). Raises RoleAgentError on a column
    name that is taken or not a plain word, or of a type that cannot be filtered on.
    """
    import pyarrow as pa

    arrow = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    kinds: dict[str, Any] = {}
    for item in items:
        for name, value in item.columns.items():
            if name in OWN or not re.fullmatch(r"[a-z][a-z0-9_]*", name) or type(value) not in arrow:
                raise RoleAgentError(
                    f"memory table '{table}' cannot have a column '{name}' of type {type(value).__name__}; "
                    f"use a lower-case word other than {', '.join(OWN)}, and str, int, float or bool"
                )
            kinds.setdefault(name, arrow[type(value)])
    fields = [pa.field("id", pa.string(), nullable=False), pa.field("text", pa.string())]
    fields += [pa.field("data", pa.string()), *(pa.field(n, kinds[n]) for n in sorted(kinds))]
    if embedder is not None:
        fields.append(pa.field("vector", pa.list_(pa.float32(), embedder.dim)))
    name, dim = (embedder.name, embedder.dim) if embedder else ("", 0)
    return pa.schema(fields, metadata={"embedder": name, "dim": str(dim)})


def made_by(schema: Any) -> tuple[str, int]:
    """Name and size of the embedder that a table was made with; ("", 0) for none."""
    saved = {k.decode(): v.decode() for k, v in (schema.metadata or {}).items()}
    return saved.get("embedder", ""), int(saved.get("dim", "0"))


def check_embedder(schema: Any, embedder: Embedder, table: str, path: Path) -> str:
    """A note where the present embedder is not the one of the table, "" where it is.

    Raises RoleAgentError where the sizes differ: such vectors cannot be compared at all.
    """
    name, dim = made_by(schema)
    if not dim:
        return f"memory store {path}: table '{table}' has no vectors: words alone, until it is rebuilt"
    if dim != embedder.dim:
        raise RoleAgentError(
            f"memory store {path}: table '{table}' holds vectors of {dim} numbers made by '{name}', but "
            f"'{embedder.name}' makes {embedder.dim}; use '{name}' again, or rebuild the store with "
            f"'{embedder.name}': delete that folder and resume, it is made again from the run's tables"
        )
    if name != embedder.name:
        return (
            f"memory store {path}: table '{table}' was embedded by '{name}' and is searched by "
            f"'{embedder.name}' of the same size {dim}; rebuild it if these are different models"
        )
    return ""
