"""The door to LanceDB: tables of texts that can be searched by words and by meaning."""

from roleagent_lite.memory.parquet import parquet_rows, write_parquet
from roleagent_lite.memory.rows import Hit, Item, Stored
from roleagent_lite.memory.store import Memory

__all__ = ["Hit", "Item", "Memory", "Stored", "parquet_rows", "write_parquet"]
