"""`distill RUN --cells`: base and adapter, each under the seed and the evolved prompt, beside the teacher.

Owns the flags, which adapter and which short prompt are meant where none is named, and the tables on the
screen. Leaves out playing (evals/cells.py) and the comparison (report/cells.py).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roleagent_lite.cli.settings import MaxCalls, MaxUsd, Price
from roleagent_lite.cli.trust import Trust

if TYPE_CHECKING:
    from roleagent_lite.distill.recipe import Recipe
    from roleagent_lite.report.cells import Cells

_WITH = "With --cells:"
CELLS: dict[str, Any] = {
    "cells": Annotated[
        bool,
        typer.Option(
            "--cells",
            help="Compare base and adapter, each under the seed and the evolved prompt, on sealed tasks.",
        ),
    ],
    "adapter": Annotated[
        str | None,
        typer.Option(
            "--adapter",
            metavar="FILE|MODEL",
            help=f"{_WITH} a LoRA file beside the base, or the model that has it.",
            show_default="the recipe's export",
        ),
    ],
    "base": Annotated[
        str | None,
        typer.Option(
            "--base", metavar="MODEL", help=f"{_WITH} what was trained.", show_default="the recipe's model"
        ),
    ],
    "seed_prompt": Annotated[
        Path | None,
        typer.Option(
            "--seed-prompt",
            help=f"{_WITH} a prompt file in place of the run's seed prompt.",
            show_default="the one that was baked in",
        ),
    ],
    "evolved_prompt": Annotated[
        Path | None,
        typer.Option("--evolved-prompt", help=f"{_WITH} a prompt file in place of the run's final one."),
    ],
    "teacher": Annotated[
        bool, typer.Option("--teacher", help=f"{_WITH} also play the model that made the run.")
    ],
    "limit": Annotated[
        int | None,
        typer.Option("--limit", min=1, help=f"{_WITH} at most so many tasks.", show_default="the run's"),
    ],
    "max_usd": MaxUsd,
    "max_calls": MaxCalls,
    "price": Price,
    "trust": Trust,
}


def refuse(given: dict[str, Any]) -> None:
    """Raises ConfigError where a flag was given that means nothing without --cells."""
    from roleagent_lite.errors import ConfigError

    for name, value in given.items():
        if name != "cells" and value not in (None, False):
            raise ConfigError(f"--{name.replace('_', '-')} belongs to --cells: add it, or leave the flag out")


def compare(
    run: str, runs: Path, recipe: str, tasks: str | None, out: Path | None, given: dict[str, Any], json: bool
) -> None:
    """`distill RUN --cells`; the run directory is `out`, else RUNS/RUN-cells. Raises ConfigError, BudgetStop
    at a cap, and exit code 5 where episodes were left out."""
    from roleagent_lite.cli import border, trust
    from roleagent_lite.cli.output import emit, find_run
    from roleagent_lite.cli.progress import Screen
    from roleagent_lite.config import Budget
    from roleagent_lite.distill.recipe import load_recipe
    from roleagent_lite.errors import BudgetStop
    from roleagent_lite.evals.cells import four_cells
    from roleagent_lite.report import cells
    from roleagent_lite.store import Run

    path, plan = find_run(run, runs), load_recipe(recipe)
    trust.vet(path, {"tasks": tasks}, bool(given["trust"]))
    with Run.open(path) as source:
        config = source.config
    trust.announce(config.model_copy(update={"tasks": tasks or config.tasks}), border.tell)
    trained = path if (path / "adapter").is_dir() else path / "distill" / plan.name
    adapter, baked = _adapter(given["adapter"], trained)
    short = given["seed_prompt"] or baked
    if short is not None:
        border.tell(f"seed prompt: {short}")
    folder = out or runs / f"{path.name}-cells"
    border.use_run(folder)
    border.ending_on_signals()
    border.tell(f"run {folder.name} in {folder}")
    again = f"what was finished is kept in {folder}; the same command goes on"
    caps = {name: given[name] for name in ("max_usd", "max_calls", "price")}
    try:
        with border.going_on(folder), Screen() as screen, border.result_only():
            screen.first = partial(trust.remember, folder)
            found = four_cells(
                path, adapter, base=_base(given["base"], plan), teacher=bool(given["teacher"]), tasks=tasks,
                seed_prompt=short, evolved_prompt=given["evolved_prompt"], limit=given["limit"],
                budget=Budget(**caps), run_dir=folder, listener=screen.listen, report=cells.write,
            )  # fmt: skip
    except BudgetStop:
        border.tell(f"stopped at a cap; {again}, with a higher one")
        raise
    read = cells.open_cells(found.run_dir)
    emit(
        {"dir": str(folder), "report": str(folder / "cells.md"), **read.as_data()}, words(read, folder), json
    )
    broken = sum(one.errors for one in read.summaries.values())
    if broken:
        border.tell(
            f"{broken} episodes ended in infrastructure errors and are left out; the report lists them"
        )
        raise typer.Exit(border.PARTIAL)


def _adapter(named: str | None, trained: Path) -> tuple[str, Path | None]:
    """The adapter that is meant, and the prompt that was baked into it, where it says so. ConfigError."""
    from roleagent_lite.errors import ConfigError

    exported = trained / "export" / "adapter.gguf"
    if named is None and not exported.is_file():
        raise ConfigError(
            f"{trained} holds no exported adapter: train one, then `--export gguf-adapter`; or name it with "
            "--adapter FILE"
        )
    baked = trained / "prompt.json"
    ours = named is None or Path(named).resolve() == exported.resolve()
    in_a_run = (trained / "config.toml").is_file()  # there, that file is what the run was begun with
    return named or str(exported), baked if ours and baked.is_file() and not in_a_run else None


def _base(named: str | None, plan: Recipe) -> str:
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.lm.weights import is_embedded

    if named is not None or is_embedded(plan.model):
        return named or plan.model
    raise ConfigError(
        f"recipe '{plan.name}' trains {plan.model}, which is not played as it is; name what plays it with "
        "--base (embedded:FILE.gguf, or a served model)"
    )


def words(found: Cells, folder: Path) -> str:
    """The tables and sentences on the screen."""
    from roleagent_lite.cli.output import table
    from roleagent_lite.report import cells

    parts = [table(cells.GRID, cells.grid(found)), table(cells.COSTS, cells.costs(found))]
    if found.pairs:
        parts.append(table(cells.VERDICTS, cells.verdicts(found)))
    return "\n\n".join([*parts, *cells.words_of(found), f"report: {folder / 'cells.md'}"])
