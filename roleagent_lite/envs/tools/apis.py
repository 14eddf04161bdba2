"""The simulated APIs of BFCL, loaded from the unpacked wheel: nothing installed, nothing put on `sys.path`.

Each file runs as a module of its own that can import what is handed to it and nothing else: a few parts of
the standard library, mpmath, BFCL's table of long texts. Clocks stand still, so that an episode is the same
on any day; mpmath's precision and decimal's stay inside. The files are checked against a SHA-256 first.
Leaves out which calls are made (calls.py) and what is compared afterwards (state.py, truth.py).
"""

from __future__ import annotations

import builtins
import copy
import datetime
import decimal
import functools
import hashlib
import inspect
import json
import math
import random
import sys
import time
import typing
from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from roleagent_lite.envs.tools.calls import Call
from roleagent_lite.envs.tools.data import CLASSES, VERSION, Entry, place
from roleagent_lite.errors import MissingExtra, RoleAgentError

_FOLDER = "eval_checker/multi_turn_eval/func_source_code"
_LONG = "long_context"
CODE_SHA256 = "2756246262ffa105b972053280856c68eeda221c34182e267dc7ced7ae8aa195"  # of all files, in order
NOW = datetime.datetime(2026, 3, 23, 12, 0)  # the day of the release
STATELESS = ("MathAPI",)
# What would keep a processor busy for minutes: arguments of MathAPI by function and place.
_MOST: Mapping[str, tuple[int, str, int]] = {
    "power": (1, "exponent", 1000),
    "logarithm": (2, "precision", 1000),
    "square_root": (1, "precision", 1000),
    "round_number": (1, "decimal_places", 1000),
}
Instances = dict[str, Any]  # class name -> object of BFCL's class


class _Clock(datetime.datetime):
    """datetime with a clock that stands still."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> _Clock:
        return cls(NOW.year, NOW.month, NOW.day, NOW.hour, tzinfo=tz)

    @classmethod
    def today(cls) -> _Clock:
        return cls.now()


class _Source(SourceLoader):
    """One checked file as a module; no compiled copy of it is read or written."""

    def __init__(self, path: Path, text: bytes) -> None:
        self._path, self._text = path, text

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: Any) -> bytes:
        if str(path) != str(self._path):
            raise OSError(f"{path} is not read")
        return self._text


def _mpmath() -> SimpleNamespace:
    """mpmath's functions with a precision of their own: theirs is the whole process's."""
    try:
        import mpmath
    except ModuleNotFoundError as error:
        if error.name != "mpmath":
            raise
        raise MissingExtra("the world `tools` needs mpmath: pip install 'roleagent-lite[tools]'") from None
    own = mpmath.MPContext()
    return SimpleNamespace(mp=own, log=own.log)


def ready() -> None:
    """Raises MissingExtra where BFCL's data or mpmath is missing."""
    place()
    _mpmath()


@functools.lru_cache(maxsize=2)
def _sources(root: Path) -> Mapping[str, bytes]:
    names = sorted([*CLASSES.values(), _LONG])
    texts = {name: (root / _FOLDER / f"{name}.py").read_bytes() for name in names}
    if hashlib.sha256(b"".join(texts.values())).hexdigest() != CODE_SHA256:
        raise RoleAgentError(
            f"the files in {root / _FOLDER} are not those of bfcl-eval {VERSION}; nothing of them was run. "
            f"Remove the folder {root.parent} and run: roleagent-lite tasks pull bfcl"
        )
    return texts


def _guests(name: str, root: Path) -> dict[str, Any]:
    clock = SimpleNamespace(
        datetime=_Clock, date=datetime.date, time=datetime.time, timedelta=datetime.timedelta
    )
    found: dict[str, Any] = {"copy": copy, "datetime": clock, "decimal": decimal, "math": math}
    found |= {"random": random, "typing": typing, "subprocess": SimpleNamespace()}  # imported, never used
    datetime.datetime.strptime("1", "%d")
    # datetime itself imports these two in the name of whoever calls it.
    found |= {"time": time, "_strptime": sys.modules["_strptime"]}
    if name == "math_api":
        found["mpmath"] = _mpmath()
    if name != _LONG:
        found[f"bfcl_eval.{_FOLDER.replace('/', '.')}.{_LONG}"] = _module(root, _LONG)
    return found


@functools.lru_cache(maxsize=32)
def _module(root: Path, name: str) -> ModuleType:
    guests = _guests(name, root)

    def give(wanted: str, *_: Any, **__: Any) -> Any:
        if wanted not in guests:
            raise ImportError(f"{name} may not import {wanted}", name=wanted)
        return guests[wanted]

    loader = _Source(root / _FOLDER / f"{name}.py", _sources(root)[name])
    spec = spec_from_loader(f"bfcl_{name}", loader)
    assert spec is not None
    module = module_from_spec(spec)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": give}
    loader.exec_module(module)
    for kind in [one for one in vars(module).values() if isinstance(one, type)]:
        for method in [one for one in vars(kind).values() if inspect.isfunction(one)]:
            if any(isinstance(default, list | dict | set) for default in method.__defaults__ or ()):
                setattr(kind, method.__name__, _with_own_defaults(method))
    return module


def _with_own_defaults(method: Any) -> Any:
    """A method that keeps nothing in its default lists: what one call leaves there, all others would see."""
    defaults = copy.deepcopy(method.__defaults__)

    @functools.wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        method.__defaults__ = copy.deepcopy(defaults)
        return method(*arguments, **keywords)

    return call


def start(entry: Entry) -> Instances:
    """New objects as the entry begins, one a class: a copy, so that nothing of an episode is shared with
    another or with a module's tables. Raises MissingExtra, RoleAgentError."""
    return copied(_first(place(), entry))


def copied(objects: Instances) -> Instances:
    """A deep copy. Generators of random numbers are copied by their state: piece by piece takes longer than
    all the rest."""
    memo: dict[int, Any] = {}
    for one in objects.values():
        draws = getattr(one, "_random", None)
        if isinstance(draws, random.Random):
            memo[id(draws)] = other = random.Random(0)
            other.setstate(draws.getstate())
    return copy.deepcopy(objects, memo)


@functools.lru_cache(maxsize=64)
def _first(root: Path, entry: Entry) -> Instances:
    found: Instances = {}
    for name in entry.classes:
        found[name] = getattr(_module(root, CLASSES[name]), name)()
        if name not in STATELESS:
            found[name]._load_scenario(
                copy.deepcopy(entry.config.get(name, {})), long_context=entry.long_context
            )
    return found


@functools.lru_cache(maxsize=len(CLASSES) * 2)
def _methods(kind: Any) -> tuple[str, ...]:
    return tuple(n for n, _ in inspect.getmembers(kind, inspect.isfunction) if not n.startswith("_"))


def owners(instances: Instances) -> dict[str, Any]:
    """Function name -> the object that has it; of equal names the later class's counts, as in BFCL."""
    return {name: one for one in instances.values() for name in _methods(cast(Hashable, type(one)))}


def too_much(call: Call) -> str:
    """Why a call is not made although it is a right one; "" for nearly all."""
    if call.name not in _MOST:
        return ""
    position, name, most = _MOST[call.name]
    value = call.keywords.get(name, call.arguments[position] if len(call.arguments) > position else 0)
    if isinstance(value, int | float) and abs(value) > most:
        return f"Error during execution: {name} may be at most {most} here"
    return ""


def run(found: Mapping[str, Any], calls: Sequence[Call]) -> list[str]:
    """What the calls answer, in BFCL's wording: texts as they are, dicts as JSON, the rest as str().

    An exception inside an API is an answer, too. `found`: what `owners` gives.
    """
    return [too_much(call) or _run(found[call.name], call) for call in calls]


def _run(owner: Any, call: Call) -> str:
    try:
        with decimal.localcontext() if type(owner).__name__ in STATELESS else nullcontext():
            value = getattr(owner, call.name)(*call.arguments, **call.keywords)
        if isinstance(value, str):
            return value
        return _written(value) if isinstance(value, dict) else str(value)
    except RecursionError:  # its own wording depends on how deep the stack already was
        return "Error during execution: maximum recursion depth exceeded"
    except Exception as error:  # noqa: BLE001  # border: a simulated API
        return f"Error during execution: {error}"


def _written(value: dict[Any, Any]) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return str(value)
