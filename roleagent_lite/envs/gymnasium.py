"""`gym:ID`, `gym:MODULE:ID`: a Gymnasium environment as a text environment.

Owns how observations become text, actions names, and returns a score. Works for environments whose
observations are texts, and for those that can draw themselves as text (render mode "ansi"); actions are
texts, or a Discrete space whose members get names. Leaves out pictures and continuous actions, which are
refused in words. Needs the extra `gym`.

A task's `params`: `kwargs` (given to `gymnasium.make`), `actions` (names of a Discrete space, in order),
`success_at` (the return from which the episode counts as solved; without it the score is the return itself,
held to 0..1), `max_steps`.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from roleagent_lite.envs import params
from roleagent_lite.envs.adapt import read_observation
from roleagent_lite.errors import ConfigError, EnvironmentFault, MissingExtra
from roleagent_lite.types import Observation, Task, Transition

PREFIX = "gym:"
DEFAULT_STEPS = 30
_MARKED = re.compile(r"\x1b\[\d+m([^\x1b]*)\x1b\[0m")  # toy worlds mark where the agent stands by a colour
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtra(
            f"environments named gym:ID need gymnasium ({error}): pip install 'roleagent-lite[gym]'"
        ) from None
    return gymnasium


def made_with(task: Task) -> Mapping[str, Any]:
    """What `params.kwargs` gives to `gymnasium.make`. Raises ConfigError, for `success_at` too."""
    least = task.params.get("success_at", 0)
    if not isinstance(least, int | float) or isinstance(least, bool):
        raise ConfigError(f"task {task.id}: params.success_at must be a number, found {least!r:.60}")
    kwargs = task.params.get("kwargs") or {}
    if not isinstance(kwargs, Mapping):
        raise ConfigError(f"task {task.id}: params.kwargs must be an object, found {kwargs!r:.80}")
    return kwargs


def _make(name: str, task: Task) -> Any:
    gymnasium, found = _gymnasium(), known(name)
    kwargs = made_with(task)
    try:
        modes = _modes(found)
        drawn = {"render_mode": "ansi"} if "ansi" in modes and "render_mode" not in kwargs else {}
        return gymnasium.make(found.id, **{**drawn, **kwargs}, disable_env_checker=True)
    except gymnasium.error.Error as error:
        raise ConfigError(f"environment {name}: {error}") from None
    except (TypeError, ImportError) as error:
        raise ConfigError(f"environment {name} cannot be made with kwargs {dict(kwargs)}: {error}") from None


def _modes(spec: Any) -> Sequence[str]:
    """Render modes of an environment, read from its class without making one."""
    from gymnasium.envs.registration import load_env_creator

    creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    return tuple(getattr(creator, "metadata", {}).get("render_modes", ()))


def known(name: str) -> Any:
    """What Gymnasium knows of an environment, ID or MODULE:ID (the module registers it when it is imported).
    Raises MissingExtra, ConfigError."""
    gymnasium = _gymnasium()
    module, colon, id = name.removeprefix(PREFIX).rpartition(":")
    try:
        if colon:
            importlib.import_module(module)
        return gymnasium.spec(id)
    except gymnasium.error.Error as error:
        raise ConfigError(f"environment {name}: {error}") from None
    except Exception as error:  # border: a stranger's module
        raise ConfigError(f"environment {name}: the module {module} cannot be imported: {error}") from error


def limit(name: str, task: Task) -> int:
    """Steps of an episode: `params.max_steps`, else the environment's own limit, else 30."""
    return params.steps(task, known(name).max_episode_steps or DEFAULT_STEPS)


def plain(drawing: str) -> str:
    """A drawing without terminal colours; what stood marked stands in brackets."""
    return _ESCAPE.sub("", _MARKED.sub(r"[\1]", drawing)).strip("\n")


class Gym:
    """One episode of a Gymnasium environment. `reset(seed=task.seed)`: the same seed, the same episode."""

    def __init__(self, name: str, task: Task) -> None:
        self._env = _make(name, task)
        self._name = name
        self._success_at = task.params.get("success_at")
        self._actions = self._names(task.params.get("actions"))
        self._return = 0.0
        self._ended = False
        first, info = self._env.reset(seed=task.seed)
        self._seen = self._read(first, info)

    def _names(self, given: Any) -> tuple[str, ...]:
        """Names of a Discrete space's members, in order; none for a space of texts."""
        space = self._env.action_space
        if type(space).__name__ == "Text":
            return ()
        if type(space).__name__ != "Discrete":
            raise ConfigError(
                f"environment {self._name} acts in {space}; a text environment needs a Text or Discrete space"
            )
        inner = self._env.unwrapped
        own = getattr(inner, "action_names", None) or getattr(inner, "ACTION_NAMES", None)
        if own is None and hasattr(inner, "get_action_meanings"):
            own = inner.get_action_meanings()
        names = [str(name) for name in given or own or range(int(space.n))]
        if len(names) != int(space.n) or len(set(names)) != len(names):
            raise ConfigError(
                f"environment {self._name} has {int(space.n)} actions; params.actions names {len(set(names))}"
            )
        return tuple(names)

    def _read(self, seen: Any, info: Mapping[Any, Any]) -> Observation:
        if isinstance(seen, str) or (isinstance(seen, Mapping) and ("text" in seen or "observation" in seen)):
            found = read_observation(seen, info)
        elif self._env.render_mode == "ansi":
            found = Observation(plain(str(self._env.render())), state_key=_key(seen))
        elif isinstance(seen, Mapping):
            found = Observation(json.dumps(seen, default=str, ensure_ascii=False))
        else:
            raise EnvironmentFault(
                f"environment {self._name} shows {type(seen).__name__}, no text; give it Text observations "
                "or the render mode 'ansi'"
            )
        return Observation(found.text, found.admissible or self._open(info), found.state_key)

    def _open(self, info: Mapping[Any, Any]) -> tuple[str, ...]:
        """The admissible of the named actions: all, or those that the environment's action mask leaves."""
        mask = info.get("action_mask")
        if mask is None or len(mask) != len(self._actions):
            return self._actions
        return tuple(name for name, may in zip(self._actions, mask, strict=True) if may)

    def observe(self) -> Observation:
        return self._seen

    def step(self, action: str) -> Transition:
        if self._ended:
            return Transition(self._seen, 0.0, True, valid=False)
        if self._actions and action not in self._actions:
            return Transition(self._seen, 0.0, False, valid=False)
        before = self.score()
        raw = self._actions.index(action) if self._actions else action
        if not self._actions and not self._env.action_space.contains(raw):
            return Transition(self._seen, 0.0, False, valid=False)
        seen, reward, terminated, truncated, info = self._env.step(raw)
        self._return += float(reward)
        self._ended = bool(terminated or truncated)
        self._seen = self._read(seen, info)
        # Rewards sum to the score: with a threshold, or where the return leaves 0..1, theirs do not.
        return Transition(
            self._seen, self.score() - before, self._ended, info.get("valid", True) is not False
        )

    def score(self) -> float:
        if self._success_at is not None:
            return float(self._return >= float(self._success_at))
        return min(1.0, max(0.0, self._return))

    def close(self) -> None:
        self._env.close()


def _key(seen: Any) -> str | None:
    """A Discrete observation is the whole state; any other may leave something out."""
    return str(int(seen)) if hasattr(seen, "__index__") else None
