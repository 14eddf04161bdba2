"""A short evolution in the scripted kitchen, for tests of evolve/ and jobs: settings, tables as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from roleagent_lite.config import RunConfig, from_mapping, merge
from roleagent_lite.jobs import EvolveResult, evolve
from roleagent_lite.store import Run
from roleagent_lite.types import Model, Role
from tests.scripted_world import provider, write_tasks

BASE: dict[str, Any] = {
    "model": "scripted",
    "agent": "generate",
    "seed": 3,
    "workers": 4,
    "aiw": {"embedder": "none", "retrieve": "vector"},
    "evolve": {"rounds": 3, "tasks_per_round": 5, "group": 2, "dev": 20, "test": 10},
}
SMALL: dict[str, Any] = {"evolve": {"rounds": 2, "tasks_per_round": 4, "group": 2, "dev": 5, "test": 5}}
TABLES = ["tasks", "calls", "trajectories", "credits", "diagnoses", "prompt_sets", "results", "events"]
# What differs between two equal runs: times, and who did the work.
_TIMES = ("seconds",)
_OWN = ("session/", "note/")


def settings(folder: Path, *over: Mapping[str, Any]) -> RunConfig:
    """BASE with `over` on top, on a task file of its own in `folder`."""
    values = merge(BASE, {"tasks": str(write_tasks(folder / "kitchen.jsonl"))})
    for one in over:
        values = merge(values, one)
    return from_mapping(values)


def run_kitchen(
    folder: Path, *over: Mapping[str, Any], name: str = "run", models: Mapping[Role, Model] | None = None
) -> EvolveResult:
    return evolve(settings(folder, *over), run_dir=folder / name, models=models or provider())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if k not in _TIMES}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def tables(run_dir: Path) -> dict[str, dict[str, Any]]:
    """Every table of a run by key, without times; `dispatched` and sessions left out."""
    out: dict[str, dict[str, Any]] = {}
    with Run.open(run_dir) as run:
        for name in TABLES:
            table = getattr(run, name)
            keys = [key for key in sorted(table.keys()) if not key.startswith(_OWN)]
            out[name] = {key: _plain(asdict(table.get(key))) for key in keys}
    return out
