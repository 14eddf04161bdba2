"""The rows of the shipped task set `shell`: every family in every split, each task with a seed of its own.

Owns the dealing. `tasks/shell.jsonl` holds what this gives; a test compares.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from roleagent_lite.envs.shell.env import ticket
from roleagent_lite.envs.shell.faults import FAMILIES
from roleagent_lite.envs.shell.herrings import COUNT

EACH = 20  # tasks of a family
DEALT = ("train", "test", "train", "dev", "train", "train", "test", "train", "train", "test")


def rows() -> list[dict[str, Any]]:
    """Rows in order of family; each family has the same share of each split, and of each difficulty."""
    found: list[dict[str, Any]] = []
    difficulties = list(COUNT)
    for number, family in enumerate(FAMILIES):
        turns: Counter[str] = Counter()
        for one in range(EACH):
            seed, split = 1000 * (number + 1) + one, DEALT[one % len(DEALT)]
            difficulty = difficulties[(number + turns[split]) % len(difficulties)]
            turns[split] += 1
            params = {"type": family, "difficulty": difficulty}
            found.append(
                {
                    "env": "shell",
                    "goal": ticket(seed, difficulty),
                    "seed": seed,
                    "params": params,
                    "split": split,
                }
            )
    return found
