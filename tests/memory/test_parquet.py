"""Rows of parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from roleagent_lite.errors import ConfigError
from roleagent_lite.memory import parquet_rows


def test_rows_in_order_batch_by_batch(tmp_path: Path) -> None:
    rows = [{"id": n, "words": [str(n)], "more": {"a": n}} for n in range(10_000)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    assert list(parquet_rows(tmp_path / "t.parquet")) == rows


def test_what_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("text")
    for name in ("t.parquet", "none.parquet"):
        with pytest.raises(ConfigError, match="cannot read the parquet file"):
            list(parquet_rows(tmp_path / name))
