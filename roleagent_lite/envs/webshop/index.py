"""Search over a catalogue: words in LanceDB's full-text index (BM25), and the original's special queries.

Owns the index's place and the memory of queries that were asked. The original ranks with Lucene, whose
stemming and stop words differ: rankings are alike, not equal.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from roleagent_lite.envs.webshop.products import Product
from roleagent_lite.lm.wheels import cache_dir
from roleagent_lite.memory import Item, Memory

MOST = 50  # hits of a query
REMEMBERED = 10_000  # queries
_BATCH = 20_000  # documents written at once
_TABLE = "products"


def fingerprint(products: Iterable[Product]) -> str:
    """What the index is of: asins and documents, in order."""
    digest = hashlib.sha256()
    for product in products:
        digest.update(f"{product.asin}\0{product.document}\0".encode("utf-8", "replace"))
    return digest.hexdigest()[:16]


class Index:
    """A catalogue's search. The index is built at the first query and kept in the cache folder."""

    def __init__(self, products: Sequence[Product], folder: Path | None = None) -> None:
        self._products = products
        self._folder = folder
        self._memory: Memory | None = None
        self._known: dict[str, tuple[str, ...]] = {}

    def _opened(self) -> Memory:
        if self._memory is None:
            folder = self._folder or cache_dir() / "webshop" / fingerprint(self._products)
            memory = Memory(folder)
            if memory.count(_TABLE) != len(self._products):
                for start in range(0, len(self._products), _BATCH):
                    batch = self._products[start : start + _BATCH]
                    memory.upsert(_TABLE, [Item(product.asin, product.document) for product in batch])
            self._memory = memory
        return self._memory

    def search(self, keywords: Sequence[str]) -> tuple[str, ...]:
        """At most 50 asins, best first. `<q> query`, `<c> category` and `<a> attribute` list what has it, in
        order of the catalogue; `<r>` draws, always the same."""
        first, rest = keywords[0], " ".join(keywords[1:]).strip()
        if first == "<q>":
            return tuple(p.asin for p in self._products if p.query == rest)
        if first == "<c>":
            return tuple(
                p.asin for p in self._products if p.category == (keywords[1].strip() if rest else "")
            )
        if first == "<a>":
            return tuple(p.asin for p in self._products if rest in p.attributes)
        if first == "<r>":
            asins = [p.asin for p in self._products]
            return tuple(random.Random(0).sample(asins, min(MOST, len(asins))))
        return self._by_words(" ".join(keywords))

    def _by_words(self, query: str) -> tuple[str, ...]:
        if query not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            hits = self._opened().search(_TABLE, query, MOST) if any(c.isalnum() for c in query) else []
            self._known[query] = tuple(hit.item.id for hit in hits)
        return self._known[query]
