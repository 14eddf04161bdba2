"""BFCL's multi-turn data: the pinned wheel in the cache, its entries and the descriptions of its functions.

Owns where the files lie and what is read from them. Leaves out the simulated APIs themselves (apis.py).
Nothing of BFCL (Apache-2.0) is in this project: it is fetched by `roleagent-lite tasks pull bfcl`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from roleagent_lite.errors import ConfigError, MissingExtra, RoleAgentError
from roleagent_lite.lm.wheels import MODEL_FILE, cache_dir, fetch_wheel
from roleagent_lite.types import Listener

PACKAGE, VERSION = "bfcl-eval", "2026.3.23"
SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
MEGABYTES = 2
VARIANTS = ("base", "miss_func", "miss_param", "long_context")
ADVICE = (
    f"the world `tools` plays the data of {PACKAGE} {VERSION}, which is not here; fetch it (2 MB) with: "
    "roleagent-lite tasks pull bfcl"
)
CLASSES: Mapping[str, str] = {  # class -> file, of descriptions and of code alike
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
_PREFIX = "multi_turn_"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One conversation. Per turn: `messages` (what the user says, "" where functions are added instead) and
    `truth` (the calls that do what is asked; none: nothing can be done yet). `added`: turn -> names of the
    functions that are told of at that turn only. `config`: what the APIs start from, by class.
    """

    id: str
    classes: tuple[str, ...]
    config: Mapping[str, Any]
    messages: tuple[str, ...]
    truth: tuple[tuple[str, ...], ...]
    added: Mapping[int, tuple[str, ...]]

    @property
    def long_context(self) -> bool:
        return self.id.startswith(f"{_PREFIX}long_context_")


@dataclass(frozen=True, slots=True)
class Function:
    """What the user is told of a function: a call of it with made-up arguments, and a line about it."""

    name: str
    call: str
    about: str

    @property
    def line(self) -> str:
        return f"{self.call}  # {self.about}"


def folder() -> Path:
    """Where the unpacked wheel lies, once it is fetched."""
    return cache_dir() / f"{PACKAGE}-{VERSION}"


def is_pulled() -> bool:
    return (folder() / "bfcl_eval").is_dir()


def pull(listener: Listener | None = None) -> Path:
    """Fetches the pinned wheel (without what it depends on) into the cache. Raises RoleAgentError."""
    try:
        return fetch_wheel(PACKAGE, VERSION, SHA256, listener, megabytes=MEGABYTES)
    except RoleAgentError as error:
        raise RoleAgentError(str(error).replace(MODEL_FILE, "")) from None


def place() -> Path:
    """The folder of the package. Raises MissingExtra that says how to fetch it."""
    if not is_pulled():
        raise MissingExtra(ADVICE)
    return folder() / "bfcl_eval"


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def _message(turn: list[Mapping[str, str]]) -> str:
    return "\n".join(one["content"].strip() for one in turn)


@lru_cache(maxsize=len(VARIANTS))
def _entries(root: Path, variant: str) -> Mapping[str, Entry]:
    name = f"BFCL_v4_{_PREFIX}{variant}.json"
    truth = {row["id"]: row["ground_truth"] for row in _rows(root / "data" / "possible_answer" / name)}
    return {
        row["id"]: Entry(
            row["id"],
            tuple(row["involved_classes"]),
            row["initial_config"],
            tuple(map(_message, row["question"])),
            tuple(map(tuple, truth[row["id"]])),
            {int(turn): tuple(names) for turn, names in row.get("missed_function", {}).items()},
        )
        for row in _rows(root / "data" / name)
    }


def entries(variant: str) -> Mapping[str, Entry]:
    """All 200 entries of a variant by id, in the file's order. Raises MissingExtra."""
    return _entries(place(), variant)


def entry(id: str) -> Entry:
    """One entry, `multi_turn_base_7` say. Raises MissingExtra, ConfigError (no such id)."""
    variant = id.removeprefix(_PREFIX).rpartition("_")[0]
    found = entries(variant).get(id) if variant in VARIANTS else None
    if found is None:
        raise ConfigError(
            f"BFCL has no multi-turn entry {id!r:.60}; ids are {_PREFIX}VARIANT_NUMBER with VARIANT "
            f"{', '.join(VARIANTS)} and NUMBER 0 to 199"
        )
    return found


def _example(name: str, about: Mapping[str, Any]) -> Any:
    """A made-up argument of the right type."""
    kind = about.get("type")
    if kind == "array":
        return [_example(name, about.get("items", {}))]
    if kind == "dict":
        return {key: _example(key, value) for key, value in about.get("properties", {}).items()}
    return {"float": 1.0, "integer": 1, "boolean": True}.get(str(kind), name.upper())


def _function(row: Mapping[str, Any]) -> Function:
    given = row["parameters"]["properties"]
    needed = [name for name in given if name in row["parameters"]["required"]]
    arguments = ", ".join(f"{name}={_example(name, given[name])!r}" for name in needed)
    parts = [row["description"].rpartition("Tool description:")[2]]
    for name, about in given.items():
        default = "" if name in needed else f" (optional, {about['type']})"
        parts.append(f"{name}{default}: {about['description']}")
    return Function(
        row["name"], f"{row['name']}({arguments})", " | ".join(" ".join(part.split()) for part in parts)
    )


@lru_cache(maxsize=len(CLASSES))
def _functions(root: Path, class_name: str) -> Mapping[str, Function]:
    rows = _rows(root / "data" / "multi_turn_func_doc" / f"{CLASSES[class_name]}.json")
    return {row["name"]: _function(row) for row in rows}


def functions(classes: tuple[str, ...]) -> dict[str, Function]:
    """The described functions of some classes by name, in the files' order. Raises MissingExtra."""
    root = place()
    return {name: one for c in classes for name, one in _functions(root, c).items()}
