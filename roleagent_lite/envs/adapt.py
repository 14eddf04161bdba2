"""Reads what a stranger's environment returns and gives it the protocol's shape.

Owns the tolerance: observations as plain text, gym's 4- and 5-tuples, a dict with the right keys. What
cannot be read for sure is an EnvironmentFault that states the expected shape. Leaves out exceptions raised
inside the environment, which pass through to the rollout.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Any

from roleagent_lite.config import brief
from roleagent_lite.errors import EnvironmentFault
from roleagent_lite.types import Environment, Observation, Task, Transition

EXPECTED = (
    "step(action) must return roleagent_lite.types.Transition(observation, reward, done), where observation "
    "is an Observation(text, admissible, state_key) or a text; also read are the tuples "
    "(observation, reward, done), (observation, reward, done, info) and "
    "(observation, reward, terminated, truncated, info)"
)
_ADMISSIBLE = ("admissible", "admissible_commands", "available_actions")


def _flag(value: Any) -> bool | None:
    """True or False for a bool, numpy's included; None for anything else."""
    if isinstance(value, bool):
        return value
    return bool(value) if type(value).__name__ in ("bool", "bool_") else None


def _number(value: Any) -> float | None:
    """A finite number, numpy's included; None for anything else."""
    if isinstance(value, bool):
        return float(value)
    if not hasattr(value, "__float__") or isinstance(value, str) or getattr(value, "shape", ()) != ():
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def describe(value: Any) -> str:
    """What came back, in words: type, and for tuples and dicts what is in them."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)} ({', '.join(type(v).__name__ for v in value)})"[:200]
    if isinstance(value, Mapping):
        return f"a dict with the keys {', '.join(map(str, value)) or '(none)'}"[:200]
    if inspect.iscoroutine(value):
        value.close()  # nothing will await it
        return f"a coroutine: {value.__name__}() is async, but an environment's methods are plain functions"
    return f"{type(value).__name__} {brief(value)}"[:200]


def _actions(value: Any) -> tuple[str, ...] | None:
    """Actions in a list, a tuple, an array of numpy's, or a set (which has no order of its own: sorted)."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple | Set) and all(isinstance(v, str) for v in value):
        texts = [str(v) for v in value]  # numpy's texts become plain ones
        return tuple(sorted(texts) if isinstance(value, Set) else texts)
    return None


def _state(value: Any) -> str | None:
    """A state key as a text: numbers and tuples of them are written out. None for None and for the rest."""
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, bool | int | float | tuple | bytes | frozenset):
        return repr(sorted(value, key=repr) if isinstance(value, frozenset) else value)
    return None


def read_observation(value: Any, info: Mapping[Any, Any] | None = None) -> Observation:
    """An Observation, a text, or a dict with `text` or `observation`. Raises EnvironmentFault."""
    extra = info or {}
    if isinstance(value, Observation):
        actions = _actions(value.admissible)
        if not isinstance(value.text, str) or actions is None:
            raise EnvironmentFault(
                f"Observation needs a text and a tuple of texts, found {type(value.text).__name__} and "
                f"{describe(value.admissible)}"
            )
        state = _state(value.state_key)
        if state is None and value.state_key is not None:
            raise EnvironmentFault(
                f"Observation needs a text, a number, a tuple or None as state_key, found "
                f"{describe(value.state_key)}"
            )
        return replace(value, text=str(value.text), admissible=actions, state_key=state)
    if isinstance(value, Mapping):
        text = value.get("text", value.get("observation"))
        extra = {**extra, **value}
    else:
        text = value
    if not isinstance(text, str):
        raise EnvironmentFault(f"no observation text: found {describe(value)}. {EXPECTED}")
    admissible = next((a for key in _ADMISSIBLE if (a := _actions(extra.get(key))) is not None), ())
    return Observation(str(text), admissible, _state(extra.get("state_key")))


def _from_parts(parts: tuple[Any, ...], shown: Any) -> Transition:
    """(observation, reward, done, truncated, info) read with care."""
    observation, reward, done, truncated, info = parts
    number, ended, cut = _number(reward), _flag(done), _flag(truncated)
    if number is None or ended is None or cut is None or not isinstance(info, Mapping):
        odd = isinstance(reward, float) and not math.isfinite(reward)
        why = f" with the reward {reward}, which is no number" if odd else ""
        raise EnvironmentFault(f"step() returned {describe(shown)}{why}. {EXPECTED}")
    valid = _flag(info.get("valid", True))
    return Transition(read_observation(observation, info), number, ended or cut, valid is not False)


def read_transition(value: Any) -> Transition:
    """A Transition, or what says the same for sure. Raises EnvironmentFault that states the expected shape.

    Truncation by the environment itself ends the episode like `done`: it will not go on.
    """
    if isinstance(value, Transition):
        checked = _from_parts((value.observation, value.reward, value.done, False, {}), value)
        return Transition(checked.observation, checked.reward, checked.done, bool(value.valid))
    if isinstance(value, tuple) and len(value) in (3, 4, 5):
        if len(value) == 5:
            return _from_parts(value, value)
        info = value[3] if len(value) == 4 else {}
        return _from_parts((*value[:3], False, info), value)
    if isinstance(value, Mapping) and {"observation", "reward", "done"} <= set(value):
        return _from_parts((value["observation"], value["reward"], value["done"], False, value), value)
    raise EnvironmentFault(f"step() returned {describe(value)}. {EXPECTED}")


def read_reset(inner: Any, task: Task) -> Observation:
    """Gym's way: reset() gives the first one, alone or with an info dict. The seed is passed if taken."""
    parameters = inspect.signature(inner.reset).parameters.values()
    takes_seed = any(p.name == "seed" or p.kind is p.VAR_KEYWORD for p in parameters)
    first = inner.reset(seed=task.seed) if takes_seed else inner.reset()
    if isinstance(first, tuple) and len(first) == 2 and isinstance(first[1], Mapping):
        return read_observation(first[0], first[1])
    return read_observation(first)


class Adapted:
    """A stranger's environment behind the protocol; anything else it offers is passed through."""

    def __init__(self, inner: Any, task: Task) -> None:
        self.inner = inner
        if not hasattr(inner, "observe"):
            self._last = read_reset(inner, task)

    def observe(self) -> Observation:
        if hasattr(self.inner, "observe"):
            return read_observation(self.inner.observe())
        return self._last

    def step(self, action: str) -> Transition:
        moved = read_transition(self.inner.step(action))
        self._last = moved.observation
        return moved

    def score(self) -> float:
        value = self.inner.score()
        number = _number(value)
        if number is None or not 0.0 <= number <= 1.0:
            raise EnvironmentFault(f"score() must return a number from 0 to 1, found {describe(value)}")
        return number

    def close(self) -> None:
        if hasattr(self.inner, "close"):
            self.inner.close()

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def adapt(factory: Callable[[Task], Any], task: Task, name: str) -> Environment:
    """Makes the environment of a task. Raises EnvironmentFault where it lacks a method of the protocol."""
    inner = factory(task)
    missing = [m for m in ("step", "score") if not callable(getattr(inner, m, None))]
    if not callable(getattr(inner, "observe", None)) and not callable(getattr(inner, "reset", None)):
        missing.insert(0, "observe")
    if missing:
        needed = ", ".join(method + "()" for method in missing)
        raise EnvironmentFault(
            f"environment {name} made {type(inner).__name__}, which lacks {needed}; an environment has "
            "observe(), step(action) and score(), and close() if there is something to release"
        )
    return Adapted(inner, task)
