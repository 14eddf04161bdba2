"""What `distill` gives away: exports of what was trained.

Owns the words and the result on the screen. Leaves out the files (distill/export.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roleagent_lite.types import Progress


def export_adapter(run: str, runs: Path, recipe: str, formats: str, out: Path | None, json: bool) -> None:
    """`distill RUN --export FORMATS`. Raises ConfigError, RoleAgentError where an export does not play
    alike."""
    from roleagent_lite.cli.border import tell
    from roleagent_lite.cli.output import emit, find_run, table
    from roleagent_lite.distill.export import export, wanted
    from roleagent_lite.distill.parity import probes_of
    from roleagent_lite.distill.recipe import load_recipe
    from roleagent_lite.store import Run

    names = wanted(formats)
    plan = load_recipe(recipe)
    path = find_run(run, runs)
    with Run.open(path) as opened:
        probes = probes_of(opened)

    def hear(progress: Progress) -> None:
        tell(f"{progress.stage}: {progress.note}")

    told = export(out or path / "distill" / plan.name, plan, names, probes, hear)
    emit(told, table(("what", ""), _rows(told)), json)


def _rows(told: dict[str, Any]) -> list[tuple[str, str]]:
    rows = list(told["files"].items())
    for side in told["sides"]:
        alike = f"{side['actions']} of {side['of_actions']} first actions, " if side["of_actions"] else ""
        alike += f"{side['tokens']} of {side['of_tokens']} first tokens as base + adapter"
        near = f", {len(side['excused'])} near ties" if side["excused"] else ""
        rows.append((side["side"], alike + near + ("" if side["required"] else " (quantised: only told)")))
    return rows + [("play it", command) for command in told["play"]]
