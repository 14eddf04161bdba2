"""Where a search looks: a corpus in LanceDB (words, vectors or both), or a server that speaks `/retrieve`.

Owns reading a corpus (JSON lines or parquet of `id` and `contents`), its index in the cache folder, and the
client of the retrieval protocol. Leaves out the episode (env.py) and serving (server.py).
"""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from roleagent_lite.embed import make_embedder
from roleagent_lite.envs.search.protocol import Passage
from roleagent_lite.errors import ConfigError, EnvironmentFault, nearest
from roleagent_lite.lm.wheels import cache_dir
from roleagent_lite.memory import Item, Memory, parquet_rows
from roleagent_lite.tasksets import read_rows

TABLE = "passages"
HOW = ("text", "vector", "hybrid")
TIMEOUT = 30.0  # seconds for one retrieval from a server
_BATCH = 20_000  # passages written at once
_REMEMBERED = 10_000  # queries
Scored = tuple[Passage, float]


class Retriever(Protocol):
    def search(self, query: str, k: int) -> Sequence[Scored]: ...


def passage_from(row: Any, where: str) -> Passage:
    """A corpus row: `contents`, or `title` and `text`. Raises ConfigError that says what it has."""
    if isinstance(row, Mapping):
        contents = row.get("contents")
        if contents is None and isinstance(row.get("text"), str):
            contents = f'"{row.get("title", "")}"\n{row["text"]}'
        if isinstance(contents, str) and row.get("id") is not None:
            return Passage(str(row["id"]), contents)
    has = (
        ", ".join(f"{key}{' (null)' if row[key] is None else ''}" for key in row)
        if isinstance(row, Mapping)
        else type(row).__name__
    )
    raise ConfigError(f"{where}: a passage needs id and contents (or title and text); it has {has}")


def read_corpus(path: Path) -> Iterator[Passage]:
    """Passages of a JSON-lines or parquet file, row by row for parquet. Raises ConfigError."""
    if path.suffix == ".parquet":
        for number, row in enumerate(parquet_rows(path), 1):
            yield passage_from(row, f"{path} row {number}")
        return
    for number, row in read_rows(path):
        yield passage_from(row, f"{path} line {number}")


def look(path: Path) -> None:
    """Reads the first passage of a corpus file. Raises ConfigError where there is none or it is none."""
    if path.suffix == ".parquet":
        first = next(read_corpus(path), None)
    else:
        try:
            with path.open(encoding="utf-8-sig") as file:
                number, line = next(((n, text) for n, text in enumerate(file, 1) if text.strip()), (0, ""))
            first = passage_from(json.loads(line), f"{path} line {number}") if line else None
        except ValueError as error:
            raise ConfigError(f"corpus {path} is no JSON lines in UTF-8: {error}") from None
    if first is None:
        raise ConfigError(f"corpus {path} holds no passage; give JSON lines or parquet with id and contents")


class Corpus:
    """Passages in LanceDB. `how`: text (BM25), vector, or hybrid (both, by reciprocal ranks).

    The index is built at the first search and kept in `folder`. `embedder`: a name of `embed.make_embedder`.
    """

    def __init__(
        self,
        passages: Callable[[], Iterable[Passage]],
        folder: Path,
        how: str = "text",
        embedder: str = "auto",
    ) -> None:
        if how not in HOW:
            raise ConfigError(f"no retrieval '{how}'{nearest(how, HOW)}; known: {', '.join(HOW)}")
        self._passages = passages
        self._how = how
        self._embedder = embedder
        self._folder = folder if how == "text" else folder.with_name(f"{folder.name}-{embedder}")
        self._memory: Memory | None = None
        self._known: dict[tuple[str, int], tuple[Scored, ...]] = {}

    def _opened(self) -> Memory:
        if self._memory is None:
            embedder = None if self._how == "text" else make_embedder(self._embedder)
            if embedder is None and self._how != "text":
                raise ConfigError(f"retrieval '{self._how}' needs an embedder; '{self._embedder}' gives none")
            memory = Memory(self._folder, embedder)
            whole = self._folder / "whole"  # written last: a build that was broken off is done again
            if not whole.is_file():
                rows, given = iter(self._passages()), 0
                while batch := list(islice(rows, _BATCH)):
                    given += len(batch)
                    # The title counts twice: what is asked for is mostly named in it.
                    memory.upsert(TABLE, [Item(p.id, f"{p.title}\n{p.contents}") for p in batch])
                kept = memory.count(TABLE)
                if kept < given:  # a later one took the place of an earlier one
                    raise ConfigError(
                        f"{given - kept} of {given} passages have the id of another; give each its own"
                    )
                whole.parent.mkdir(parents=True, exist_ok=True)
                whole.write_text("")
            self._memory = memory
        return self._memory

    def search(self, query: str, k: int) -> Sequence[Scored]:
        """The k best passages with their scores (higher is nearer); none for a query without a word."""
        if not any(c.isalnum() for c in query):
            return ()
        if (query, k) not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            hits = self._opened().search(TABLE, query, k, words=self._how != "vector")
            found = ((hit, hit.item.text.partition("\n")[2]) for hit in hits)
            self._known[query, k] = tuple((Passage(h.item.id, text), h.score) for h, text in found)
        return self._known[query, k]


class Remote:
    """A retrieval server: POST {"queries", "topk", "return_scores"}, as Search-R1's (`query` is sent too)."""

    def __init__(self, url: str) -> None:
        self._url = url

    def search(self, query: str, k: int) -> Sequence[Scored]:
        """The k best passages. Raises EnvironmentFault where the server fails or answers in another shape."""
        asked = {"queries": [query], "query": query, "topk": k, "return_scores": True}
        request = urllib.request.Request(
            self._url, json.dumps(asked).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                said = json.loads(answer.read())
        except (OSError, ValueError, urllib.error.URLError) as error:
            raise EnvironmentFault(f"retrieval server {self._url}: {error}") from error
        try:
            return [self._scored(hit) for hit in said["result"][0]]
        except (KeyError, IndexError, TypeError) as error:
            raise EnvironmentFault(
                f"retrieval server {self._url} answered {str(said)[:120]}; expected "
                '{"result": [[{"document": {"id", "contents"}, "score"}]]}'
            ) from error

    @staticmethod
    def _scored(hit: Any) -> Scored:
        document = hit.get("document", hit)
        return Passage(str(document.get("id", "")), str(document["contents"])), float(hit.get("score", 0.0))


def _stamp(path: Path) -> str:
    """A file's index by name, size and time of change: hashing millions of passages would take minutes."""
    about = path.stat()
    what = f"{path.resolve()}\0{about.st_size}\0{about.st_mtime_ns}"
    return hashlib.sha256(what.encode("utf-8", "replace")).hexdigest()[:16]


@lru_cache(maxsize=8)
def _of_file(path: str, stamp: str, how: str, embedder: str) -> Corpus:
    return Corpus(lambda: read_corpus(Path(path)), cache_dir() / "search" / stamp, how, embedder)


def of_file(path: Path, how: str = "text", embedder: str = "auto") -> Corpus:
    """The corpus of a file; opened once for all episodes. Raises ConfigError where it is not there."""
    if not path.is_file():
        raise ConfigError(f"no corpus file {path}; give JSON lines or parquet with id and contents")
    return _of_file(str(path), _stamp(path), how, embedder)
