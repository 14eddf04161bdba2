"""Flags shared by commands, and how flags become a RunConfig.

Owns names and help texts of the flags and the reading of `--set key=value`. Leaves out defaults and ranges:
those are config's, and a flag that is not given says nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from roleagent_lite.config import RunConfig

_MODELS, _SPEND, _JOB = "Models", "Spending and speed", "The job"


def _run_name(name: str | None) -> str | None:
    from roleagent_lite.store import run_name

    return None if name is None else run_name(name)


# What a flag leaves open is the config's default; the texts name it, and a test holds the two together.
Name = Annotated[
    str | None,
    typer.Option(
        "--run",
        help="Name of the run; the same name resumes it.",
        show_default="the job and a number",
        callback=_run_name,
    ),
]
Runs = Annotated[Path, typer.Option("--runs", help="Folder that holds the runs.")]
Config = Annotated[Path | None, typer.Option("--config", help="Settings as TOML; flags win over it.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other setting, such as wia.gamma=0.9 (repeatable)."),
]
Tasks = Annotated[
    str | None,
    typer.Option("--tasks", help="A shipped task set or a JSONL file.", show_default="household-easy"),
]
Env = Annotated[
    str | None,
    typer.Option("--env", help="An environment, module:Class or gym:ID: its tasks, or --tasks played in it."),
]
Agent = Annotated[
    str | None,
    typer.Option(
        "--agent",
        help="generate, choose, choose-pmi, auto, random, or your own module:Callable.",
        show_default="auto",
    ),
]
Prompts = Annotated[
    str | None,
    typer.Option(
        "--prompts",
        help="Shipped prompt version or your own folder.",
        show_default="v1, embedded for the embedded model",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", help="Seed of what is drawn: tasks, parents, agent random.", show_default="0"),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="embedded, embedded:FILE.gguf, or a provider's name such as openai/gpt-5-mini.",
        show_default="embedded",
    ),
]
Adapter = Annotated[
    Path | None,
    typer.Option(
        "--adapter",
        help="A LoRA file beside the agent's embedded model (see distill --export).",
        show_default="none",
    ),
]
_SAME = "--model"
AgentModel = Annotated[
    str | None, typer.Option("--agent-model", help="Model that plays.", show_default=_SAME)
]
WorldModel = Annotated[
    str | None,
    typer.Option("--world-model", help="Model that diagnoses and retrieves.", show_default=_SAME),
]
ReflectorModel = Annotated[
    str | None, typer.Option("--reflector-model", help="Model that rewrites prompts.", show_default=_SAME)
]
JudgeModel = Annotated[
    str | None,
    typer.Option("--judge-model", help="Model that judges, where asked to.", show_default=_SAME),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        help="An OpenAI-compatible server, such as http://127.0.0.1:11434/v1.",
        show_default="the provider's",
    ),
]
KeyEnv = Annotated[
    str | None,
    typer.Option("--api-key-env", help="Variable that holds the key.", show_default="the provider's"),
]
MaxUsd = Annotated[
    float | None,
    typer.Option("--max-usd", help="Stop before all roles together cost more.", show_default="no cap"),
]
MaxCalls = Annotated[
    int | None,
    typer.Option("--max-calls", help="Stop after so many calls of all roles.", show_default="no cap"),
]
Price = Annotated[
    str | None,
    typer.Option(
        "--price",
        metavar="IN/OUT",
        help="Dollars per million tokens, where not known.",
        show_default="the price list's",
    ),
]
Rpm = Annotated[int | None, typer.Option("--rpm", help="Calls a minute at most.", show_default="no limit")]
Tpm = Annotated[int | None, typer.Option("--tpm", help="Tokens a minute at most.", show_default="no limit")]
Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Episodes played at once.", show_default="8, 4 for the embedded model"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, nothing else.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Name of a run (see `runs`) or its folder.")]

# Flags that set something in the config: which commands take them is said by `taking`.
FLAGS: dict[str, Any] = {
    "model": Model,
    "adapter": Adapter,
    "agent_model": AgentModel,
    "world_model": WorldModel,
    "reflector_model": ReflectorModel,
    "judge_model": JudgeModel,
    "env": Env,
    "tasks": Tasks,
    "agent": Agent,
    "prompts": Prompts,
    "seed": Seed,
    "base_url": BaseUrl,
    "api_key_env": KeyEnv,
    "max_usd": MaxUsd,
    "max_calls": MaxCalls,
    "price": Price,
    "rpm": Rpm,
    "tpm": Tpm,
    "workers": Workers,
}


def taking(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of FLAGS, but for those named, where its parameter `flags` stands.

    The command gets them as one dict `flags`, by name; None = not given.
    """
    return handing("flags", {name: option for name, option in FLAGS.items() if name not in without})


def handing(place: str, options: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command `options` (annotations by name) where its parameter `place` stands, as one dict by
    name; None = not given."""

    def give(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        given = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
            for name, option in options.items()
        ]
        parts: list[inspect.Parameter] = []
        for one in own.parameters.values():
            parts += given if one.name == place else [one.replace(kind=inspect.Parameter.KEYWORD_ONLY)]

        @wraps(command)
        def run(**values: Any) -> None:
            command(**{place: {name: values.pop(name, None) for name in options}}, **values)

        run.__dict__["__signature__"] = own.replace(parameters=parts)
        run.__annotations__ = {one.name: one.annotation for one in parts}
        return run

    return give


# Where each flag lands in the config.
_PLACES = {
    "model": ("model",),
    "agent_model": ("models", "agent"),
    "world_model": ("models", "world"),
    "reflector_model": ("models", "reflector"),
    "judge_model": ("models", "judge"),
    "tasks": ("tasks",),
    "agent": ("agent",),
    "prompts": ("prompts",),
    "seed": ("seed",),
    "workers": ("workers",),
    "rounds": ("evolve", "rounds"),
    "max_usd": ("budget", "max_usd"),
    "max_calls": ("budget", "max_calls"),
    "price": ("budget", "price"),
    "rpm": ("limits", "rpm"),
    "tpm": ("limits", "tpm"),
    "base_url": ("limits", "base_url"),
    "api_key_env": ("limits", "api_key_env"),
    "replay": ("limits", "replay"),
}


OWN_TASKS = "own_tasks.jsonl"  # in the run's folder: what --env was played on


def own_tasks(flags: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """`flags` with `--env` made into a task file in the run's folder `path`. Raises ConfigError."""
    rest = {name: value for name, value in flags.items() if name != "env"}
    if flags.get("env") is None:
        return rest
    from roleagent_lite.envs.own import write_tasks

    return {**rest, "tasks": str(write_tasks(flags["env"], path / OWN_TASKS, flags.get("tasks")))}


def _put(into: dict[str, Any], place: Sequence[str], value: Any) -> None:
    for part in place[:-1]:
        into = into.setdefault(part, {})
    into[place[-1]] = value


def parse_sets(pairs: Sequence[str]) -> dict[str, Any]:
    """`["wia.gamma=0.9"]` as nested tables. Values are read as TOML where they are, else as text.

    Raises ConfigError for a pair without `=`, without a key, or that puts a value where a table stands.
    """
    from roleagent_lite.config import parse_toml
    from roleagent_lite.errors import ConfigError

    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, raw = pair.partition("=")
        parts = [p.strip() for p in key.split(".")]
        if not equals or not all(parts):
            raise ConfigError(f"--set takes KEY=VALUE, found '{pair}'; for example --set wia.gamma=0.9")
        try:
            value: Any = parse_toml(f"x = {raw}")["x"]
        except ValueError:
            value = raw
        try:
            _put(values, parts, value)
        except (TypeError, AttributeError):
            raise ConfigError(f"--set {pair}: '{parts[0]}' was given a plain value before") from None
    return values


def nested(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags that were given (not None), each at its place in the config. KeyError: a name with no place.

    `adapter` has none: it becomes part of the agent's model string (`with_adapter`).
    """
    values: dict[str, Any] = {}
    for name, value in flags.items():
        if value is not None and name != "adapter":
            _put(values, _PLACES[name], value)
    return values


def resolve(config_file: Path | None, sets: Sequence[str] | None, flags: Mapping[str, Any]) -> RunConfig:
    """File, then `--set`, then flags: the later wins. Raises ConfigError; registers secrets inside URLs."""
    from roleagent_lite.config import load, merge
    from roleagent_lite.redact import register_url

    register_url(flags.get("base_url"))
    config = load(config_file, merge(parse_sets(sets or ()), nested(flags)))
    register_url(config.limits.base_url)
    return with_adapter(config, flags.get("adapter"))


def with_adapter(config: RunConfig, adapter: Path | None) -> RunConfig:
    """`config` with the LoRA file `adapter` beside the agent's model, in place of one that is there.

    The other roles play without it: it was trained as the agent. Raises ConfigError where the agent's model
    is not an embedded one, or the file is none that llama.cpp reads.
    """
    if adapter is None:
        return config
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.lm.weights import check_adapter, is_embedded, split_adapter

    model = config.model_for("agent")
    if not is_embedded(model):
        raise ConfigError(
            f"--adapter is for the embedded model, and the agent's is '{model}'; a served model loads its "
            "adapter itself (export `ollama` or `merged`)"
        )
    path = check_adapter(adapter.expanduser()).resolve()
    models = config.models.model_copy(update={"agent": f"{split_adapter(model)[0]}+{path}"})
    return config.model_copy(update={"models": models})
