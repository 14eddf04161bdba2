"""Who takes part in a comparison: one system of one run, with the tasks as they were and what played them.

Owns how RUN and RUN:SYSTEM are read and which system a run's name alone means. Leaves out the comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from roleagent_lite.config import RunConfig
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.lm.address import shown
from roleagent_lite.store import Run, find_run
from roleagent_lite.types import Result, Task, Trajectory


@dataclass(frozen=True, slots=True)
class Side:
    """One system of one run. `name` tells it apart in a comparison; step limits by task id; `models`: every
    model that played its episodes; `prompt_set`: "" = the run does not say; `tasks_hash`: of the task
    files; `server`: where its model answers, "" = the provider's own; `max_tokens` of a reply."""

    name: str
    run_dir: Path
    result: Result
    tasks: Mapping[str, Task]
    limits: Mapping[str, int]
    models: tuple[str, ...]
    prompt_set: str
    tasks_hash: str
    server: str = ""
    max_tokens: int = 0


def sides_of(spec: str | Path, runs: Path = Path("runs"), *, alone: bool = False) -> list[Side]:
    """The sides that `spec` names: RUN:SYSTEM, or RUN: its only system, or an evolution's final prompt.

    alone: nothing else is compared, so that RUN means all of its systems. Raises ConfigError for a run or
    system nobody knows (with the nearest), a run of several systems named without one, and a run in which no
    system is scored yet.
    """
    path, system = _split(str(spec), runs)
    with Run.open(path) as run:
        results = {result.system: result for result in run.results}
        if not results:
            raise ConfigError(f"run '{path.name}' has no scored system yet; resume it to its end first")
        if system is not None:
            if system not in results:
                raise ConfigError(f"run '{path.name}' has no system '{system}'{nearest(system, results)}")
            return [_side(run, results[system])]
        if alone:
            return [_side(run, one) for one in results.values()]
        return [_side(run, results[_meant(run, list(results))])]


def _split(spec: str, runs: Path) -> tuple[Path, str | None]:
    """Run directory and system. A name with colons of its own is taken whole where there is such a run."""
    parts = spec.split(":")
    for cut in range(len(parts), 0, -1):
        name = ":".join(parts[:cut])
        if any((folder / "config.toml").is_file() for folder in (runs / name, Path(name))):
            return find_run(name, runs), ":".join(parts[cut:]) or None
    return find_run(parts[0], runs), None


def _meant(run: Run, systems: Sequence[str]) -> str:
    """The system that a run's name alone stands for."""
    if len(systems) == 1:
        return systems[0]
    final = run.events.get("final")
    if final is not None and "seed" in systems and "best" in systems:
        return "best" if final.data.get("accepted") else "seed"
    shown = ", ".join(f"{run.name}:{name}" for name in systems)
    raise ConfigError(f"run '{run.name}' holds several systems: say which ({shown})")


def _side(run: Run, result: Result) -> Side:
    tasks = {id: task for id in result.scores if (task := run.tasks.get(id)) is not None}
    played = _played(run, result)
    limits = {t.task: t.max_steps for t in played}
    models = tuple(sorted({t.model for t in played if t.model}))
    sets = {t.prompt_set for t in played}
    start = run.events.get("start")
    return Side(
        name=f"{run.name}:{result.system}",
        run_dir=run.dir,
        result=result,
        tasks=tasks,
        limits=limits,
        models=models,
        prompt_set=next(iter(sets)) if len(sets) == 1 else "",
        tasks_hash=str(start.data.get("tasks_hash", "")) if start is not None else "",
        server=_server(run.config),
        max_tokens=run.config.limits.max_tokens,
    )


def _server(config: RunConfig) -> str:
    """The address in the agent's model string, else that of all models, without what is secret in it."""
    name, at, rest = config.model_for("agent").partition("@http")
    if not at:
        rest = name.removeprefix("http") if name.startswith(("http://", "https://")) else ""
    return shown("http" + rest if rest else config.limits.base_url or "")


def _played(run: Run, result: Result) -> list[Trajectory]:
    """The episodes that count; none for rows of a version that did not keep their ids."""
    ids = [id for row in result.trajectories.values() for id in row]
    return [t for id in ids if (t := run.trajectories.get(id)) is not None]
