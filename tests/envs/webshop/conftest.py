"""What the original WebShop answered on products made for that purpose; see `note` in the data."""

from __future__ import annotations

import gzip
import json
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs.webshop.goals import Goal, human_goals, in_order, made_goals
from roleagent_lite.envs.webshop.products import Product, draw_prices, read_products


@lru_cache(maxsize=1)
def recorded() -> dict[str, Any]:
    with gzip.open(Path(__file__).parent / "data" / "webshop.json.gz", "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


@lru_cache(maxsize=1)
def products() -> tuple[Product, ...]:
    files = recorded()["files"]
    return tuple(read_products(files["items"], files["attributes"]))


@lru_cache(maxsize=2)
def load(name: str) -> tuple[dict[str, float], list[Goal]]:
    """Prices and goals as the original had them after its load `human` or `synthetic`."""
    files = recorded()["files"]
    one = next(entry for entry in recorded()["loads"] if entry["id"] == name)
    rng = random.Random(one["random_seed_before_load"])
    prices = draw_prices(products(), rng)
    if one["human_goals"]:
        goals = human_goals(products(), prices, files["human"], rng)
    else:
        goals = made_goals(products(), prices, files["attributes"], rng)
    return prices, in_order(goals)


@pytest.fixture
def vectors() -> dict[str, Any]:
    return recorded()
