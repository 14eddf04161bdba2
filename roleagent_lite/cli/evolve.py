"""`roleagent-lite evolve`: the main job, from flags to the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roleagent_lite.cli import settings as flag
from roleagent_lite.cli.trust import Trust

if TYPE_CHECKING:
    from roleagent_lite.config import RunConfig

Prompt = Annotated[
    Path | None, typer.Option("--prompt", help="Start from your own prompt: text, TOML or JSON.")
]
Rounds = Annotated[
    int | None,
    typer.Option(
        "--rounds", help="Rounds of playing and rewriting.", show_default="8, 2 for the embedded model"
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with --run (or the newest interrupted run) as it was set up.")
]
Replay = Annotated[
    str | None, typer.Option("--replay", metavar="RUN", help="Play RUN again from its record; buys nothing.")
]


def replayed(source: Path, target: Path) -> RunConfig:
    """Set `target` up with the record of `source`, so that the same run can be played without a model.

    Gives the settings of `source` with `limits.replay` on and no caps: nothing is bought.
    """
    from roleagent_lite.config import Budget
    from roleagent_lite.store import Run

    with Run.open(source) as old:
        limits = old.config.limits.model_copy(update={"replay": True})
        config = old.config.model_copy(update={"limits": limits, "budget": Budget()})
        with Run.create(target, config) as new:
            for event in old.events:
                if event.kind in ("model", "note", "embedder"):
                    new.events.put(event)
            for sent in old.dispatched:
                new.dispatched.put(sent)
            for call in old.calls:
                new.calls.put(call)
    return config


def planned(config: RunConfig) -> int:
    """Episodes that a run plays at most: every child enters the pool, and one is better than the seed.

    Raises ConfigError for a task file that cannot be used.
    """
    from roleagent_lite.tasksets import load_tasks

    has = {split: len(load_tasks(config.tasks, split)) for split in ("train", "dev", "test")}
    plan = config.evolve
    each = min(plan.tasks_per_round, has["train"]) * plan.group
    return (
        plan.rounds * 2 * each
        + (plan.rounds + 1) * min(plan.dev, has["dev"])
        + 2 * min(plan.test, has["test"])
    )


def prepare(
    flags: Mapping[str, Any], config: Path | None, sets: list[str] | None, runs: Path, *,
    run: str | None, resume: bool, replay: str | None, prompt: Path | None, trusted: bool = False,
) -> tuple[Path, RunConfig]:  # fmt: skip
    """The run directory and the settings that the flags ask for. Raises ConfigError."""
    from roleagent_lite.cli.output import find_run, next_name
    from roleagent_lite.cli.runs import to_resume
    from roleagent_lite.cli.trust import vet
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.store import refuse_links

    if replay is not None:
        if resume:
            raise ConfigError("--replay starts a run of its own: leave out --resume")
        source = find_run(replay, runs)
        vet(source, {}, trusted)
        target = runs / (run or next_name(f"{source.name}-replay", runs))
        return target, replayed(source, target)
    if resume:
        if flags.get("env") is not None:
            raise ConfigError("--resume plays the run's own tasks: leave out --env")
        path = to_resume(run, runs, "evolve")
        vet(path, flags, trusted)
        if config is not None:
            raise ConfigError("--resume uses the run's own settings: leave out --config")
        config = path / "config.toml"
    else:
        path = runs / (run or next_name("evolve", runs))
        refuse_links(path)
    if prompt is not None:
        if flags.get("prompts") is not None:
            raise ConfigError("--prompt and --prompts both name the starting prompt: give one of them")
        flags = {**flags, "prompts": str(prompt.resolve())}
    return path, flag.resolve(config, sets, flag.own_tasks(flags, path))


@flag.taking()
def command(
    run: flag.Name = None,
    rounds: Rounds = None,
    prompt: Prompt = None,
    *,
    flags: dict[str, Any],
    resume: Resume = False,
    replay: Replay = None,
    trust: Trust = False,
    config: flag.Config = None,
    sets: flag.Sets = None,
    runs: flag.Runs = Path("runs"),
    json: flag.AsJson = False,
) -> None:
    """Play, learn from what went wrong, rewrite the prompt, and test it on sealed tasks."""
    from roleagent_lite.cli.job import finish, watched

    flags = {**flags, "rounds": rounds}
    path, settings = prepare(
        flags, config, sets, runs, run=run, resume=resume, replay=replay, prompt=prompt, trusted=trust
    )
    with watched("evolve", path, settings) as screen:
        from roleagent_lite.jobs import evolve
        from roleagent_lite.session import settings as resolved

        screen.plan(planned(resolved(settings)))
        evolve(settings, run_dir=path, listener=screen.listen)
    finish(path, json)
