"""The health of a store: counted as it is, broken tables told and not raised, nothing changed."""

from __future__ import annotations

import math
from pathlib import Path

from roleagent_lite.memory import Item, Memory
from roleagent_lite.memory.health import health
from tests.memory.make import Hashing, fingerprint, items


def test_no_store_and_an_empty_table(tmp_path: Path) -> None:
    assert health(tmp_path / "none") == []
    memory = Memory(tmp_path / "m")
    memory.upsert("a", items(2))
    memory.replace("a", [])
    (one,) = health(tmp_path / "m")
    assert (one.table, one.error, one.rows, one.dim, one.twice) == ("a", "", 0, 0, 0)


def test_rows_vectors_and_pieces_are_counted(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m", Hashing("odd", 4, {"bad": [math.nan] * 4}))
    for number in range(3):
        memory.upsert("b", [Item(f"t{number}", f"apple {number}")])
    memory.upsert("b", [Item("x", "bad")])
    memory.index("b")
    Memory(tmp_path / "m").upsert("a", items(5))
    before = fingerprint(tmp_path / "m")
    plain, embedded = health(tmp_path / "m")
    assert (plain.table, plain.rows, plain.dim, plain.embedder) == ("a", 5, 0, "")
    assert (embedded.rows, embedded.dim, embedded.embedder) == (4, 4, "odd")
    assert (embedded.without, embedded.twice, embedded.indices) == (1, 0, 1)
    assert embedded.fragments >= 1 and embedded.bytes > 0
    assert fingerprint(tmp_path / "m") == before


def test_a_lost_file_shows(tmp_path: Path) -> None:
    Memory(tmp_path / "m").upsert("a", items(5))
    Memory(tmp_path / "m").upsert("b", items(5))
    (data,) = (tmp_path / "m" / "a.lance" / "data").iterdir()
    data.unlink()
    broken, whole = health(tmp_path / "m")
    assert broken.error and broken.rows == 0 and whole.error == "" and whole.rows == 5


def test_a_folder_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "m" / "a.lance").mkdir(parents=True)
    (one,) = health(tmp_path / "m")
    assert one.table == "a" and "broken off" in one.error
    memory = Memory(tmp_path / "m")
    assert memory.count("a") == 0
    memory.upsert("a", items(2))  # as a resume does after a full disk
    assert health(tmp_path / "m")[0].rows == 2
