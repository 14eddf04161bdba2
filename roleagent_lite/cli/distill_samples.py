"""`distill RUN --samples FILE`: a run's samples with their advantages, for trainers other than this one.

Owns the words on the screen. Leaves out columns and files (distill/table.py). Loads no model, no tokenizer.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path


def write_samples(run: str, runs: Path, recipe: str, file: Path, layout: str, json: bool) -> None:
    """Raises ConfigError for a layout or an ending that is unknown, RoleAgentError where nothing can be
    written."""
    from roleagent_lite.cli.output import emit, find_run, table
    from roleagent_lite.distill import table as samples
    from roleagent_lite.distill.recipe import load_recipe
    from roleagent_lite.store import Run

    samples.writer(file)  # before the run is read
    plan = load_recipe(recipe)
    with Run.open(find_run(run, runs)) as opened:
        count, dropped = samples.write(opened, plan, file, layout)
    reasons = dict(sorted(Counter(d.reason for d in dropped).items()))
    told = {"out": str(file), "layout": layout, "method": plan.method, "samples": count, "reasons": reasons}
    shown = [("samples", str(count)), *((f"left out: {why}", str(n)) for why, n in reasons.items())]
    emit(told, table(("what", "how many"), shown) + f"\nwritten to {file}, layout {layout}", json)
