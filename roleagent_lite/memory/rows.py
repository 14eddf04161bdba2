"""What a memory table holds: rows, hits, and their way into Arrow and SQL. Pure but for the key scrubber.

Owns cleaning (keys, broken characters), quoting and ranks. Leaves out the store (`memory/store.py`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from roleagent_lite.redact import clean as without_keys

Scalar = str | int | float | bool
Where = Mapping[str, Scalar | Sequence[Scalar]]

OWN = ("id", "text", "data", "vector")
ZERO = "all numbers are 0"


@dataclass(frozen=True, slots=True)
class Item:
    """One row. `columns` can be filtered on (one type a column, fixed by a table's first rows); `data` is
    any JSON."""

    id: str
    text: str
    columns: Mapping[str, Scalar] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hit:
    """`score`: higher is nearer; reciprocal rank fusion with an embedder, BM25 without."""

    item: Item
    score: float


@dataclass(frozen=True, slots=True)
class Stored:
    """`unsearchable`: id and reason of rows whose vector was unusable; words still find them."""

    written: int
    unsearchable: Mapping[str, str] = field(default_factory=dict)


def quote(value: Scalar) -> str:
    """A value as an SQL literal; an apostrophe in it ends nothing."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def listed(values: Collection[Scalar]) -> str:
    """`(a, b)` for SQL's IN, in the order given; `values` must not be empty."""
    return f"({', '.join(map(quote, values))})"


def clean(text: str) -> str:
    """Without known keys and without lone surrogates, which no file can hold."""
    return str(without_keys(text))


def scrubbed(item: Item) -> Item:
    """The row as it may be written."""
    columns = {k: clean(v) if isinstance(v, str) else v for k, v in item.columns.items()}
    data = json.loads(json.dumps(dict(item.data), ensure_ascii=False))  # plain data, as it will be read again
    return Item(clean(item.id), clean(item.text), columns, without_keys(data))


def ranked(scored: Sequence[tuple[str, float]]) -> dict[str, int]:
    """Rank from 1 by score, best first; equal scores share a rank, so that no order of rows decides."""
    out: dict[str, int] = {}
    last, rank = None, 0
    for place, (row, score) in enumerate(sorted(scored, key=lambda s: (-s[1], s[0])), 1):
        if score != last:
            last, rank = score, place
        out[row] = rank
    return out


def to_unit(vector: Sequence[float], dim: int) -> tuple[Any, str]:
    """The vector at length 1, or None and why it cannot be used."""
    import numpy as np

    values = np.asarray(vector, dtype=np.float64)
    if values.shape != (dim,):
        return None, f"{values.size} numbers instead of {dim}" if values.size else "the vector is empty"
    if not np.isfinite(values).all():
        return None, "the vector holds NaN or infinity"
    length = float(np.linalg.norm(values))
    return (None, ZERO) if length == 0 else ((values / length).astype(np.float32), "")


def to_items(rows: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Rows as LanceDB gives them, by id."""
    items = []
    for row in rows:
        columns = {k: v for k, v in row.items() if k not in OWN and not k.startswith("_") and v is not None}
        items.append(Item(row["id"], row["text"], columns, json.loads(row["data"])))
    return sorted(items, key=lambda i: i.id)


def to_arrow(items: Sequence[Item], vectors: Mapping[str, Any], schema: Any) -> Any:
    """An Arrow table of `schema`; a row without vector has null there."""
    import pyarrow as pa

    rows = []
    for item in items:
        row: dict[str, Any] = {"id": item.id, "text": item.text, **item.columns}
        row["data"] = json.dumps(dict(item.data), ensure_ascii=False, sort_keys=True)
        row["vector"] = vectors.get(item.id)
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=schema)
