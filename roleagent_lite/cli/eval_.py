"""`roleagent-lite eval`: one prompt set on one task set, or several systems on a suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roleagent_lite.cli import border, suite
from roleagent_lite.cli import settings as flag
from roleagent_lite.cli.trust import Trust

if TYPE_CHECKING:
    from roleagent_lite.config import RunConfig

PROMPT = "prompt.json"  # the final prompt of the run that is scored, kept beside its tables
From = Annotated[
    str | None,
    typer.Argument(
        metavar="[SUITE|RUN]",
        help="A suite (quick, household-easy, household, or a TOML file): its systems are compared. Or a "
        "run: its final prompt is scored, with its settings.",
    ),
]
Prompt = Annotated[Path | None, typer.Option("--prompt", help="Score your own prompt: text, TOML or JSON.")]
Split = Annotated[str | None, typer.Option("--split", help="train, dev or test.", show_default="test")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="At most so many tasks.", show_default="no limit")
]
Replay = Annotated[
    str | None, typer.Option("--replay", metavar="RUN", help="Play RUN again from its record; buys nothing.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with --run as it was set up.")]


def of_run(
    source: Path, target: Path, sets: list[str] | None, flags: dict[str, Any]
) -> tuple[RunConfig, Path]:
    """Settings of the run at `source` with `flags` over them (its own caps and replay left out), and a file
    with its final prompt, written into `target`. Raises ConfigError where the run has no final prompt."""
    from roleagent_lite.config import from_mapping, merge
    from roleagent_lite.evolve.export import export
    from roleagent_lite.store import Run

    texts = export(source, "json")
    with Run.open(source) as run:
        base = run.config.model_dump()
    base["budget"] = {}
    base["limits"]["replay"] = False
    config = from_mapping(merge(base, merge(flag.parse_sets(sets or ()), flag.nested(flags))), "command line")
    config = flag.with_adapter(config, flags.get("adapter"))
    target.mkdir(parents=True, exist_ok=True)
    file = target / PROMPT
    file.write_text(texts, encoding="utf-8")
    return config, file


def fresh(
    name: str | None, runs: Path, flags: dict[str, Any], given: dict[str, Any], split: str, limit: int | None
) -> tuple[Path, RunConfig, dict[str, Any]]:
    """Directory, settings and what `jobs.evaluate` is to play. Raises ConfigError for flags that clash."""
    from roleagent_lite.cli.output import find_run, next_name
    from roleagent_lite.cli.trust import vet
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.store import refuse_links

    how: dict[str, Any] = {"split": split, "limit": limit}
    path, source, prompt = runs / (name or next_name("eval", runs)), given["source"], given["prompt"]
    refuse_links(path)
    if source is not None:
        if prompt is not None or flags["prompts"] is not None or given["config"] is not None:
            raise ConfigError(
                f"RUN '{source}' brings prompt and settings: leave out --prompt, --prompts and --config"
            )
        found = find_run(source, runs)
        vet(found, flags, given["trust"])
        settings, file = of_run(found, path, given["sets"], flag.own_tasks(flags, path))
        return path, settings, {**how, "prompt_file": file}
    if prompt is not None:
        if flags["prompts"] is not None:
            raise ConfigError("--prompt and --prompts both name a prompt: give one of them")
        flags = {**flags, "prompts": str(prompt.resolve())}
    return path, flag.resolve(given["config"], given["sets"], flag.own_tasks(flags, path)), how


def resumed(
    name: str | None, runs: Path, flags: dict[str, Any], given: dict[str, Any]
) -> tuple[Path, RunConfig, dict[str, Any]]:
    """The same for a run that was begun: its settings (flags win), its prompt, its tasks."""
    from roleagent_lite.cli.runs import splits_of, to_resume
    from roleagent_lite.cli.trust import vet
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.store import Run

    if flags.get("env") is not None:
        raise ConfigError("--resume plays the run's own tasks: leave out --env")
    if given["source"] is not None or given["config"] is not None or given["prompt"] is not None:
        raise ConfigError(
            "--resume uses the run's own prompt and settings: leave out RUN, --prompt, --config"
        )
    path = to_resume(name, runs, "eval")
    vet(path, flags, given["trust"])
    settings = flag.resolve(path / "config.toml", given["sets"], flags)
    if (played := suite.of_run(path)) is not None:
        return path, settings, {"suite": played, "runs": runs}
    with Run.open(path) as run:
        known = list(splits_of(run).items())
    how: dict[str, Any] = dict(zip(("split", "limit"), known[0] if known else ("test", None), strict=True))
    if (path / PROMPT).is_file():
        how["prompt_file"] = path / PROMPT
    return path, settings, how


def suited(
    name: str | None, runs: Path, flags: dict[str, Any], given: dict[str, Any], split: str, limit: int | None
) -> tuple[Path, RunConfig, dict[str, Any]]:
    """Directory, settings and what `jobs.evaluate_suite` is to play, for a new run. Raises ConfigError."""
    from roleagent_lite.cli.output import next_name
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.evals.suite import load_suite, suite_of

    path, source, prompt = runs / (name or next_name("eval", runs)), given["source"], given["prompt"]
    if source is not None and any(value is not None for value in (flags["tasks"], flags["env"])):
        raise ConfigError(f"suite '{source}' names its tasks: leave out --tasks and --env")
    if source is not None and given["split"] is not None:
        raise ConfigError(f"suite '{source}' names its splits: leave out --split")
    if prompt is not None:
        if flags["prompts"] is not None:
            raise ConfigError("--prompt and --prompts both name a prompt: give one of them")
        flags = {**flags, "prompts": str(prompt.resolve())}
    config = flag.resolve(given["config"], given["sets"], flag.own_tasks(flags, path))
    played = load_suite(source) if source is not None else suite_of(config.tasks, split)  # type: ignore[arg-type]
    return path, config, {"suite": suite.changed(played, given, limit, flags["seed"]), "runs": runs}


def again(
    name: str | None, runs: Path, flags: dict[str, Any], given: dict[str, Any]
) -> tuple[Path, RunConfig, dict[str, Any]]:
    """The same for `--replay`: a new run with the record of an old one. Raises ConfigError."""
    from roleagent_lite.cli.evolve import replayed
    from roleagent_lite.cli.output import find_run, next_name
    from roleagent_lite.cli.runs import job_of, splits_of
    from roleagent_lite.cli.trust import vet
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.store import Run

    if any(
        value is not None for value in (given["source"], given["config"], given["prompt"], *flags.values())
    ):
        raise ConfigError("--replay plays a run with its own settings: leave out SUITE or RUN and settings")
    suite.refuse_own(given, "is the replayed run's own: leave it out")
    source = find_run(given["replay"], runs)
    vet(source, flags, given["trust"])
    with Run.open(source) as run:
        if (job := job_of(run)) != "eval":
            line = (
                f"roleagent-lite evolve --replay {source.name}" if job == "evolve" else "it is not replayed"
            )
            raise ConfigError(f"run '{source.name}' is another job: {line}")
        known = list(splits_of(run).items())
    path = runs / (name or next_name(f"{source.name}-replay", runs))
    settings = replayed(source, path)
    if (played := suite.of_run(source)) is not None:
        return path, settings, {"suite": played, "runs": runs}
    how: dict[str, Any] = dict(zip(("split", "limit"), known[0] if known else ("test", None), strict=True))
    if (source / PROMPT).is_file():
        (path / PROMPT).write_bytes((source / PROMPT).read_bytes())
        how["prompt_file"] = path / PROMPT
    return path, settings, how


def asked(
    name: str | None, runs: Path, flags: dict[str, Any], given: dict[str, Any], limit: int | None
) -> tuple[Path, RunConfig, dict[str, Any]]:
    """What the flags ask for, in whichever of its forms. Raises ConfigError for those that clash."""
    from roleagent_lite.errors import ConfigError, nearest

    split = given["split"] or "test"
    if split not in ("train", "dev", "test"):
        raise ConfigError(f"no split '{split}'{nearest(split, ('train', 'dev', 'test'))}")
    if given["replay"] is not None:
        if given["resume"]:
            raise ConfigError("--replay starts a run of its own: leave out --resume")
        return again(name, runs, flags, given)
    if given["resume"]:
        suite.refuse_own(given, "is the run's own: leave it out with --resume")
        return resumed(name, runs, flags, given)
    if given["source"] is not None and suite.is_suite(given["source"], runs, border.tell):
        return suited(name, runs, flags, given, split, limit)
    if given["source"] is None and given["systems"] is not None:
        return suited(name, runs, flags, given, split, limit)
    suite.refuse_own(given, "belongs to a comparison: name a suite (eval quick), or give --systems too")
    return fresh(name, runs, flags, given, split, limit)


@flag.taking("agent_model", "world_model", "reflector_model", "judge_model")
def command(
    source: From = None,
    run: flag.Name = None,
    systems: suite.Systems = None,
    split: Split = None,
    limit: Limit = None,
    repetitions: suite.Repetitions = None,
    temperature: suite.Temperature = None,
    budget: suite.Budget = None,
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
    """Score one prompt on one task set, or compare several systems on a suite: success with interval, calls,
    tokens, dollars, time."""
    from roleagent_lite.cli.job import finish, watched

    given = {
        "source": source, "config": config, "sets": sets, "prompt": prompt, "trust": trust, "split": split,
        "systems": systems, "repetitions": repetitions, "temperature": temperature, "budget": budget,
        "resume": resume, "replay": replay,
    }  # fmt: skip
    path, settings, how = asked(run, runs, flags, given, limit)
    with watched("eval", path, settings, how.get("suite")) as screen:
        from roleagent_lite.jobs import evaluate, evaluate_suite

        if "suite" in how:
            screen.plan(suite.episodes(how["suite"]))
            evaluate_suite(how.pop("suite"), settings, run_dir=path, listener=screen.listen, **how)
        else:
            evaluate(settings, run_dir=path, listener=screen.listen, **how)
    finish(path, json)
