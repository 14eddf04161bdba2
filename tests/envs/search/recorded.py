"""What Search-R1's and verl-agent's own functions answered; see `note` in the data."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from roleagent_lite.envs.search.protocol import Passage


@lru_cache(maxsize=1)
def recorded() -> dict[str, Any]:
    with gzip.open(Path(__file__).parent / "data" / "searchqa.json.gz", "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def passages() -> list[Passage]:
    return [Passage(p["id"], p["contents"]) for p in recorded()["passages"]]
