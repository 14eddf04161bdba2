"""`roleagent-lite eval`: one prompt set on one task set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roleagent_lite.cli import settings as flag

if TYPE_CHECKING:
    from roleagent_lite.config import RunConfig

PROMPT = "prompt.json"  # the final prompt of the run that is scored, kept beside its tables
From = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="Score the final prompt of this run, with its settings."),
]
Prompt = Annotated[Path | None, typer.Option("--prompt", help="Score your own prompt: text, TOML or JSON.")]
Split = Annotated[str, typer.Option("--split", help="train, dev or test.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many tasks.")]
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
    target.mkdir(parents=True, exist_ok=True)
    file = target / PROMPT
    file.write_text(texts, encoding="utf-8")
    return config, file


def fresh(
    name: str | None, runs: Path, flags: dict[str, Any], given: dict[str, Any], split: str, limit: int | None
) -> tuple[Path, RunConfig, dict[str, Any]]:
    """Directory, settings and what `jobs.evaluate` is to play. Raises ConfigError for flags that clash."""
    from roleagent_lite.cli.output import find_run, next_name
    from roleagent_lite.errors import ConfigError

    how: dict[str, Any] = {"split": split, "limit": limit}
    path, source, prompt = runs / (name or next_name("eval", runs)), given["source"], given["prompt"]
    if source is not None:
        if prompt is not None or flags["prompts"] is not None or given["config"] is not None:
            raise ConfigError(
                f"RUN '{source}' brings prompt and settings: leave out --prompt, --prompts and --config"
            )
        settings, file = of_run(find_run(source, runs), path, given["sets"], flag.own_tasks(flags, path))
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
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.store import Run

    if flags.get("env") is not None:
        raise ConfigError("--resume plays the run's own tasks: leave out --env")
    if given["source"] is not None or given["config"] is not None or given["prompt"] is not None:
        raise ConfigError(
            "--resume uses the run's own prompt and settings: leave out RUN, --prompt, --config"
        )
    path = to_resume(name, runs, "eval")
    with Run.open(path) as run:
        known = list(splits_of(run).items())
    how: dict[str, Any] = dict(zip(("split", "limit"), known[0] if known else ("test", None), strict=True))
    if (path / PROMPT).is_file():
        how["prompt_file"] = path / PROMPT
    return path, flag.resolve(path / "config.toml", given["sets"], flags), how


def command(
    source: From = None,
    run: flag.Name = None,
    model: flag.Model = None,
    env: flag.Env = None,
    tasks: flag.Tasks = None,
    split: Split = "test",
    limit: Limit = None,
    agent: flag.Agent = None,
    prompt: Prompt = None,
    prompts: flag.Prompts = None,
    seed: flag.Seed = None,
    base_url: flag.BaseUrl = None,
    api_key_env: flag.KeyEnv = None,
    max_usd: flag.MaxUsd = None,
    max_calls: flag.MaxCalls = None,
    price: flag.Price = None,
    rpm: flag.Rpm = None,
    tpm: flag.Tpm = None,
    workers: flag.Workers = None,
    resume: Resume = False,
    config: flag.Config = None,
    sets: flag.Sets = None,
    runs: flag.Runs = Path("runs"),
    json: flag.AsJson = False,
) -> None:
    """Score one prompt on one task set: success with interval, steps, tokens, dollars."""
    from roleagent_lite.cli.job import finish, watched
    from roleagent_lite.errors import ConfigError, nearest

    if split not in ("train", "dev", "test"):
        raise ConfigError(f"no split '{split}'{nearest(split, ('train', 'dev', 'test'))}")
    flags = {
        "model": model, "env": env, "tasks": tasks, "agent": agent, "prompts": prompts, "seed": seed,
        "base_url": base_url, "api_key_env": api_key_env, "max_usd": max_usd, "max_calls": max_calls,
        "price": price, "rpm": rpm, "tpm": tpm, "workers": workers,
    }  # fmt: skip
    given = {"source": source, "config": config, "sets": sets, "prompt": prompt}
    if resume:
        path, settings, how = resumed(run, runs, flags, given)
    else:
        path, settings, how = fresh(run, runs, flags, given, split, limit)
    with watched("eval", path, settings) as screen:
        from roleagent_lite.jobs import evaluate

        evaluate(settings, run_dir=path, listener=screen.listen, **how)
    finish(path, json)
