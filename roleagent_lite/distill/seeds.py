"""Several online trainings of one recipe with different seeds, read as one result.

Owns pooling the sealed tasks over seeds, their table, and the curve on the dev tasks. Leaves out training and
playing (online.py, sealed.py), statistics (stats) and drawing.

A task that is played once a seed is one task: the scores of all seeds stand in one row, so that intervals are
over tasks, clustered, and differences are paired task by task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

from roleagent_lite.distill import curve
from roleagent_lite.errors import ConfigError
from roleagent_lite.stats import paired_difference, success_rate, task_means
from roleagent_lite.store import Run

ROWS = {"base": "base", "start": "SFT on its own solved episodes", "adapter": "then GRPO"}


def pooled(folders: Sequence[Path]) -> dict[str, Any]:
    """What the run directories of the seeds say together, as plain JSON.

    systems: share solved of the sealed tasks of each row there is, over all seeds. pairs: second minus first.
    seeds: of each its own shares, its looks at the dev tasks, minutes and memory. Raises ConfigError where a
    run was not finished with its sealed tasks, and for runs of different recipes or tasks.
    """
    if not folders:
        raise ConfigError("no run directory of a seed was given")
    each = [_seed(folder) for folder in folders]
    first = each[0]
    for folder, other in zip(folders, each, strict=True):
        if (
            _bare(other["recipe"]) != _bare(first["recipe"])
            or other["scores"].keys() != first["scores"].keys()
        ):
            raise ConfigError(f"{folder} was made by another recipe than {folders[0]}")
        for system, rows in other["scores"].items():
            if rows.keys() != first["scores"][system].keys():
                raise ConfigError(f"{folder} has other sealed tasks than {folders[0]}")
    scores = {
        system: {task: tuple(s["scores"][system][task] for s in each) for task in first["scores"][system]}
        for system in first["scores"]
    }
    rates = {system: success_rate(rows) for system, rows in scores.items()}
    return {
        "recipe": first["recipe"]["name"], "tasks": len(first["scores"]["base"]),
        "seeds": [{k: v for k, v in s.items() if k != "scores"} for s in each],
        "systems": {k: {"n": r.n, "solved": r.mean, "low": r.low, "high": r.high} for k, r in rates.items()},
        "pairs": [_pair(a, b, scores) for a, b in combinations(scores, 2)],
    }  # fmt: skip


def _seed(folder: Path) -> dict[str, Any]:
    told = _json(folder / "train.json")
    sealed = _json(folder / "sealed.json")
    with Run.open(folder) as run:
        scores = {
            r.system: {t: row[0] for t, row in r.scores.items()} for r in run.results if r.suite == "test"
        }
    missing = sealed["systems"].keys() - scores.keys()
    if missing:
        raise ConfigError(f"{folder} has no results of {', '.join(sorted(missing))} on the sealed tasks")
    warm = told.get("warm")
    looks = [{"update": 0, "system": "base", **warm["dev"]}] if warm else []
    rows = curve.read(folder)
    return {
        "seed": told["recipe"]["online"]["seed"], "recipe": told["recipe"], "scores": scores,
        "updates": told["updates"], "minutes": told["minutes"], "dev": looks + told["dev"],
        "solved": {k: v["solved"] for k, v in sealed["systems"].items()}, "warm": warm,
        "play": [{"update": r["update"], "solved": r["solved"]} for r in rows if "solved" in r],
        "peak_mib": max((r["peak_mib"] for r in [*rows, *([warm] if warm else [])]), default=None),
    }  # fmt: skip


def _json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read {path}: {error}; train with `distill --online --sealed` to the end first"
        ) from None


def _bare(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe without its seeds."""
    return {
        k: {n: x for n, x in v.items() if n != "seed"} if isinstance(v, dict) else v
        for k, v in recipe.items()
    }


def _pair(first: str, second: str, scores: Mapping[str, Any]) -> dict[str, Any]:
    found = paired_difference(task_means(scores[first]), task_means(scores[second]))
    told = asdict(found) | {"within_noise": found.within_noise()} if found is not None else {}
    return {"first": first, "second": second, **told}


def markdown(found: Mapping[str, Any]) -> str:
    """The rows of all seeds, then their differences."""
    seeds = found["seeds"]
    head = ["", f"sealed tasks solved, {len(seeds)} seeds", *(f"seed {s['seed']}" for s in seeds)]
    rows = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for system, rate in found["systems"].items():
        own = [_percent(s["solved"][system]) for s in seeds]
        interval = f"{_percent(rate['low'])} to {_percent(rate['high'])}"
        rows.append([ROWS[system], f"{_percent(rate['solved'])} ({interval})", *own])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.append("")
    for pair in found["pairs"]:
        if "n" in pair:
            lines.append(f"- {_words(pair)}")
    return "\n".join(lines) + "\n"


def _words(pair: Mapping[str, Any]) -> str:
    interval = (
        f"95 % interval {100 * pair['low']:+.1f} to {100 * pair['high']:+.1f}, "
        if pair["low"] is not None and pair["high"] is not None
        else ""
    )
    return (
        f"{ROWS[pair['second']]} against {ROWS[pair['first']]}: {100 * pair['difference']:+.1f} points on "
        f"{pair['n']} tasks ({interval}p = {pair['p']:.2g}, {pair['test']}): "
        + ("within noise" if pair["within_noise"] else "beyond noise")
    )


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0%}"


def course(found: Mapping[str, Any]) -> dict[str, list[tuple[int, float | None]]]:
    """Of each seed (update, share of dev tasks solved); the base stands at -1, before the first update."""
    return {
        f"seed {seed['seed']}": [
            (-1 if look.get("system") == "base" else look["update"], look["solved"]) for look in seed["dev"]
        ]
        for seed in found["seeds"]
    }
