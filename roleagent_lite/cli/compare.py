"""`roleagent-lite compare`: two or more systems, of one run or of several, on the tasks that all of them
played."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roleagent_lite.cli.settings import AsJson, Runs

if TYPE_CHECKING:
    from roleagent_lite.evals.compare import Comparison, Differing, Pair

Sides = Annotated[
    list[str],
    typer.Argument(
        metavar="A B [C…]",
        help="RUN:SYSTEM, or RUN where it has one system (an evolution: its final prompt). A single RUN: all "
        "of its systems.",
    ),
]
Most = Annotated[int, typer.Option("--tasks", min=0, help="How many of the tasks that differ are listed.")]

Html = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Also write it as a page, with links into the runs' reports."
    ),
]


def words(found: Comparison, most: int) -> str:
    """The comparison for reading: warnings first, then the table, the pairs, and where they differ."""
    parts = [f"warning: {text}" for text in found.warnings]
    parts.append(f"{len(found.tasks)} tasks in common")
    parts.append(_table(found))
    parts += [f"run-to-run spread: {text}" for text in found.spread]
    for pair in found.pairs:
        parts.append(pair.words)
        if listed := _differing(pair, most):
            parts.append(listed)
    return "\n\n".join(parts)


def _table(found: Comparison) -> str:
    from roleagent_lite.cli.output import dollars, interval, table

    rows = []
    for side, one in zip(found.sides, found.summaries, strict=True):
        cost = "none solved"
        sent = "none solved"
        if one.solved:
            cost = dollars(one.dollars_a_solved)
            sent = "unknown" if one.tokens_a_solved is None else f"{one.tokens_a_solved:,.0f}"
        rows.append(
            [
                side.name,
                f"{one.solved} of {one.rate.n}",
                interval(one.rate.mean, one.rate.low, one.rate.high),
                "unknown" if one.score is None else f"{one.score:.2f}",
                "unknown" if one.calls_a_task is None else f"{one.calls_a_task:.1f}",
                sent,
                cost,
                str(one.errors),
            ]
        )
    head = ["system", "solved", "95 % interval", "score", "calls a task", "tokens a solved",
            "dollars a solved", "errors"]  # fmt: skip
    return table(head, rows)


def _differing(pair: Pair, most: int) -> str:
    """Tasks that one solves and the other does not, with an episode of each to look at."""
    from roleagent_lite.cli.output import table

    out = []
    for rows, better, worse in ((pair.gained, pair.second, pair.first), (pair.lost, pair.first, pair.second)):
        if not rows or not most:
            continue
        out.append(f"better by {better} than by {worse}:")
        cells = [_cells(row) for row in rows[:most]]
        out.append(table(["task", "goal", f"{pair.first}", "", f"{pair.second}", ""], cells))
        if len(rows) > most:
            out.append(f"and {len(rows) - most} more (--tasks {len(rows)} lists them)")
    if out:
        out.append("look at an episode: roleagent-lite show RUN TRAJECTORY")
    return "\n".join(out)


def _cells(row: Differing) -> list[str]:
    goal = " ".join(row.goal.split())
    return [
        row.task,
        goal if len(goal) <= 40 else goal[:39] + "…",
        f"{100 * row.first:.0f} %",
        row.first_trajectory or "unknown",
        f"{100 * row.second:.0f} %",
        row.second_trajectory or "unknown",
    ]


def command(
    sides: Sides,
    tasks: Most = 10,
    html: Html = None,
    runs: Runs = Path("runs"),
    json: AsJson = False,
) -> None:
    """Compare systems on the same tasks: wins, losses, ties, difference with interval, costs, where they
    differ."""
    from roleagent_lite.cli.output import emit
    from roleagent_lite.evals.compare import compare

    found = compare(*sides, runs=runs)
    data, text = found.as_data(), words(found, tasks)
    if html is not None:
        from roleagent_lite.report.html.comparison import write_comparison

        data["html"] = str(write_comparison(found, html))
        text += f"\n\nwritten to {html}"
    emit(data, text, json)
