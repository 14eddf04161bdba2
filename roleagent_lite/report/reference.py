"""Numbers that others published, shown beside a run's and never mixed with them.

Owns reading evals/reference.json. Leaves out every comparison: other models, other protocols, other tasks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roleagent_lite.content import room
from roleagent_lite.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True)
class Published:
    """One published figure: success and score in percent, None where the table has none."""

    method: str
    model: str
    success: float | None
    score: float | None
    note: str


@dataclass(frozen=True, slots=True)
class Reference:
    """One published table: where it stands and under which protocol it was measured."""

    name: str
    title: str
    source: str
    protocol: str
    rows: tuple[Published, ...]


def warning() -> str:
    """What has to be said wherever such a table is shown."""
    return str(_file()["about"])


def known() -> list[str]:
    """Names of all tables."""
    return list(_file()["tables"])


def references(names: Sequence[str]) -> list[Reference]:
    """The tables of these names. Raises ConfigError, with the nearest name, for one that is not there."""
    tables = _file()["tables"]
    for name in names:
        if name not in tables:
            raise ConfigError(f"no published table '{name}' in evals/reference.json{nearest(name, tables)}")
    return [
        Reference(
            name,
            tables[name]["title"],
            tables[name]["source"],
            tables[name]["protocol"],
            tuple(
                Published(
                    row["method"], row["model"], row.get("success"), row.get("score"), row.get("note", "")
                )
                for row in tables[name]["rows"]
            ),
        )
        for name in names
    ]


def _file() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((room("evals") / "reference.json").read_text(encoding="utf-8"))
    return data
