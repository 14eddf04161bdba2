"""`roleagent-lite show`: a run at a glance, or one trajectory step by step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roleagent_lite.cli.settings import AsJson, RunArgument, Runs

if TYPE_CHECKING:
    from roleagent_lite.store import Run
    from roleagent_lite.types import Credit, Trajectory

Which = Annotated[
    str | None, typer.Argument(metavar="[TRAJECTORY]", help="A trajectory's id, or `list` for all ids.")
]
Html = Annotated[
    bool, typer.Option("--html", help="Write the run's report anew, report.html too, and name the page.")
]
Full = Annotated[bool, typer.Option("--full", help="Do not shorten long texts.")]


def _one_line(text: str, full: bool, width: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if full or len(flat) <= width else flat[: width - 1] + "…"


def steps_as_data(trajectory: Trajectory, credit: Credit | None) -> list[dict[str, Any]]:
    """Each step with its predictions beside what came: pairs of (foretold, actual, alignment or None)."""
    came = [s.outcome for s in trajectory.steps]
    out: list[dict[str, Any]] = []
    for t, step in enumerate(trajectory.steps):
        pairs = []
        for h, foretold in enumerate(step.predictions, 1):
            actual = came[t + h - 1] if t + h - 1 < len(came) else None
            score = None
            if credit is not None and t < len(credit.alignment) and h - 1 < len(credit.alignment[t]):
                score = credit.alignment[t][h - 1]
            pairs.append({"ahead": h, "foretold": foretold, "came": actual, "alignment": score})
        out.append(
            {
                "step": t + 1,
                "observation": step.observation,
                "thought": step.thought,
                "action": step.action,
                "said": step.said,
                "valid": step.valid,
                "outcome": step.outcome,
                "reward": step.reward,
                "predictions": pairs,
                "modulated": credit.reward[t] if credit is not None and t < len(credit.reward) else None,
                "advantage": credit.advantage[t]
                if credit is not None and t < len(credit.advantage)
                else None,
            }
        )
    return out


def trajectory_text(trajectory: Trajectory, steps: list[dict[str, Any]], goal: str, full: bool) -> str:
    """One trajectory for reading."""
    head = f"{trajectory.id}: {trajectory.outcome.kind}"
    head += f" ({trajectory.outcome.reason})" if trajectory.outcome.reason else ""
    lines = [head, f"goal: {_one_line(goal, full)}", ""]
    if steps:
        lines.append(f"   sees: {_one_line(steps[0]['observation'], full)}")
    for s in steps:
        lines.append(f"{s['step']:>2} {'does' if s['valid'] else 'does (not admissible)'}: {s['action']}")
        if s["thought"]:
            lines.append(f"   thinks: {_one_line(s['thought'], full)}")
        for p in s["predictions"]:
            ahead = "" if p["ahead"] == 1 else f" ({p['ahead']} steps on)"
            score = "not scored" if p["alignment"] is None else f"alignment {p['alignment']:.2f}"
            lines.append(f"   foretold{ahead}: {_one_line(p['foretold'] or '(nothing)', full)}  [{score}]")
        lines.append(f"   came: {_one_line(s['outcome'], full)}")
        if s["advantage"] is not None:
            lines.append(f"   reward {s['modulated']:.3f}, advantage {s['advantage']:+.3f}")
    if trajectory.error:
        lines += ["", trajectory.error.rstrip()]
    return "\n".join(lines)


def _show_trajectory(run: Run, which: str, full: bool) -> tuple[Any, str]:
    from roleagent_lite.errors import ConfigError, nearest

    trajectory = run.trajectories.get(which)
    if trajectory is None:
        known = run.trajectories.keys()
        matches = [k for k in known if which in k]
        if len(matches) == 1:
            trajectory = run.trajectories.get(matches[0])
    if trajectory is None:
        what = f"run {run.name} has no trajectory '{which}'{nearest(which, known)}"
        if matches:
            some = ", ".join(matches[:10]) + (", …" if len(matches) > 10 else "")
            what = f"'{which}' names {len(matches)} trajectories of run {run.name}: {some}"
        raise ConfigError(f"{what}; `show {run.name} list` lists them")
    credit = run.credits.get(trajectory.id)
    task = run.tasks.get(trajectory.task)
    diagnosis = run.diagnoses.get(trajectory.id)
    steps = steps_as_data(trajectory, credit)
    text = trajectory_text(trajectory, steps, task.goal if task else "unknown", full)
    data: dict[str, Any] = {
        "id": trajectory.id,
        "task": trajectory.task,
        "prompt_set": trajectory.prompt_set,
        "outcome": trajectory.outcome.kind,
        "reason": trajectory.outcome.reason,
        "score": trajectory.score,
        "steps": steps,
        "error": trajectory.error,
        "diagnosis": None,
    }
    if diagnosis is not None:
        data["diagnosis"] = {
            "mode": diagnosis.mode,
            "detail": diagnosis.detail,
            "critical_step": diagnosis.critical_step,
            "lesson": diagnosis.lesson,
        }
        text += f"\n\nfailure mode: {diagnosis.mode}: {diagnosis.detail}\nlesson: {diagnosis.lesson}"
    return data, text


def _list(run: Run) -> tuple[Any, str]:
    from roleagent_lite.cli.output import table

    rows = [
        {
            "id": t.id,
            "split": t.split,
            "outcome": t.outcome.kind,
            "reason": t.outcome.reason,
            "steps": len(t.steps),
        }
        for t in run.trajectories
    ]
    cells = [[str(v) for v in row.values()] for row in rows]
    return rows, table(["trajectory", "split", "outcome", "reason", "steps"], cells)


def command(
    run: RunArgument,
    trajectory: Which = None,
    runs: Runs = Path("runs"),
    full: Full = False,
    html: Html = False,
    json: AsJson = False,
) -> None:
    """Show a run: success, candidates, failure modes, curriculum; or one trajectory step by step."""
    from roleagent_lite.cli.output import emit, find_run
    from roleagent_lite.store import Run

    if html:
        from roleagent_lite.report.html.write import write_all

        page = write_all(find_run(run, runs)).with_name("report.html")
        emit({"report": str(page)}, str(page), json)
        return
    with Run.open(find_run(run, runs)) as opened:
        if trajectory == "list":
            data, text = _list(opened)
        elif trajectory is not None:
            data, text = _show_trajectory(opened, trajectory, full)
        else:
            from roleagent_lite.report.write import build, render

            report = build(opened)
            data, text = report.as_data(), render(report)
    emit(data, text, json)
