"""What `distill` does beside training: exports, the plan, a bundle for another machine and its way back.

Owns the words and the result on the screen. Leaves out the files (distill/export.py, distill/bundle.py) and
the formulas (distill/plan.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roleagent_lite.distill.plan import Load, Plan
    from roleagent_lite.distill.prepare import Prepared
    from roleagent_lite.distill.recipe import Recipe
    from roleagent_lite.distill.tokenizer import Tokenizer
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

    own = (
        path if (path / "adapter").is_dir() else path / "distill" / plan.name
    )  # trained online, or from a run
    told = export(out or own, plan, names, probes, hear)
    emit(told, table(("what", ""), _rows(told)), json)


def _rows(told: dict[str, Any]) -> list[tuple[str, str]]:
    rows = list(told["files"].items())
    for side in told["sides"]:
        alike = f"{side['actions']} of {side['of_actions']} first actions, " if side["of_actions"] else ""
        alike += f"{side['tokens']} of {side['of_tokens']} first tokens as base + adapter"
        near = f", {len(side['excused'])} near ties" if side["excused"] else ""
        rows.append((side["side"], alike + near + ("" if side["required"] else " (quantised: only told)")))
    return rows + [("play it", command) for command in told["play"]]


def show_plan(run: str, runs: Path, recipe: str, json: bool) -> None:
    """`distill [RUN] --plan`: memory, disk and time before anything loads; RUN's samples where there is one.

    Raises ConfigError, and RoleAgentError where the model's config.json cannot be fetched.
    """
    from dataclasses import asdict

    from roleagent_lite.cli.output import emit, table
    from roleagent_lite.distill import plan as planning
    from roleagent_lite.distill import size as sizes
    from roleagent_lite.distill.recipe import load_recipe

    chosen = load_recipe(recipe)
    size = sizes.size_of(chosen.model)
    load = _load(run, runs, chosen) if run else planning.limits(chosen)
    room, where, card = sizes.memory(chosen)
    made = planning.plan(size, chosen, load, card=card)
    rungs = planning.fitting(size, chosen, room, load, card=card)
    pace = sizes.speed(chosen)
    down = rungs or planning.ladder(size, chosen, load, card=card)
    told: dict[str, Any] = {
        "recipe": chosen.name, "model": chosen.model, "parameters": size.parameters,
        "samples": asdict(load), "memory": {name: getattr(made, name) for name in (*_PARTS, "total")},
        "room": room, "on": where, "disk": made.disk, "operations": made.operations,
        "hours": made.operations / pace / 3600 if pace else None,
        "ladder": [{"step": r.words, "total": r.plan.total} for r in down], "fits": rungs == [],
    }  # fmt: skip
    emit(told, table(("what", ""), _plan_rows(told, made)) + "\n\n" + _verdict(told, rungs is None), json)


_PARTS = {
    "weights": "weights of the base",
    "adapter": "adapter",
    "optimiser": "gradient and optimiser",
    "activations": "activations",
    "logits": "logits",
    "cache": "cache while playing (not at the same time)",
    "fixed": "libraries",
}


def _load(run: str, runs: Path, recipe: Recipe) -> Load:
    from roleagent_lite.distill.plan import Load

    prepared, _ = prepared_run(run, runs, recipe)
    prepared.check()
    report = prepared.report
    reply = max(len(t.ids) - t.start for t in prepared.usable)
    return Load(report.used, report.tokens, report.longest, reply)


def prepared_run(run: str, runs: Path, recipe: Recipe) -> tuple[Prepared, Tokenizer]:
    """A run's samples in tokens of the recipe's model."""
    from roleagent_lite.cli.output import find_run
    from roleagent_lite.distill.prepare import prepare
    from roleagent_lite.distill.tokenizer import open_tokenizer
    from roleagent_lite.store import Run

    with Run.open(find_run(run, runs)) as opened:
        tokenizer = open_tokenizer(recipe.model)
        return prepare(opened, recipe, tokenizer), tokenizer


def _plan_rows(told: dict[str, Any], made: Plan) -> list[tuple[str, str]]:
    load = made.load
    source = "of the run" if load.measured else "as the recipe allows"
    rows = [
        ("model", f"{told['model']}, {told['parameters'] / 1e9:.2f} billion parameters"),
        (
            "samples",
            f"{load.samples} {source}, the longest {load.longest} tokens, {load.reply} of them a reply",
        ),
        *((words, _gigabytes(told["memory"][name])) for name, words in _PARTS.items()),
        ("memory at the peak", f"{_gigabytes(made.total)} of {_gigabytes(told['room'])} of {told['on']}"),
        *((f"disk: {name}", _gigabytes(value)) for name, value in told["disk"].items()),
    ]
    hours = told["hours"]
    time = (
        "unknown without torch"
        if hours is None
        else f"at least {_span(hours)} by a matrix product timed here"
    )
    return [*rows, ("time of the updates", f"{time}, playing not counted")]


def _verdict(told: dict[str, Any], hopeless: bool) -> str:
    if told["fits"]:
        return f"recipe {told['recipe']} fits"
    steps = "\n".join(f"  {r['step']}: {_gigabytes(r['total'])}" for r in told["ladder"])
    end = "nor does its smallest form; take a smaller model" if hopeless else "--smaller takes these steps"
    return f"recipe {told['recipe']} does not fit; {end}:\n{steps}"


def _gigabytes(count: float) -> str:
    return f"{count / 2**30:.2f} GiB"


def _span(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"


def fitted(recipe: Recipe, load: Load | None = None) -> Recipe:
    """`recipe`, or the first rung down that fits this machine, with each step told. Raises ConfigError where
    none does."""
    from roleagent_lite.cli.border import tell
    from roleagent_lite.distill import plan as planning
    from roleagent_lite.distill import size as sizes
    from roleagent_lite.errors import ConfigError

    size = sizes.size_of(recipe.model)
    room, where, card = sizes.memory(recipe)
    rungs = planning.fitting(size, recipe, room, load, card=card)
    if rungs is None:
        raise ConfigError(f"even the smallest form of recipe '{recipe.name}' does not fit {where}")
    for rung in rungs:
        tell(f"smaller: {rung.words} ({_gigabytes(rung.plan.total)})")
    return rungs[-1].recipe if rungs else recipe


def write_bundle(run: str, runs: Path, recipe: str, target: Path, json: bool) -> None:
    """`distill RUN --bundle DIR`. Raises ConfigError, RoleAgentError where there is nothing to train on."""
    import shlex

    from roleagent_lite.cli.output import emit
    from roleagent_lite.distill import bundle
    from roleagent_lite.distill.recipe import load_recipe

    prepared, tokenizer = prepared_run(run, runs, load_recipe(recipe))
    back = ["roleagent-lite", "distill", run, "--recipe", recipe, "--take-back", bundle.BACK]
    parts = bundle.write(prepared, tokenizer, target, " ".join(shlex.quote(word) for word in back))
    told = {"out": str(target), "parts": parts, "samples": prepared.report.used}
    emit(
        told,
        f"{prepared.report.used} samples and all that training needs in {target}; README.md says how",
        json,
    )


def take_back(run: str, runs: Path, recipe: str, file: Path, out: Path | None, json: bool) -> None:
    """`distill RUN --take-back adapter.zip`. Raises ConfigError where it is another recipe's, or none."""
    from roleagent_lite.cli.output import emit, find_run
    from roleagent_lite.distill import bundle
    from roleagent_lite.distill.recipe import load_recipe

    plan = load_recipe(recipe)
    folder = out or find_run(run, runs) / "distill" / plan.name
    told = bundle.take_back(file, folder, plan)
    steps = f"{told.get('steps')} of {told.get('of')} steps"
    emit({"adapter": str(folder / "adapter"), **told}, f"{steps}; adapter in {folder / 'adapter'}", json)
