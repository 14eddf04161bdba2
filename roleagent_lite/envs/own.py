"""Tasks for an environment that is named on the command line: its own, or one a seed.

Owns the rows of `--env NAME`: what the environment's `tasks()` gives, the set that is shipped for it, what a
task file gives with the name filled in, else tasks that differ by seed alone. Leaves out reading a task file
(tasksets) and the choice of how many are played (evolve).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, get_args

from roleagent_lite.content import find, room
from roleagent_lite.envs import registry
from roleagent_lite.envs.mcp import allow
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.memory import parquet_rows
from roleagent_lite.tasksets import read_rows, tasks_in
from roleagent_lite.types import Split

SEEDS: Mapping[str, range] = {"train": range(40), "dev": range(1000, 1012), "test": range(2000, 2024)}
GOAL = "Reach the goal of this environment."
_SPLITS = get_args(Split)


def _row(name: str, given: Any, what: str) -> dict[str, Any]:
    """One task as a row: a mapping, a Task, or its goal alone; what the environment reads as one."""
    if is_dataclass(given) and not isinstance(given, type):
        given = asdict(given)
    if isinstance(given, str):
        given = {"goal": given}
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{what} is {type(given).__name__}; expected an object with goal (and seed, params, split), a "
            "Task, or the goal alone"
        )
    read = registry.spec(name).row
    return {**(read(given) if read is not None else given), "env": name}


def deal(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with a split each. Where none has one they are dealt in turn, 3 train, 1 dev, 1 test.

    Raises ConfigError where some rows name a split and others do not, and where fewer than 3 are to be dealt.
    """
    named = sum("split" in row for row in rows)
    if named == len(rows):
        return list(rows)
    if named:
        raise ConfigError(f"{named} of {len(rows)} tasks name their split; let all of them do so, or none")
    if len(rows) < 3:
        raise ConfigError(f"{len(rows)} tasks cannot be dealt to train, dev and test; give at least 3")
    order = ("train", "dev", "test", "train", "train")
    return [{**row, "split": order[number % len(order)]} for number, row in enumerate(rows)]


def by_seed(name: str, goal: str) -> list[dict[str, Any]]:
    """Tasks that differ by seed alone; no seed is in two splits."""
    return [
        {"id": f"seed-{seed}", "env": name, "goal": goal, "seed": seed, "split": split}
        for split, seeds in SEEDS.items()
        for seed in seeds
    ]


def _rows_in(name: str, file: str) -> list[dict[str, Any]]:
    """Rows of a user's file, with `name` as their environment. Raises ConfigError with the file's own lines,
    for nobody else sees them: what is written for the run has no blank ones."""
    parquet = file.endswith(".parquet")
    path = Path(file) if parquet else find("tasks", file, ".jsonl")
    given: Iterable[tuple[int, Any]] = enumerate(parquet_rows(path), 1) if parquet else read_rows(path)
    rows: list[tuple[int, Any]] = []
    bad: dict[int, str] = {}
    for number, one in given:
        try:
            rows.append((number, _row(name, one, "it")))
        except ConfigError as error:
            bad[number] = str(error)
    tasks_in(path, rows, bad, check=registry.check)
    return [row for _, row in rows]


def _given(name: str, tasks: Callable[[], Iterable[Any]]) -> list[Any]:
    """What an environment's `tasks()` gives, one at least. Raises ConfigError, also for what it raises."""
    try:
        given = tasks()
        if isinstance(given, Iterable) and not isinstance(given, str | Mapping):
            given = list(given)
    except RoleAgentError:
        raise
    except Exception as error:  # border: a stranger's class
        hint = "" if not isinstance(error, TypeError) else "; it is called without arguments: a static method"
        raise ConfigError(
            f"environment {name}: tasks() raised {type(error).__name__}: {str(error)[:200]}{hint}"
        ) from error
    if not isinstance(given, list):
        raise ConfigError(
            f"environment {name}: tasks() gives {type(given).__name__}; expected a list of tasks"
        )
    if not given:
        raise ConfigError(f"environment {name}: tasks() gives none")
    return given


def rows_of(name: str, file: str | None = None) -> list[dict[str, Any]]:
    """Task rows of the environment `name`, or those of `file` with `name` as their environment.

    Without a file: what the class's `tasks()` gives (objects, Tasks or goals); else its shipped set; else one
    task a seed, with the class's `goal` if it has one. Raises ConfigError for what cannot be read as tasks,
    and for a world that nothing can be done in without a file.
    """
    allow(name)  # the user named it
    found = registry.spec(name)
    given: Sequence[Any]
    if file is not None:
        return deal(_rows_in(name, file))
    if found.tasks is not None:
        given = _given(name, found.tasks)
    elif found.task_set:
        given = [row for _, row in read_rows(room("tasks") / f"{found.task_set}.jsonl")]
    elif found.wants:
        raise ConfigError(
            f"environment {name} has no tasks of its own: give them with --tasks FILE, a JSON object a line "
            f"with {found.wants}"
        )
    else:
        return by_seed(name, found.goal or GOAL)
    what = f"environment {name}: entry"
    dealt = deal([_row(name, row, f"{what} {number} of tasks()") for number, row in enumerate(given, 1)])
    if found.tasks is not None:  # told here, for nobody else sees the file that is written of them
        tasks_in(Path(f"(tasks() of {name})"), list(enumerate(dealt, 1)))
    return dealt


def write_tasks(name: str, target: Path, file: str | None = None) -> Path:
    """Writes `rows_of(name, file)` to `target` as a task file, for a run to name.

    A file that says the same is left alone; raises ConfigError where it says something else, for a run was
    started with it.
    """
    lines = [json.dumps(row, ensure_ascii=False) for row in rows_of(name, file)]
    text = "\n".join(lines) + "\n"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    elif target.read_text(encoding="utf-8") != text:
        raise ConfigError(
            f"{target} holds other tasks than environment {name} gives now: its tasks have changed, or "
            "the run was started with another --env; use another --run name"
        )
    return target
