"""Finds environments by name: ours, a user's by entry point, by `module:Class`, or registered in code.

Owns the list of names and the facts a rollout needs about each (steps, history, vocabulary). Leaves out what
an environment does and how a foreign one's answers are read (adapt.py).
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from roleagent_lite.envs.adapt import adapt
from roleagent_lite.errors import ConfigError, MissingExtra, nearest
from roleagent_lite.types import Environment, Task

GROUP = "roleagent_lite.environments"
DEFAULT_STEPS = 30
DEFAULT_HISTORY = 2


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """What a rollout knows about an environment.

    make: one environment for one task and one episode; max_steps: steps an episode of a task may have (> 0);
    history: past steps shown to the agent; vocabulary: the actions in words, for agents without a list of
    admissible ones; facts: whether `facts()` gives the true state; snapshots: whether `snapshot()` and
    `restore()` exist; failure_modes: name -> when it applies, what a diagnosis may call a failure (empty: the
    shipped vocabulary of the environment's name, else the general one); tasks: its own tasks, if it brings
    any; task_set: the shipped set that stands for them; wants: what a line of a task file has to hold, where
    nothing can be played without one; row: makes a task row of a foreign one (a question, say); goal: what
    its tasks are about, where they differ by seed alone; blocking: whether a step may take so long (a
    process, a network) that it has to run in a thread; shown: tokens that a step shows an agent (goal, last
    steps, observation, actions), for estimates; lists: whether it names actions to choose among; ready:
    raises in words what is to be installed, fetched or started before an episode can begin; check: raises
    ConfigError for a task whose params it cannot play, without making an episode.
    """

    name: str
    make: Callable[[Task], Environment]
    max_steps: Callable[[Task], int]
    history: int = DEFAULT_HISTORY
    vocabulary: str = ""
    facts: bool = False
    snapshots: bool = False
    failure_modes: Mapping[str, str] = field(default_factory=dict)
    tasks: Callable[[], Iterable[Any]] | None = None
    row: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    goal: str = ""
    blocking: bool = False
    shown: int = 200
    lists: bool = True
    task_set: str = ""
    wants: str = ""
    ready: Callable[[], object] | None = None
    check: Callable[[Task], object] | None = None


def _household() -> EnvSpec:
    from roleagent_lite.envs.household import env

    return EnvSpec(
        "household", env.Household, env.limit, 2, env.VOCABULARY, True, True, task_set="household-easy",
        check=env.check,
    )  # fmt: skip


def _alfworld() -> EnvSpec:
    from roleagent_lite.envs.household import env, original

    return EnvSpec(
        "household:alfworld", original.Original, env.limit, 2, env.VOCABULARY, True,
        task_set="household-easy", ready=original.logic_texts, check=env.check,
    )  # fmt: skip


def _gym(name: str) -> EnvSpec:
    from roleagent_lite.envs import gymnasium as gym

    return EnvSpec(
        name, partial(gym.Gym, name), partial(gym.limit, name), ready=partial(gym.known, name),
        check=gym.made_with,
    )  # fmt: skip


def _webshop(name: str = "webshop") -> EnvSpec:
    from roleagent_lite.envs.webshop import env

    own = name != "webshop"
    return EnvSpec(
        name, partial(env.WebShop, name), env.limit, 2, env.VOCABULARY, True, True,
        tasks=partial(env.sessions, name) if own else None, task_set="" if own else "webshop",
        ready=partial(env.files_of, name) if own else None, check=env.check, shown=500,
    )  # fmt: skip


def _search(name: str = "search") -> EnvSpec:
    from roleagent_lite.envs.search import env

    return EnvSpec(
        name, partial(env.Search, name), env.limit, 4, env.VOCABULARY, True, True, row=env.row,
        blocking="//" in name, task_set="search" if name == "search" else "", wants=env.WANTS,
        ready=partial(env.ready, name), check=env.asked, shown=400, lists=False,
    )  # fmt: skip


def _tools() -> EnvSpec:
    from roleagent_lite.envs.tools import apis, env, taskset

    return EnvSpec(
        "tools", env.Tools, env.limit, env.HISTORY, env.VOCABULARY, True, True, tasks=taskset.rows,
        ready=apis.ready, check=env.entry_of, shown=1900,
    )  # fmt: skip


def _shell() -> EnvSpec:
    from roleagent_lite.envs.shell import env, sandbox

    return EnvSpec(
        "shell", env.Shell, env.limit, 4, env.VOCABULARY, True, True, goal=env.GOAL, blocking=True,
        task_set="shell", ready=sandbox.bashkit, check=env.fault_of, shown=500, lists=False,
    )  # fmt: skip


def _scienceworld() -> EnvSpec:
    from roleagent_lite.envs import jvm
    from roleagent_lite.envs import scienceworld as sw

    return EnvSpec(
        "scienceworld", sw.ScienceWorld, sw.limit, 2, sw.VOCABULARY, True, blocking=True,
        task_set="scienceworld", ready=partial(jvm.ready, sw.ENGINE), check=sw.check, shown=300, lists=False,
    )  # fmt: skip


def _textworld_express() -> EnvSpec:
    from roleagent_lite.envs import jvm
    from roleagent_lite.envs import textworld_express as twx

    return EnvSpec(
        "textworld-express", twx.TextWorldExpress, twx.limit, 2, twx.VOCABULARY, True, blocking=True,
        task_set="textworld-express", ready=partial(jvm.ready, twx.ENGINE), check=twx.check, shown=300,
    )  # fmt: skip


def _mcp(name: str) -> EnvSpec:
    from roleagent_lite.envs import mcp

    return EnvSpec(
        name, partial(mcp.Tools, name), mcp.limit, 4, mcp.VOCABULARY, blocking=True, wants=mcp.WANTS,
        ready=partial(mcp.ready, name), check=mcp.texts_of, lists=False,
    )  # fmt: skip


def _verifiers(name: str) -> EnvSpec:
    from roleagent_lite.envs import verifiers as vf

    return EnvSpec(
        name, partial(vf.Classic, name), partial(vf.limit, name), 4, vf.VOCABULARY, blocking=True,
        tasks=partial(vf.rows, name), ready=partial(vf.library, name), lists=False,
    )  # fmt: skip


def _appworld(name: str = "appworld") -> EnvSpec:
    from roleagent_lite.envs import appworld

    return EnvSpec(
        name, partial(appworld.AppWorld, name), appworld.limit, 4, appworld.VOCABULARY, blocking=True,
        row=partial(appworld.row, name), wants=appworld.WANTS, ready=partial(appworld.ready, name),
        check=appworld.id_of, lists=False,
    )  # fmt: skip


_OWN: Mapping[str, Callable[[], EnvSpec]] = {
    "household": _household,
    "household:alfworld": _alfworld,
    "webshop": _webshop,
    "search": _search,
    "shell": _shell,
    "tools": _tools,
    "scienceworld": _scienceworld,
    "textworld-express": _textworld_express,
    "appworld": _appworld,
}
_FAMILIES: Mapping[str, Callable[[str], EnvSpec]] = {  # what follows the colon is theirs
    "appworld:": _appworld,
    "gym:": _gym,
    "mcp:": _mcp,
    "verifiers:": _verifiers,
    "webshop:": _webshop,
    "search:": _search,
}
_registered: dict[str, EnvSpec] = {}


def _steps(factory: Any, name: str) -> Callable[[Task], int]:
    """`max_steps` of a user's class: a number, a function of the task, or 30."""
    given = getattr(factory, "max_steps", DEFAULT_STEPS)

    def steps(task: Task) -> int:
        value = given(task) if callable(given) else given
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(
                f"environment {name}: max_steps must be a positive whole number, found {value!r}"
            )
        return value

    return steps


def spec_of(name: str, factory: Callable[[Task], Any]) -> EnvSpec:
    """The spec of a user's class or function: its attributes max_steps, history, vocabulary and
    failure_modes, if any."""
    if not callable(factory):
        raise ConfigError(
            f"environment {name} is {type(factory).__name__}, not a class or function that takes a Task"
        )
    return EnvSpec(
        name,
        lambda task: adapt(factory, task, name),
        _steps(factory, name),
        int(getattr(factory, "history", DEFAULT_HISTORY)),
        str(getattr(factory, "vocabulary", "")),
        facts=hasattr(factory, "facts"),
        snapshots=hasattr(factory, "snapshot") and hasattr(factory, "restore"),
        failure_modes=getattr(factory, "failure_modes", {}),
        tasks=getattr(factory, "tasks", None),
        goal=str(getattr(factory, "goal", "")),
        blocking=bool(getattr(factory, "blocking", False)),
    )


def register(spec: EnvSpec) -> None:
    """Makes an environment known under `spec.name`; a name of ours is refused, one's own is replaced."""
    if spec.name in _OWN:
        raise ConfigError(f"the environment name '{spec.name}' is taken; choose another")
    _registered[spec.name] = spec


def _entry_points() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=GROUP)}


def known() -> list[str]:
    """Names that `spec` finds without an import path, sorted."""
    return sorted({*_OWN, *_registered, *_entry_points()})


def _import(module: str) -> Any:
    """Imports a module, also from the current directory, and leaves that directory importable."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except Exception as error:  # border: a stranger's module
        missing = isinstance(error, ModuleNotFoundError) and error.name == module.split(".")[0]
        why = "no such module, neither installed nor in" if missing else f"it raised {error!r} when imported;"
        raise ConfigError(f"cannot import environment module '{module}': {why} {here}") from error
    finally:
        sys.path.remove(here)
        if here not in sys.path:
            sys.path.append(here)


def load_factory(path: str) -> Any:
    """What `module:Name` points at. Raises ConfigError that says which half is wrong."""
    module_name, _, attribute = path.partition(":")
    module = _import(module_name)
    if not hasattr(module, attribute):
        names = [n for n in vars(module) if not n.startswith("_")]
        raise ConfigError(f"module '{module_name}' has no '{attribute}'{nearest(attribute, names)}")
    return getattr(module, attribute)


def _is_path(name: str) -> bool:
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(p.isidentifier() for p in module.split("."))


def spec(name: str) -> EnvSpec:
    """The spec of an environment by name or `module:Class`. Raises ConfigError with the nearest name."""
    if name in _OWN:
        return _OWN[name]()
    if name in _registered:
        return _registered[name]
    family = next((make for prefix, make in _FAMILIES.items() if name.startswith(prefix)), None)
    point = _entry_points().get(name)
    if family is not None:
        found = family(name)
    elif point is not None:
        found = spec_of(name, load_factory(point.value))
    elif _is_path(name):
        found = spec_of(name, load_factory(name))
    else:
        raise ConfigError(
            f"no environment '{name}'{nearest(name, known())}; your own is given as module:Class"
        )
    _registered[name] = found
    return found


def _ours(name: str) -> bool:
    """Whether `spec` finds it without importing what a user named."""
    return name in _OWN or name.startswith(tuple(_FAMILIES))


def reserved(module: str) -> bool:
    """Whether `module:Class` is read as one of our worlds, and so can be no class of a user's."""
    return f"{module}:" in _FAMILIES


def listed(tasks: Iterable[Task]) -> bool:
    """Whether every world of `tasks` lists actions to choose among. Of a user's own it is taken to be so:
    nothing of it is imported for this."""
    return all(spec(name).lists for name in {task.env for task in tasks} if _ours(name))


def check(task: Task) -> None:
    """Raises ConfigError where one of our worlds cannot play `task` by its params or step limit. Of a user's
    own world nothing is asked, for that would import it; nor where a package is missing (see `ready`)."""
    if not _ours(task.env):
        return
    found = spec(task.env)
    if found.check is not None:
        with contextlib.suppress(MissingExtra):
            found.check(task)
            found.max_steps(task)


def ready(tasks: Iterable[Task]) -> None:
    """Raises MissingExtra, ConfigError or EnvironmentFault where a world of `tasks` cannot begin here: what
    to install, fetch, name or start. Asks each world once, and a user's own nothing."""
    for name in dict.fromkeys(task.env for task in tasks):
        look = spec(name).ready
        if look is not None:
            look()


def shown(tasks: Sequence[Task]) -> int:
    """Tokens that a step of `tasks` shows an agent, roughly, on the mean."""
    return round(sum(spec(task.env).shown for task in tasks) / max(1, len(tasks)))


def make(task: Task) -> Environment:
    """The environment of a task, for one episode. Raises ConfigError or EnvironmentFault."""
    return spec(task.env).make(task)
