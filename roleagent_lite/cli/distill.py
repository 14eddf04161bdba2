"""`roleagent-lite distill`: from a run to training samples and an adapter of a small local model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roleagent_lite.cli.distill_cells import CELLS
from roleagent_lite.cli.settings import AsJson, RunArgument, Runs, handing

if TYPE_CHECKING:
    from roleagent_lite.distill.prepare import Prepared
    from roleagent_lite.distill.recipe import Recipe
    from roleagent_lite.distill.tokenizer import Tokenizer

RecipeName = Annotated[str, typer.Option("--recipe", help="A shipped recipe or a TOML file.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Folder for what is written; default RUN/distill/RECIPE, online RUNS/RECIPE-online."
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Write the samples with tokens and loss masks; train nothing.")
]
Export = Annotated[
    str | None,
    typer.Option(
        "--export",
        metavar="FORMAT,…",
        help="Write what was trained, checked, as adapter, merged, gguf, gguf-adapter, ollama or all.",
    ),
]
PlanOnly = Annotated[
    bool, typer.Option("--plan", help="Say what it takes (memory, disk, time) and stop; RUN may be left out.")
]
Smaller = Annotated[
    bool, typer.Option("--smaller", help="Where the recipe does not fit this machine, take a smaller form.")
]
Bundle = Annotated[
    Path | None,
    typer.Option("--bundle", metavar="DIR", help="Write a folder to train from on another machine."),
]
TakeBack = Annotated[
    Path | None,
    typer.Option("--take-back", metavar="FILE", help="Put the adapter.zip of a bundle where it belongs."),
]
Samples = Annotated[
    Path | None,
    typer.Option(
        "--samples",
        metavar="FILE",
        help="Write RUN's samples with their advantages to FILE.jsonl or FILE.parquet, for other trainers.",
    ),
]
Layout = Annotated[
    str | None,
    typer.Option(
        "--layout",
        help="With --samples: columns as trl (TRL) or verl (verl, verl-agent).",
        show_default="trl",
    ),
]
Online = Annotated[
    bool,
    typer.Option("--online", help="The model plays itself, update by update; takes --tasks in place of RUN."),
]
Tasks = Annotated[
    str | None,
    typer.Option(
        "--tasks",
        help="With --online or --cells: a shipped task set or a JSONL file.",
        show_default="household-easy, with --cells the run's",
    ),
]
Sealed = Annotated[
    bool,
    typer.Option(
        "--sealed", help="With --online: at the end, play the sealed tasks with base and adapter, once."
    ),
]

Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        help="With --online: of draws and of the adapter's first weights.",
        show_default="the recipe's",
    ),
]


@handing("cells", CELLS)
def command(
    run: RunArgument = "",
    recipe: RecipeName = "smollm2-cpu",
    dry_run: DryRun = False,
    out: Out = None,
    export: Export = None,
    plan_only: PlanOnly = False,
    smaller: Smaller = False,
    bundle: Bundle = None,
    back: TakeBack = None,
    samples: Samples = None,
    layout: Layout = None,
    online: Online = False,
    tasks: Tasks = None,
    sealed: Sealed = False,
    seed: Seed = None,
    *,
    cells: dict[str, Any],
    runs: Runs = Path("runs"),
    json: AsJson = False,
) -> None:
    """Train an adapter on a run's training episodes; the same command goes on after an interruption."""
    from roleagent_lite.cli import distill_cells, distill_out
    from roleagent_lite.cli.distill_jobs import one_job

    if not cells["cells"]:
        distill_cells.refuse(cells)
    flags = {"plan_only": plan_only, "online": online, "cells": cells["cells"], "samples": samples}
    flags |= {"export": export, "bundle": bundle, "back": back, "dry_run": dry_run, "sealed": sealed}
    one_job(run, flags | {"seed": seed, "tasks": tasks, "layout": layout, "smaller": smaller, "out": out})
    if plan_only:
        distill_out.show_plan(run, runs, recipe, json)
        return
    if online:
        from roleagent_lite.cli.distill_online import train

        train(recipe, tasks or "household-easy", out, runs, sealed, json, seed)
        return
    if not run:
        from roleagent_lite.errors import ConfigError

        raise ConfigError("distill needs a RUN (`roleagent-lite runs` lists them), or --online")
    if cells["cells"]:
        distill_cells.compare(run, runs, recipe, tasks, out, cells, json)
        return
    if samples is not None:
        from roleagent_lite.cli.distill_samples import write_samples

        write_samples(run, runs, recipe, samples, layout or "trl", json)
        return
    if export is not None:
        distill_out.export_adapter(run, runs, recipe, export, out, json)
        return
    if bundle is not None:
        distill_out.write_bundle(run, runs, recipe, bundle, json)
        return
    if back is not None:
        distill_out.take_back(run, runs, recipe, back, out, json)
        return
    _from_run(run, runs, recipe, dry_run, out, smaller, json)


def _from_run(
    run: str, runs: Path, recipe: str, dry_run: bool, out: Path | None, smaller: bool, json: bool
) -> None:
    """Samples of a run, and the training on them unless it is a dry run."""
    from roleagent_lite.cli import distill_out
    from roleagent_lite.cli.border import ending_on_signals, tell
    from roleagent_lite.cli.output import find_run
    from roleagent_lite.distill.prepare import prepare
    from roleagent_lite.distill.recipe import load_recipe
    from roleagent_lite.distill.tokenizer import open_tokenizer
    from roleagent_lite.store import Run

    plan = load_recipe(recipe)
    path = find_run(run, runs)
    if not dry_run:
        from roleagent_lite.distill.stack import device_for

        device_for(plan)  # what is missing is said before anything loads
        plan = distill_out.fitted(plan) if smaller else plan
    tokenizer, folder = open_tokenizer(plan.model), out or path / "distill" / plan.name
    while True:
        with Run.open(path) as opened:
            prepared = prepare(opened, plan, tokenizer)
        for warning in prepared.report.warnings:
            tell(f"warning: {warning}")
        if dry_run:
            _show(prepared, tokenizer, folder, json)
            return
        ending_on_signals()
        found = _train(prepared, tokenizer, folder, json, smaller)
        if found is None:
            return
        plan = found  # what did not fit is freed by now; samples of its length are cut anew


def _show(prepared: Prepared, tokenizer: Tokenizer, folder: Path, json: bool) -> None:
    from roleagent_lite.cli.output import emit
    from roleagent_lite.distill import dump

    dump.write(prepared, tokenizer, folder)
    emit({"out": str(folder), **dump.summary(prepared, tokenizer)}, _words(prepared, tokenizer, folder), json)
    prepared.check()


def _train(
    prepared: Prepared, tokenizer: Tokenizer, folder: Path, json: bool, smaller: bool
) -> Recipe | None:
    """None when it is done; the recipe to go on with where this one does not fit and `smaller` allows it."""
    from roleagent_lite.cli.border import going_on, result_only, tell
    from roleagent_lite.cli.output import emit, table
    from roleagent_lite.cli.progress import Screen
    from roleagent_lite.distill.bake import playing
    from roleagent_lite.distill.job import distill
    from roleagent_lite.distill.rehearsal import DoesNotFit
    from roleagent_lite.errors import RoleAgentError

    try:
        with going_on(folder), Screen() as screen, result_only():
            told = distill(prepared, tokenizer, folder, screen.listen)
    except DoesNotFit as error:
        if not smaller or error.smaller is None:
            raise
        for step in error.steps:
            tell(f"smaller: {step}")
        return error.smaller
    for warning in told["warnings"]:
        if warning not in prepared.report.warnings:
            tell(f"warning: {warning}")
    rows = [
        ("method", told["method"]),
        ("trained with", f"{told['backend']} on {told['device']}: {told['backend_why']}"),
        ("reference", told["reference"]),
        ("steps", f"{told['steps']} of {told['of']}"),
        ("adapter", told["adapter"]),
    ]
    if baked := told.get("bake"):
        play = playing(baked["prompt"], baked["file"], folder)
        rows += [("prompt baked in", _saving(baked)), ("play it with", play)]
    emit(told, table(("what", ""), rows), json)
    if told["stopped"]:
        raise RoleAgentError(
            f"training stopped: {told['stopped']}; the last good adapter is {told['adapter']}"
        )
    return None


def _saving(bake: Mapping[str, Any]) -> str:
    """What the short prompt saves, of the samples that are used."""
    if "samples" not in bake:
        return "unknown (no sample)"
    return (
        f"{bake['prompt_sent']:.0f} tokens of prompt a step become {bake['prompt_baked']:.0f}: "
        f"{bake['saved_a_step']:.0f} saved ({bake['share_saved']:.0%}) over {bake['samples']} samples, "
        f"{bake['already_short']} of them as short before"
    )


def _words(prepared: Prepared, tokenizer: Tokenizer, folder: Path) -> str:
    from roleagent_lite.cli.output import table

    report = prepared.report
    rows: list[tuple[str, Any]] = [
        ("tokenizer", tokenizer.name),
        ("episodes", report.trajectories),
        ("groups", f"{report.groups}, {report.without_signal} without signal"),
        ("samples", f"{report.samples}, {report.used} used"),
        ("tokens", f"{report.tokens}, {report.trained} of them trained; longest sample {report.longest}"),
        ("cut", f"{report.cut} cut, {report.too_long} dropped as too long"),
        ("old log-probabilities", f"recorded for {report.with_logprobs} of {report.used} samples"),
        *((("prompt baked in", _saving(report.bake)),) if report.bake else ()),
        *((f"left out: {why}", count) for why, count in report.reasons.items()),
    ]
    return table(("what", "how many"), [(a, str(b)) for a, b in rows]) + f"\nwritten to {folder}"
