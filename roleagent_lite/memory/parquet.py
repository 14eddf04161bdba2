"""Rows of a parquet file, read batch by batch, and written. Leaves out what they mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from roleagent_lite.errors import ConfigError

_ROWS = 4096  # read at once


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Each row as a dict, in order. Raises ConfigError for a file that cannot be read as parquet."""
    import pyarrow.lib
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS):
                yield from batch.to_pylist()
    except (OSError, pyarrow.lib.ArrowException) as error:
        raise ConfigError(f"cannot read the parquet file {path}: {error}") from None


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any]) -> None:
    """`rows` as one parquet file, any value of which may be None.

    columns: name -> kind of its values: str, int, float or bool; [KIND] for a list, {name: KIND} for a
    struct. The kinds are stated and not guessed, so that a column of Nones or of empty lists has the type
    that it has in other files. Raises OSError, and ValueError for a value of another kind.
    """
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([(name, _type(kind)) for name, kind in columns.items()])
    try:
        made = pyarrow.Table.from_pylist([dict(row) for row in rows], schema=schema)
    except pyarrow.lib.ArrowException as error:
        raise ValueError(str(error)) from None
    pyarrow.parquet.write_table(made, path)


def _type(kind: Any) -> Any:
    import pyarrow

    if isinstance(kind, list):
        return pyarrow.list_(_type(kind[0]))
    if isinstance(kind, dict):
        return pyarrow.struct([(name, _type(inner)) for name, inner in kind.items()])
    return {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}[
        kind
    ]
