"""`roleagent-lite eval`: one prompt set on one task set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roleagent_lite.cli import settings as flag

if TYPE_CHECKING:
    from roleagent_lite.config import RunConfig

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
    file = target / "prompt.json"
    file.write_text(texts, encoding="utf-8")
    return config, file


def command(
    source: From = None,
    run: flag.Name = None,
    model: flag.Model = None,
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
    from roleagent_lite.cli.output import find_run, next_name
    from roleagent_lite.errors import ConfigError, nearest

    if split not in ("train", "dev", "test"):
        raise ConfigError(f"no split '{split}'{nearest(split, ('train', 'dev', 'test'))}")
    flags = {
        "model": model, "tasks": tasks, "agent": agent, "prompts": prompts, "seed": seed,
        "base_url": base_url, "api_key_env": api_key_env, "max_usd": max_usd, "max_calls": max_calls,
        "price": price, "rpm": rpm, "tpm": tpm, "workers": workers,
    }  # fmt: skip
    if source is not None and (prompt is not None or prompts is not None or config is not None):
        raise ConfigError(
            f"RUN '{source}' brings prompt and settings: leave out --prompt, --prompts, --config"
        )
    path = find_run(run, runs) if resume and run else runs / (run or next_name("eval", runs))
    if source is not None:
        settings, prompt = of_run(find_run(source, runs), path, sets, flags)
    else:
        settings = flag.resolve(path / "config.toml" if resume and run else config, sets, flags)
    with watched("eval", path, settings) as screen:
        from roleagent_lite.jobs import evaluate

        evaluate(settings, run_dir=path, prompt_file=prompt, split=split, limit=limit, listener=screen.listen)
    finish(path, json)
