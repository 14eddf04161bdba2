"""Rows of parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from roleagent_lite.errors import ConfigError
from roleagent_lite.memory import parquet_rows, write_parquet


def test_rows_in_order_batch_by_batch(tmp_path: Path) -> None:
    rows = [{"id": n, "words": [str(n)], "more": {"a": n}} for n in range(10_000)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    assert list(parquet_rows(tmp_path / "t.parquet")) == rows


def test_what_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("text")
    for name in ("t.parquet", "none.parquet"):
        with pytest.raises(ConfigError, match="cannot read the parquet file"):
            list(parquet_rows(tmp_path / name))


def test_written_with_the_kinds_that_were_stated(tmp_path: Path) -> None:
    columns = {"id": str, "n": int, "x": float, "ok": bool, "words": [str], "said": [{"role": str, "n": int}]}
    rows: list[dict[str, object]] = [
        {"id": "a", "n": None, "x": 1.0, "ok": True, "words": [], "said": [{"role": "user", "n": 1}]},
        {"id": "é", "n": None, "x": None, "ok": False, "words": [], "said": []},
    ]
    path = tmp_path / "t.parquet"
    write_parquet(path, rows, columns)
    assert list(parquet_rows(path)) == rows
    kinds = {field.name: str(field.type) for field in pyarrow.parquet.read_schema(path)}
    assert (kinds["n"], kinds["words"], kinds["x"]) == ("int64", "list<element: string>", "double")
    with pytest.raises(ValueError, match="Could not convert"):
        write_parquet(path, [{"id": "a", "n": "seven"}], columns)
