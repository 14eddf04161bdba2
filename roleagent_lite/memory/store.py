"""Memory: a folder of LanceDB tables, found by words and, where there is an embedder, by meaning.

Owns the schema, the embedder's name in it, the stable order of hits and the clash of two writers. Leaves out
what the rows mean (`aiw/atlas.py`) and how vectors are made (`embed.py`). An index, not a record: whatever
lies here can be made again from the run's JSONL tables.
"""

from __future__ import annotations

import fcntl
import logging
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roleagent_lite.errors import ConfigError, RoleAgentError, nearest
from roleagent_lite.memory.faults import told
from roleagent_lite.memory.library import lancedb
from roleagent_lite.memory.rows import (
    ZERO,
    Hit,
    Item,
    Stored,
    Where,
    clean,
    listed,
    quote,
    ranked,
    scrubbed,
    to_arrow,
    to_items,
    to_unit,
)
from roleagent_lite.memory.schema import check_embedder, make_schema
from roleagent_lite.types import Embedder

VECTOR_INDEX_FROM = 100_000  # rows; below, exact search is as fast and needs no training
_RRF = 60  # the usual constant of reciprocal rank fusion
_DEEP = 2000  # hits read before ties are put in order
_log = logging.getLogger("roleagent_lite.memory")


class Memory:
    """A folder of tables. Nothing is opened before the first use; a missing table has no rows.

    embedder None: full-text search only. `notes` collects what a user should know (each once): rows that
    are not searchable by vector, an embedder of another name. Two processes may write at once.
    """

    def __init__(self, path: Path, embedder: Embedder | None = None) -> None:
        self.path = path
        self.embedder = embedder
        self.notes: list[str] = []
        self._indexed: dict[str, int] = {}
        self._db: Any = None

    # --- writing ---

    def upsert(self, table: str, rows: Sequence[Item]) -> Stored:
        """Write rows by id; a present id is replaced, a text that did not change keeps its vector.

        Raises RoleAgentError where the store holds vectors of another size (the store is left as it is) or
        a row has a column that the table lacks.
        """
        return self._write(table, rows, whole=False)

    def replace(self, table: str, rows: Sequence[Item]) -> Stored:
        """Make `rows` the whole content of the table."""
        return self._write(table, rows, whole=True)

    def _write(self, table: str, rows: Sequence[Item], whole: bool) -> Stored:
        unique = {item.id: item for item in map(scrubbed, rows)}
        items = [unique[i] for i in sorted(unique)]
        handle = self._open(table)
        if not items and not (whole and handle is not None):
            return Stored(0)
        known = {} if handle is None else self._vectors(handle, None if whole else list(unique))
        vectors, bad = self._embed(items, known)
        self._put(table, items, vectors, whole)
        return Stored(len(items), bad)

    @told
    def _put(self, table: str, items: Sequence[Item], vectors: Mapping[str, Any], whole: bool) -> None:
        with self._lock():
            handle = self._open(table)
            if handle is None or whole:
                self._create(table, items, vectors)
            else:
                self._merge(handle, table, items, vectors)

    def _embed(
        self, items: Sequence[Item], known: Mapping[tuple[str, str], Any]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Unit vectors by id, and why others have none."""
        vectors = {i.id: known[i.id, i.text] for i in items if (i.id, i.text) in known}
        if self.embedder is None:
            return vectors, {}
        new = [i for i in items if i.id not in vectors]
        bad: dict[str, str] = {}
        given = list(self.embedder.embed([i.text for i in new])) if new else []
        if len(given) != len(new):
            raise RoleAgentError(
                f"embedder '{self.embedder.name}' gave {len(given)} vectors for {len(new)} texts"
            )
        for item, vector in zip(new, given, strict=True):
            unit, reason = to_unit(vector, self.embedder.dim)
            if unit is None:
                bad[item.id] = reason
                self._note(f"memory row '{item.id}' is not searchable by meaning: {reason}")
            else:
                vectors[item.id] = unit
        return vectors, bad

    def _create(self, table: str, items: Sequence[Item], vectors: Mapping[str, Any]) -> None:
        schema = make_schema(table, items, self.embedder)
        data = to_arrow(items, vectors, schema)
        mode = "overwrite" if self._open(table, check=False) is not None else "create"
        if mode == "create":  # what a full disk or a kill left of an earlier try
            shutil.rmtree(self.path / f"{table}.lance", ignore_errors=True)
        self._connect().create_table(table, data, schema=schema, mode=mode, on_bad_vectors="null")
        self._indexed.pop(table, None)

    def _merge(self, handle: Any, table: str, items: Sequence[Item], vectors: Mapping[str, Any]) -> None:
        for item in items:
            for name in item.columns:
                self._check_column(handle, table, name)
        data = to_arrow(items, vectors, handle.schema)
        merge = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(data, on_bad_vectors="null")

    @told
    def delete(self, table: str, ids: Collection[str]) -> int:
        """Remove exactly these rows; how many there were."""
        with self._lock():
            handle = self._open(table)
            if handle is None or not ids:
                return 0
            before = handle.count_rows()
            handle.delete(f"id IN {listed([clean(i) for i in ids])}")
            return int(before - handle.count_rows())

    @told
    def rebuild(self) -> dict[str, int]:
        """Embed every row of every table again with the present embedder; rows by table."""
        done: dict[str, int] = {}
        for table in self.tables():
            handle = self._open(table, check=False)
            items = to_items(handle.to_arrow().to_pylist())
            vectors, _ = self._embed(items, {})
            with self._lock():
                self._create(table, items, vectors)
            done[table] = len(items)
        return done

    @told
    def index(self, table: str) -> bool:
        """Index a table by words, and by vector from 100,000 rows; True if a vector index was made.

        Below that exact search is used: as fast, and no rows are too few for it.
        """
        handle = self._open(table)
        rows = 0 if handle is None else handle.count_rows()
        if handle is not None:
            self._fresh_words(handle, table)
        if handle is None or rows < VECTOR_INDEX_FROM or "vector" not in handle.schema.names:
            text = f"memory table '{table}' has {rows} rows: exact search is used, no vector index"
            self._note(text, logging.INFO)
            return False
        from lancedb.index import IvfFlat

        with self._lock():
            handle.create_index("vector", config=IvfFlat(distance_type="cosine"), replace=True)
        return True

    # --- reading ---

    def search(
        self,
        table: str,
        query: str,
        k: int,
        where: Where | None = None,
        exclude: Collection[str] = (),
        words: bool = True,
    ) -> list[Hit]:
        """The k best rows, by (score, id): reciprocal rank fusion of words and vectors, or words alone.

        where: column -> value or values, joined by AND; exclude: ids left out; words False: by vectors alone
        if the query has one. Rows, query and embedder alone decide the order. Raises RoleAgentError on an
        unknown column or a query vector that is no vector (NaN, wrong size).
        """
        handle = self._open(table)
        if handle is None or k < 1 or not handle.count_rows():
            self._note(f"memory table '{table}' is empty: nothing to search", logging.INFO)
            return []
        condition = self._condition(handle, table, where or {}, exclude)
        limit = min(handle.count_rows(), max(_DEEP, 4 * k))
        rows: dict[str, dict[str, Any]] = {}
        vector = self._query_vector(handle, query)
        said = (
            self._by_words(handle, table, clean(query), limit, condition, rows)
            if words or vector is None
            else []
        )
        scores = dict(said)
        if vector is not None:
            near = self._by_vector(handle, vector, limit, condition, rows)
            ranks = (ranked(said), ranked(near))
            scores = {i: sum(1 / (_RRF + r[i]) for r in ranks if i in r) for i in rows}
            scores = scores if words else dict(near)
        best = sorted(scores, key=lambda i: (-scores[i], i))[:k]
        return [Hit(to_items([rows[i]])[0], scores[i]) for i in best]

    @told
    def _by_words(
        self, handle: Any, table: str, query: str, limit: int, condition: str, rows: dict[str, dict[str, Any]]
    ) -> list[tuple[str, float]]:
        self._fresh_words(handle, table)
        found = handle.search(query, query_type="fts").limit(limit)
        found = found.where(condition, prefilter=True) if condition else found
        hits = found.to_list()
        rows.update({row["id"]: row for row in hits})
        return [(row["id"], round(row["_score"], 6)) for row in hits]

    @told
    def _by_vector(
        self, handle: Any, vector: Any, limit: int, condition: str, rows: dict[str, dict[str, Any]]
    ) -> list[tuple[str, float]]:
        usable = "vector IS NOT NULL" + (f" AND {condition}" if condition else "")
        found = handle.search(vector, query_type="vector").distance_type("cosine")
        hits = found.where(usable, prefilter=True).limit(limit).to_list()
        rows.update({row["id"]: row for row in hits})
        return [(row["id"], round(1 - row["_distance"], 6)) for row in hits]

    def _query_vector(self, handle: Any, query: str) -> Any:
        if self.embedder is None or "vector" not in handle.schema.names:
            return None
        given = list(self.embedder.embed([query]))
        unit, reason = to_unit(given[0] if given else (), self.embedder.dim)
        if unit is None and reason != ZERO:
            raise RoleAgentError(
                f"embedder '{self.embedder.name}' gave no usable vector for the query '{query[:60]}': "
                f"{reason}"
            )
        return unit  # all zeros (a query without known words): words alone decide

    @told
    def _fresh_words(self, handle: Any, table: str) -> None:
        """An index over all rows, made anew after a write: BM25 must not depend on the order of writes."""
        if self._indexed.get(table) == handle.version:
            return
        from lancedb.index import FTS

        with self._lock():
            handle.checkout_latest()
            handle.create_index("text", config=FTS(), replace=True)
            self._indexed[table] = handle.version

    @told
    def get(self, table: str, id: str) -> Item | None:
        """The row of this id, or None."""
        handle = self._open(table)
        if handle is None:
            return None
        rows = to_items(handle.search().where(f"id = {quote(clean(id))}").limit(1).to_list())
        return rows[0] if rows else None

    @told
    def count(self, table: str, where: Where | None = None) -> int:
        handle = self._open(table)
        if handle is None:
            return 0
        return int(handle.count_rows(self._condition(handle, table, where or {}, ()) or None))

    @told
    def all(self, table: str) -> list[Item]:
        """Every row, by id."""
        handle = self._open(table)
        return [] if handle is None else to_items(handle.to_arrow().to_pylist())

    def tables(self) -> list[str]:
        return sorted(p.stem for p in self.path.glob("*.lance"))

    # --- the store ---

    def _connect(self) -> Any:
        library = lancedb()
        if self._db is None:
            self.path.mkdir(parents=True, exist_ok=True)
            self._db = library.connect(str(self.path))
        return self._db

    @told
    def _open(self, table: str, check: bool = True) -> Any:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", table):
            raise ConfigError(f"'{table}' cannot name a memory table; use letters, digits, - and _")
        if not any((self.path / f"{table}.lance" / "_versions").glob("*")):
            return None  # no table, or one whose making was broken off
        handle = self._connect().open_table(table)
        if check and self.embedder is not None:
            self._note(check_embedder(handle.schema, self.embedder, table, self.path))
        return handle

    def _check_column(self, handle: Any, table: str, name: str) -> None:
        known = [n for n in handle.schema.names if n != "vector"]
        if name not in known:
            raise RoleAgentError(f"memory table '{table}' has no column '{name}'{nearest(name, known)}")

    def _condition(self, handle: Any, table: str, where: Where, exclude: Collection[str]) -> str:
        parts = []
        for name, value in where.items():
            self._check_column(handle, table, name)
            values = [value] if isinstance(value, str | int | float | bool) else list(value)
            parts.append(f"{name} IN {listed(values)}" if values else "false")
        if exclude:
            parts.append(f"id NOT IN {listed([clean(i) for i in sorted(exclude)])}")
        return " AND ".join(parts)

    @told
    def _vectors(self, handle: Any, ids: Sequence[str] | None) -> dict[tuple[str, str], Any]:
        """Vectors that are there already, by (id, text)."""
        if "vector" not in handle.schema.names or not handle.count_rows():
            return {}
        found = handle.search().select(["id", "text", "vector"]).limit(handle.count_rows())
        if ids is not None:
            found = found.where(f"id IN {listed(ids)}")
        return {(r["id"], r["text"]): r["vector"] for r in found.to_list() if r["vector"] is not None}

    def _note(self, text: str, level: int = logging.WARNING) -> None:
        if text and text not in self.notes:
            self.notes.append(text)
            _log.log(level, "%s", text)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One writer at a time, over processes: LanceDB would refuse the second commit with a conflict."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
