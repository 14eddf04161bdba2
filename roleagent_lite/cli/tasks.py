"""`roleagent-lite tasks`: shipped task sets with their counts, a check of one task file, fetching of data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from roleagent_lite.types import Task

from roleagent_lite.cli.settings import AsJson

Action = Annotated[
    str | None,
    typer.Argument(
        metavar="[check|pull]", help="`check FILE` reads one set and its tasks; `pull bfcl` fetches data."
    ),
]
File = Annotated[
    str | None,
    typer.Argument(metavar="[FILE]", help="A JSONL file or the name of a shipped set; with pull: bfcl."),
]
TRIED = 5  # tasks of each environment that `check` plays
Play = Annotated[bool, typer.Option("--env/--no-env", help="With check: also try each environment.")]


def describe(name: str) -> dict[str, Any]:
    """One set as plain data: name, environments, counts per split, task types. Raises ConfigError."""
    from roleagent_lite.tasksets import file_hash, load_tasks

    tasks = load_tasks(name)
    return {
        "name": name,
        "envs": sorted({t.env for t in tasks}),
        "splits": dict(Counter(t.split for t in tasks)),
        "types": dict(sorted(Counter(str(t.params.get("type", "")) for t in tasks).items())),
        "hash": file_hash(name),
    }


def check(name: str, play: bool) -> dict[str, Any]:
    """`describe` plus `problems`: what the environments' checker says, one entry a distinct complaint, and
    `notes`: what is none."""
    from roleagent_lite.envs import registry
    from roleagent_lite.tasksets import load_tasks

    tasks = load_tasks(name, check=registry.check)
    found = describe(name)
    problems, notes = _played(tasks) if play else ([], [])
    return {**found, "problems": problems, "notes": notes}


def _played(tasks: Sequence[Task]) -> tuple[list[str], list[str]]:
    """Problems and notes of the first tasks of each environment, each played for a short time."""
    from roleagent_lite.cli.env import recalled, stopped
    from roleagent_lite.envs import registry
    from roleagent_lite.envs.checker import Limit
    from roleagent_lite.envs.checker import check as check_env
    from roleagent_lite.errors import ConfigError

    chosen: list[Task] = []
    for task in tasks:
        if sum(one.env == task.env for one in chosen) < TRIED:  # the same class again would say the same
            chosen.append(task)
    limit, tried, problems = Limit(), 0, []
    with recalled(limit):
        for task in chosen:
            if limit.over():
                break
            tried += 1
            spec = registry.spec(task.env)
            try:
                spec.max_steps(task)
            except ConfigError as error:  # would end a run before its first episode
                problems.append(f"task {task.id}: {error}")
            found = check_env(spec.make, task, limit=limit, ending=not spec.wants)
            problems += [f"task {task.id}: {p}" for p in found]
    return problems, [stopped(limit.seconds, tried, len(chosen))] if limit.stopped else []


def _pull(name: str | None, as_json: bool) -> None:
    from roleagent_lite.cli.output import emit
    from roleagent_lite.envs.tools.data import pull
    from roleagent_lite.errors import ConfigError, nearest

    if name != "bfcl":
        found = "nothing" if name is None else f"'{name}'{nearest(name, ['bfcl'])}"
        raise ConfigError(f"tasks pull fetches `bfcl`, the data of the world `tools`; found {found}")
    path = pull()
    emit({"name": name, "path": str(path)}, f"{name}: {path}", as_json)


def command(action: Action = None, file: File = None, env: Play = True, json: AsJson = False) -> None:
    """List shipped task sets, check a task file (`tasks check FILE`), fetch a set's data (`tasks pull`)."""
    from roleagent_lite.cli.border import result_only, tell
    from roleagent_lite.cli.env import findings
    from roleagent_lite.cli.output import emit, flat, table
    from roleagent_lite.cli.trust import announce
    from roleagent_lite.config import from_mapping
    from roleagent_lite.content import room
    from roleagent_lite.errors import ConfigError, nearest

    if action == "pull":
        _pull(file, json)
        return
    if action is not None:
        if action != "check":
            raise ConfigError(
                f"tasks knows `check` and `pull`, not '{action}'{nearest(action, ['check', 'pull'])}"
            )
        if file is None:
            raise ConfigError("tasks check needs a file: roleagent-lite tasks check FILE.jsonl")
        if env:
            announce(from_mapping({"tasks": file}), tell)
        with result_only():
            found = check(file, env)
        text = f"{found['name']}: {flat(found['splits'])}; environments {', '.join(found['envs'])}\n"
        emit(found, text + findings(found["problems"], found["notes"]), json)
        if found["problems"]:
            raise typer.Exit(1)
        return
    base = room("tasks")
    sets = [describe(str(p.relative_to(base).with_suffix(""))) for p in sorted(base.rglob("*.jsonl"))]
    rows = [
        [s["name"], ", ".join(s["envs"]), *(str(s["splits"].get(k, 0)) for k in ("train", "dev", "test"))]
        for s in sets
    ]
    emit(sets, table(["set", "environment", "train", "dev", "test"], rows), json)
