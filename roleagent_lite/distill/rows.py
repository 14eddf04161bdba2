"""Reads the trajectories of a run for training, row by row, and judges their rewards before anything else
does.

Owns which rows may teach: a reward that is missing or no number drops the row and is counted; one that is
infinite or of another kind means that something wrote rubbish, and stops. Leaves out samples (samples.py) and
advantages (wia).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from roleagent_lite.types import Trajectory

_ADAPTER = TypeAdapter(Trajectory)
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Dropped:
    """What did not become a sample: a trajectory's or a step's id, its group, and the reason in words."""

    id: str
    group: str
    reason: str


def read(run: Run) -> tuple[list[Trajectory], list[Dropped]]:
    """The trajectories whose rewards are numbers, in the order of the table, and those whose are not.

    Raises RoleAgentError with the trajectory's id for a score or a step's reward that is infinite, out of
    range, of another kind or absent.
    """
    kept, dropped = [], []
    for key, row in _raw(run):
        name = str(row.get("id", key))
        unknown = [what for what, value in _rewards(row) if _unknown(name, what, value)]
        if unknown:
            dropped.append(Dropped(name, _group(row), f"{unknown[0]} is missing or not a number"))
            continue
        try:
            kept.append(_ADAPTER.validate_python(row))
        except ValidationError as error:
            raise RoleAgentError(
                f"trajectory {name}: the record is not of this version's shape: {error}"
            ) from None
    return kept, dropped


def _raw(run: Run) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows as they stand: the table itself would refuse NaN, and its row could not be counted."""
    if not len(run.trajectories):
        return
    found: dict[str, dict[str, Any]] = {}
    with run.trajectories.path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):  # else the torn end of a kill
                record = json.loads(line)
                found[record["key"]] = record["row"]
    yield from found.items()


def _rewards(row: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    yield "score", row.get("score", _MISSING)
    for number, step in enumerate(row.get("steps") or (), 1):
        yield f"the reward of step {number}", step.get("reward", _MISSING)


def _unknown(name: str, what: str, value: object) -> bool:
    """Whether a reward is unknown (null, NaN); raises for one that is rubbish."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    wrong = "absent" if value is _MISSING else repr(value)
    if value is _MISSING or isinstance(value, bool) or not isinstance(value, int | float):
        raise RoleAgentError(f"trajectory {name}: {what} is {wrong}; a number is needed")
    if not math.isfinite(value):
        raise RoleAgentError(f"trajectory {name}: {what} is {wrong}; rewards must be finite")
    if what == "score" and not 0.0 <= value <= 1.0:
        raise RoleAgentError(f"trajectory {name}: {what} is {wrong}; a score lies in 0..1")
    return False


def _group(row: Mapping[str, Any]) -> str:
    """As `Trajectory.group`, of a row that may lack fields."""
    parts = (
        row.get("round"),
        row.get("prompt_set"),
        row.get("model"),
        row.get("arm", "none"),
        row.get("task"),
    )
    return "/".join(str(p) for p in parts)
