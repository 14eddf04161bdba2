"""Stand-ins for embedders, and a folder's fingerprint."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from roleagent_lite.memory import Item


class Hashing:
    """Words hashed into buckets: deterministic, no meaning beyond shared words. `odd`: vectors given as they
    are for texts that contain a key. Keeps the texts it was asked for."""

    def __init__(
        self, name: str = "hashing", dim: int = 32, odd: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        self.name = name
        self.dim = dim
        self.odd = odd or {}
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        self.texts += texts
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> Sequence[float]:
        for key, vector in self.odd.items():
            if key in text:
                return vector
        out = [0.0] * self.dim
        for word in text.casefold().split():
            out[zlib.crc32(word.encode()) % self.dim] += 1.0
        return out


def items(n: int, start: int = 0) -> list[Item]:
    return [Item(f"t{i:03}", f"put apple {i} into fridge {i % 3}", {"n": i}) for i in range(start, start + n)]


def fingerprint(folder: Path) -> dict[str, str]:
    """SHA-256 of every file by its path."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
