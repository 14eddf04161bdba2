"""Rows of a parquet file, read batch by batch. Leaves out what they mean."""

from __future__ import annotations

from collections.abc import Iterator
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
