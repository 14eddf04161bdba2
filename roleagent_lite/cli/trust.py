"""What may run code or be sent a key here, and who has to have named it.

The rule: Python code runs, and a server is called, only where the user named it. A module named on the
command line or in the user's own settings or task file runs, and is told before it is imported. A run
directory names such things too (its settings and task file); `--resume`, `--replay` and `eval RUN` follow
them only if these very settings were begun by this user on this machine, else after `--trust`. `show`,
`runs`, `export` and `share` never import or call anything that a run names.

Owns the rule, its words and the list of settings begun here, which lies outside all runs
($XDG_STATE_HOME/roleagent-lite/begun, hashes alone). Leaves out the import itself (registry, external).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from roleagent_lite.config import RunConfig
    from roleagent_lite.evals.suite import Suite

Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Run code and call servers that a run begun elsewhere names in its settings."
    ),
]


def _list() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path("~/.local/state").expanduser()) / "roleagent-lite" / "begun"


def _digest(run: Path) -> str:
    return hashlib.sha256((run / "config.toml").read_bytes()).hexdigest()


def remember(run: Path) -> None:
    """Note that the settings of the run at `run` were begun here. Without a place to note it nothing happens,
    and a later resume asks for --trust."""
    with contextlib.suppress(OSError):
        if not begun_here(run):
            _list().parent.mkdir(parents=True, exist_ok=True)
            with _list().open("a", encoding="ascii") as file:
                file.write(_digest(run) + "\n")


def begun_here(run: Path) -> bool:
    """Whether these very settings were begun by this user on this machine."""
    try:
        return _digest(run) in _list().read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return False


def code_of(config: RunConfig, suite: Suite | None = None) -> list[str]:
    """What Python code the settings name, in words: the agent, a suite's systems, the environments of the
    task files, and games that the original engine would evaluate. Imports none of it."""
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.tasksets import load_tasks

    found = [f"the agent {config.agent}"] if ":" in config.agent else []
    if suite is not None:
        own = [name for name in suite.systems if ":" in name and not name.startswith("role-agent:")]
        found += [f"the system {name}" for name in own]
    for file in [config.tasks] if suite is None else [one.tasks for one in suite.sets]:
        try:
            tasks = load_tasks(file)
        except ConfigError:  # the job says so itself, in its place
            continue
        for env in sorted({t.env for t in tasks}):
            games = any(t.env == env and "game" in t.params for t in tasks)
            if ":" in env and (env != "household:alfworld" or games):
                found.append(f"the environment {env} (named in {file})")
    return found


def servers_of(config: RunConfig) -> list[str]:
    """Servers, variables with keys and model files that the settings name, in words, without secrets."""
    from roleagent_lite.lm.address import shown

    texts = [
        config.model,
        *(m for m in config.models.model_dump().values() if m),
        config.limits.base_url or "",
    ]
    urls = sorted({url for text in texts for url in re.findall(r"https?://\S+", text)})
    found = [f"the server {shown(url)}" for url in urls]
    if config.limits.base_url and not urls:
        found.append(f"the server {shown(config.limits.base_url)}")
    found += sorted(
        {
            f"the model {text.removeprefix('embedded').lstrip(':+')}"
            for text in texts
            if text.startswith(("embedded:", "embedded+"))
        }
    )
    if config.aiw.embedder.startswith("hf:"):
        found.append(f"the embedder {config.aiw.embedder}")
    return found + ([f"the key in {config.limits.api_key_env}"] if config.limits.api_key_env else [])


def follow(config: RunConfig, suite: Suite | None = None) -> None:
    """Lets the MCP environments of the task files be used: this run was begun here, or is trusted."""
    from roleagent_lite.envs.mcp import allow
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.tasksets import load_tasks

    for file in [config.tasks] if suite is None else [one.tasks for one in suite.sets]:
        with contextlib.suppress(ConfigError):  # the job says so itself, in its place
            for env in {task.env for task in load_tasks(file)}:
                allow(env)


def vet(run: Path, flags: Mapping[str, Any], trusted: bool) -> None:
    """Raises ConfigError where the run at `run`, begun elsewhere, names code or servers and is not trusted.

    flags: what the command line itself names; it counts as the user's word.
    """
    from roleagent_lite.cli.suite import of_run
    from roleagent_lite.config import load
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.redact import register_url

    config = load(run / "config.toml")
    if trusted or begun_here(run):
        follow(config, of_run(run))
        return
    for url in (config.limits.base_url, config.model, *config.models.model_dump().values()):
        register_url(url)
    own = {name: flags[name] for name in ("agent", "model", "tasks") if flags.get(name) is not None}
    limits = {name: flags[name] for name in ("base_url", "api_key_env") if flags.get(name) is not None}
    config = config.model_copy(update={**own, "limits": config.limits.model_copy(update=limits)})
    named = [w for w in code_of(config, of_run(run)) if not (own.get("agent") and w.startswith("the agent"))]
    named = [w for w in named if not (own.get("tasks") and w.startswith("the environment"))]
    named += [
        w for w in servers_of(config) if not (limits and "base_url" in limits and w.startswith("the server"))
    ]
    if named:
        raise ConfigError(
            f"run {run} was not begun by you on this machine, and its settings name {'; '.join(named)}. "
            f"Look at {run / 'config.toml'}; if you trust whoever made the run, add --trust"
        )


_NO_CODE = tuple(  # they read files or ask a server
    f"the environment {start}"
    for start in ("webshop:", "search:", "appworld:", "mcp:http://", "mcp:https://")
)


def announce(config: RunConfig, tell: Callable[[str], None], suite: Suite | None = None) -> None:
    """Tell the user what code of others is about to be imported, before it is."""
    found = [words for words in code_of(config, suite) if not words.startswith(_NO_CODE)]
    if found:
        tell(f"runs Python code: {'; '.join(found)}")
