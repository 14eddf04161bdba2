"""`roleagent-lite runs`: the runs of a folder, with their state and how to go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roleagent_lite.cli.settings import AsJson, Runs


def describe(path: Path) -> dict[str, Any]:
    """One run as plain data: name, status (new, interrupted, finished, unreadable), model, tasks, episodes,
    solved, errors (infrastructure). A run that cannot be read is listed with the reason, not hidden."""
    from roleagent_lite.errors import RoleAgentError
    from roleagent_lite.store import Run

    try:
        with Run.open(path) as run:
            solved = errors = 0
            for trajectory in run.trajectories:
                solved += trajectory.solved
                errors += not trajectory.outcome.scored
            return {
                "name": run.name,
                "status": run.status,
                "model": run.config.model,
                "tasks": run.config.tasks,
                "episodes": len(run.trajectories),
                "solved": solved,
                "errors": errors,
            }
    except RoleAgentError as error:
        return {"name": path.name, "status": "unreadable", "reason": str(error)}


def command(runs: Runs = Path("runs"), json: AsJson = False) -> None:
    """List runs: what is finished, what was interrupted."""
    from roleagent_lite.cli.output import emit, percent, run_names, table

    found = [describe(runs / name) for name in run_names(runs)]
    rows = [
        [
            one["name"],
            one["status"],
            str(one.get("model", "")),
            str(one.get("tasks", "")),
            str(one.get("episodes", "")),
            percent(one["solved"] / (one["episodes"] - one["errors"]))
            if one.get("episodes", 0) > one.get("errors", 0)
            else "",
        ]
        for one in found
    ]
    if not found:
        text = f"no runs in {runs}/ yet; `roleagent-lite evolve` starts one"
    else:
        text = table(["run", "status", "model", "tasks", "episodes", "solved"], rows)
        stopped = [one["name"] for one in found if one["status"] == "interrupted"]
        if stopped:
            text += (
                f"\n\nto go on with an interrupted run: roleagent-lite evolve --resume --run {stopped[-1]}"
            )
        for one in found:
            if one["status"] == "unreadable":
                text += f"\n\n{one['name']}: {one['reason']}"
    emit(found, text, json)
