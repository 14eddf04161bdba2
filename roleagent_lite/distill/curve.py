"""The learning curve of an online training: a line of `curve.jsonl` an update.

Owns the file and what a line says of the episodes. Leaves out what the objective reports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.stats import success_rate
from roleagent_lite.types import Trajectory

FILE = "curve.jsonl"


def told(played: Sequence[Trajectory]) -> dict[str, Any]:
    """n scored episodes; solved: their share, with its 95 % interval (clustered by task where tasks are
    repeated); score: mean of the environment's own. None where there are none."""
    scores: dict[str, list[float | None]] = {}
    for t in played:
        scores.setdefault(t.task, []).append(float(t.solved) if t.outcome.scored else None)
    rate = success_rate({task: tuple(row) for task, row in scores.items()})
    own = [t.score for t in played if t.outcome.scored]
    return {
        "n": rate.n, "solved": rate.mean, "low": rate.low, "high": rate.high,
        "score": sum(own) / len(own) if own else None,
    }  # fmt: skip


def peak_mib() -> float:
    """The most memory that this process has held, in MiB."""
    import resource
    import sys

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (2**20 if sys.platform == "darwin" else 2**10), 1)


def read(out: Path) -> list[dict[str, Any]]:
    """The whole lines there are."""
    file = out / FILE
    if not file.is_file():
        return []
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def keep(out: Path, updates: int) -> list[dict[str, Any]]:
    """Drops lines of updates that are done again; those that stay. Raises RoleAgentError as `add`."""
    rows = read(out)[:updates]
    _write(out, "w", rows)
    return rows


def add(out: Path, row: Mapping[str, Any]) -> None:
    """Raises RoleAgentError where the file cannot be written."""
    _write(out, "a", [row])


def _write(out: Path, mode: str, rows: Sequence[Mapping[str, Any]]) -> None:
    try:
        with (out / FILE).open(mode, encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    except OSError as error:
        raise RoleAgentError(
            f"cannot write {out / FILE}: {error.strerror}; the last checkpoint is kept"
        ) from None
