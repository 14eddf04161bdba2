"""`roleagent-lite runs`: the runs of a folder, with their state and how to go on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from roleagent_lite.cli.settings import AsJson, Runs

if TYPE_CHECKING:
    from roleagent_lite.store import Run


def splits_of(run: Run) -> dict[str, int]:
    """How many tasks of each split the run has; a split without any is left out. {} before its start."""
    from roleagent_lite.report.shapes import checked

    start = run.events.get("start")
    start = checked(start) if start is not None else None
    counts = dict(start.data.get("counts") or {}) if start is not None else {}
    return {split: int(n) for split, n in counts.items() if n}


def job_of(run: Run) -> str:
    """`cells` for the four cells of `distill --cells`, `online` for `distill --online`, `eval` for any other
    run of a suite or on one split alone, else `evolve`."""
    if "cells" in run.events:
        return "cells"
    if "online" in run.events:
        return "online"
    return "eval" if "suite" in run.events or len(splits_of(run)) == 1 else "evolve"


def interrupted_run(root: Path, job: str) -> str:
    """The newest run of this job that was begun, not finished, and that no live process plays. Raises
    ConfigError where there is none."""
    from roleagent_lite.cli.output import run_names
    from roleagent_lite.errors import ConfigError

    played = ""
    for name in reversed(run_names(root)):
        one = describe(root / name)
        if (one["status"], one.get("job")) == ("interrupted", job):
            return name
        if one["status"] == "running" and not played:
            played = f" (run '{name}' is being played by a live process)"
    raise ConfigError(f"no interrupted {job} in {root}/ to resume{played}; `roleagent-lite runs` lists runs")


def to_resume(name: str | None, root: Path, job: str) -> Path:
    """The run that `--resume` means. Raises ConfigError where there is none, or it is another job's."""
    from roleagent_lite.cli.output import find_run, resuming
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.store import Run

    path = find_run(name or interrupted_run(root, job), root)
    with Run.open(path) as run:
        begun, other = bool(splits_of(run)), job_of(run)
    if begun and other != job:
        raise ConfigError(f"run '{path.name}' is another job: {resuming(other, path)}")
    return path


def describe(path: Path) -> dict[str, Any]:
    """One run as plain data: name, status (new, running, interrupted, finished, unreadable), model, tasks,
    episodes, solved, errors (infrastructure). A run that cannot be read is listed with the reason, not
    hidden; one that a live process holds is running until it is finished."""
    from roleagent_lite.errors import RoleAgentError
    from roleagent_lite.store import Run, held

    try:
        with Run.open(path) as run:
            solved = errors = 0
            for trajectory in run.trajectories:
                solved += trajectory.solved
                errors += not trajectory.outcome.scored
            return {
                "name": run.name,
                "status": "running" if run.status != "finished" and held(path) else run.status,
                "job": job_of(run),
                "model": run.config.model,
                "tasks": run.config.tasks,
                "episodes": len(run.trajectories),
                "solved": solved,
                "errors": errors,
            }
    except RoleAgentError as error:
        return {"name": path.name, "status": "unreadable", "reason": str(error)}


def solved_words(one: dict[str, Any]) -> str:
    """The share of scored episodes that were solved; in words where there is none to share by."""
    from roleagent_lite.cli.output import percent

    if not one.get("episodes"):
        return ""
    scored = one["episodes"] - one["errors"]
    return percent(one["solved"] / scored) if scored else "nothing scored"


def command(runs: Runs = Path("runs"), json: AsJson = False) -> None:
    """List runs: what is finished, what is being played, what was interrupted."""
    from roleagent_lite.cli.output import emit, resuming, run_names, table

    found = [describe(runs / name) for name in run_names(runs)]
    rows = [
        [
            one["name"],
            one["status"],
            str(one.get("model", "")),
            str(one.get("tasks", "")),
            str(one.get("episodes", "")),
            str(one.get("errors") or ""),
            solved_words(one),
        ]
        for one in found
    ]
    if not found:
        text = f"no runs in {runs}/ yet; `roleagent-lite evolve` starts one"
    else:
        text = table(["run", "status", "model", "tasks", "episodes", "errors", "solved"], rows)
        stopped = [one for one in found if one["status"] == "interrupted"]
        if stopped:
            last = stopped[-1]
            text += "\n\nto go on with an interrupted run: "
            text += resuming(last["job"], runs / last["name"])
        for one in found:
            if one["status"] == "unreadable":
                text += f"\n\n{one['name']}: {one['reason']}"
    emit(found, text, json)
