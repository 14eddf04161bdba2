"""The half of `roleagent-lite eval` that plays several systems on a suite: which suite, and its table.

Owns whether a name is a suite or a run, what flags change about a suite, how one is resumed and replayed, and
the table on the screen. Leaves out playing (evals) and the report (report).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roleagent_lite.cli.output import dollars, interval, seconds, table

if TYPE_CHECKING:
    from roleagent_lite.evals.suite import Suite

Systems = Annotated[
    str | None,
    typer.Option(
        "--systems",
        metavar="A,B,…",
        help="Systems to compare: random, prompt, react, reflexion, lats, adapt, role-agent, role-agent:RUN, "
        "oracle, or your own agent as module:callable.",
        show_default="the suite's",
    ),
]
Repetitions = Annotated[
    int | None,
    typer.Option("--repetitions", min=1, help="Times each task is played.", show_default="the suite's"),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature", min=0, max=2, help="Of what plays; pass@k needs 0.9.", show_default="the suite's"
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="RULE", help="For each task: unlimited, calls=30, dollars=0.05.",
        show_default="the suite's",
    ),
]  # fmt: skip

OWN = ("systems", "repetitions", "temperature", "budget")  # flags that only a suite has


def is_suite(name: str, runs: Path, tell: Callable[[str], None]) -> bool:
    """Whether `name` means a suite; says which it took where it could be either.

    Raises ConfigError for a name that is neither, with the nearest of both.
    """
    from roleagent_lite.cli.output import run_names
    from roleagent_lite.content import room
    from roleagent_lite.errors import ConfigError, nearest

    shipped = sorted(path.stem for path in room("evals").glob("*.toml"))
    suite = name in shipped or (name.endswith(".toml") and Path(name).is_file())
    run = any((folder / "config.toml").is_file() for folder in (runs / name, Path(name)))
    if suite:
        also = f"; the run of this name is {runs / name}" if run else ""
        tell(f"suite '{name}'{also}")
        return True
    if run:
        tell(f"run '{name}': its final prompt is scored")
        return False
    known = [*shipped, *run_names(runs)]
    raise ConfigError(f"no suite and no run '{name}' in {runs}/{nearest(name, known)}")


def changed(suite: Suite, given: Mapping[str, Any], limit: int | None, seed: int | None = None) -> Suite:
    """`suite` as the flags want it; `seed` stands for the first of its seeds, the others follow it.

    Raises ConfigError.
    """
    from roleagent_lite.evals.suite import adjusted

    seeds = None if seed is None else [seed + i for i in range(len(suite.seeds))]
    return adjusted(
        suite,
        systems=names(given["systems"]),
        repetitions=given["repetitions"],
        temperature=given["temperature"],
        budget=given["budget"],
        seeds=seeds,
        limit=limit,
    )


def names(listed: str | None) -> list[str] | None:
    """`a, b` as its parts; None where nothing was given. Raises ConfigError for an empty one."""
    from roleagent_lite.errors import ConfigError

    if listed is None:
        return None
    parts = [part.strip() for part in listed.split(",")]
    if not all(parts):
        raise ConfigError(f"--systems takes names with commas between them, found '{listed}'")
    return parts


def of_run(path: Path) -> Suite | None:
    """The suite that the run at `path` was begun with; None where it is no evaluation of a suite."""
    from roleagent_lite.evals.suite import from_data
    from roleagent_lite.store import Run

    with Run.open(path) as run:
        event = run.events.get("suite")
    return None if event is None else from_data(event.data, f"the suite of run '{path.name}'")


def episodes(suite: Suite) -> int:
    """Episodes of all systems together. Raises ConfigError where the tasks cannot be read."""
    from roleagent_lite.evals.suite import tasks_of

    return len(tasks_of(suite)[1]) * len(suite.systems) * suite.rollouts


def refuse_own(given: Mapping[str, Any], why: str) -> None:
    """Raises ConfigError where a flag was given that only a suite has, or that may not change."""
    from roleagent_lite.errors import ConfigError

    for name in OWN:
        if given[name] is not None:
            raise ConfigError(f"--{name} {why}")


def words(data: Mapping[str, Any]) -> str:
    """The table on the screen and the verdicts, from the report's data of a suite."""
    rows = [
        [
            one["system"],
            f"{one['solved']} of {one['rate']['n']}",
            interval(one["rate"]["mean"], one["rate"]["low"], one["rate"]["high"]),
            "unknown" if one["score"] is None else f"{one['score']:.2f}",
            "unknown" if one["calls"] is None else f"{one['calls']:,}",
            "unknown" if one["calls_a_task"] is None else f"{one['calls_a_task']:.1f}",
            tokens(one["usage"]),
            dollars(one["usage"]["dollars"]),
            seconds(one["seconds"]),
        ]
        for one in data["systems"]
    ]
    head = [
        "system",
        "solved",
        "95 % interval",
        "score",
        "calls",
        "calls a task",
        "tokens",
        "dollars",
        "time, summed",
    ]
    parts = [table(head, rows)] if rows else []
    if data["unfinished"]:
        parts.append(f"not finished: {', '.join(data['unfinished'])}")
    apart = [pair for pair in data["pairs"] if not pair["within_noise"]]
    parts += [f"{pair['second']} against {pair['first']}: {pair['words']}" for pair in apart]
    if within := len(data["pairs"]) - len(apart):
        every = "all" if not apart else f"the other {within} of {len(data['pairs'])}"
        parts.append(f"within noise: {every} pairs of systems")
    if repeated := repetitions(data["systems"]):
        parts.append(repeated)
    return "\n\n".join(parts)


def repetitions(systems: list[dict[str, Any]]) -> str:
    """Run-to-run spread and pass@k of systems that were played more than once."""
    lines = []
    for one in systems:
        if one["spread"] is not None:
            lines.append(f"{one['system']}: run-to-run standard deviation {100 * one['spread']:.1f} points")
        lines += [f"{one['system']}: {p['words']}" for p in one["passes"]]
    return "\n".join(lines)


def tokens(used: Mapping[str, Any]) -> str:
    if used["input"] is None or used["output"] is None:
        return "unknown"
    return f"{used['input'] + used['output']:,}"
