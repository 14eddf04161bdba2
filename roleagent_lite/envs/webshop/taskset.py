"""The rows of the shipped task set `webshop`: the made-up catalogue's customers, dealt to the splits.

Owns the dealing: products that share a name are one family, and a family is in one split only, so that no
test task is a training task with another color. `tasks/webshop.jsonl` holds what this gives; a test
compares.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from roleagent_lite.envs.webshop.env import catalogue
from roleagent_lite.envs.webshop.goals import Goal

DEALT = ("train", "test", "train", "dev", "train", "train", "test", "train", "train", "test")


def _params(goal: Goal) -> dict[str, Any]:
    wish = {
        "asin": goal.asin,
        "category": goal.category,
        "query": goal.query,
        "name": goal.name,
        "product_category": goal.product_category,
        "instruction": goal.instruction,
        "attributes": list(goal.attributes),
        "price_upper": goal.price_upper,
        "options": list(goal.options),
    }
    return {"type": goal.query, "goal": wish}


def rows() -> list[dict[str, Any]]:
    """Rows in order of kind and family; every kind has the same share of each split."""
    families: dict[str, dict[str, list[Goal]]] = defaultdict(lambda: defaultdict(list))
    for goal in catalogue("webshop").goals:
        families[goal.query][goal.name].append(goal)
    found = []
    for kind in sorted(families):
        for number, name in enumerate(sorted(families[kind])):
            for goal in sorted(families[kind][name], key=lambda g: (g.asin, g.instruction)):
                found.append(
                    {
                        "env": "webshop",
                        "goal": goal.instruction,
                        "params": _params(goal),
                        "split": DEALT[number % len(DEALT)],
                    }
                )
    return found
