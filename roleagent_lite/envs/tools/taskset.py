"""The rows of the shipped task set `tools`: BFCL's multi-turn entries by id, dealt to the splits.

Owns the dealing and the goals' wording. The four variants of an entry play in one world, and a few entries
share theirs: all that start from equal data are one family, and a family is in one split only.
`tasks/tools.jsonl` holds what this gives, no text of BFCL among it; a test compares.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from roleagent_lite.envs.tools.data import VARIANTS, Entry, entries

DEALT = ("train", "test", "train", "dev", "train", "train", "test", "train", "train", "test")
SUBJECTS = {
    "GorillaFileSystem": "files",
    "MathAPI": "sums",
    "MessageAPI": "messages",
    "TwitterAPI": "posts",
    "TicketAPI": "tickets",
    "TradingBot": "trading",
    "TravelAPI": "travel",
    "VehicleControlAPI": "a car",
}
_HOME = ("GorillaFileSystem", "VehicleControlAPI", "TradingBot", "TravelAPI")  # one of them in every entry


def goal(classes: Sequence[str]) -> str:
    """A task's text: what the functions are about, nothing of what the user will ask for."""
    subjects = " and ".join(sorted(SUBJECTS[name] for name in classes))
    return f"Serve the user's requests one after another by calling functions about {subjects}."


def _number(one: Entry) -> int:
    return int(one.id.rpartition("_")[2])


def families(variants: Sequence[Sequence[Entry]]) -> dict[int, int]:
    """Number of an entry -> the lowest number that shares its starting data in any variant."""
    found: dict[int, int] = {}
    for entries_of in variants:
        first: dict[str, int] = {}
        for one in entries_of:
            number = _number(one)
            found.setdefault(number, number)
            other = first.setdefault(json.dumps(one.config, sort_keys=True), number)
            low, high = sorted((found[number], found[other]))
            found = {n: low if root == high else root for n, root in found.items()}
    return found


def rows() -> list[dict[str, Any]]:
    """Rows by variant and number; every subject has the same share of each split. Raises MissingExtra."""
    variants = [list(entries(variant).values()) for variant in VARIANTS]
    family = families(variants)
    kind = {_number(one): next(h for h in _HOME if h in one.classes) for one in variants[0]}
    split: dict[int, str] = {}
    for home in _HOME:
        roots = sorted({family[n] for n in kind if kind[family[n]] == home})
        split |= {root: DEALT[place % len(DEALT)] for place, root in enumerate(roots)}
    return [
        {
            "id": one.id,
            "env": "tools",
            "goal": goal(one.classes),
            "params": {"entry": one.id, "type": variant, "turns": len(one.messages)},
            "split": split[family[_number(one)]],
        }
        for variant, members in zip(VARIANTS, variants, strict=True)
        for one in members
    ]
