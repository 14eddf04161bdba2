"""RunConfig: twelve knobs and their tables, from TOML and flags; unknown keys refused; saved resolved.

Owns names, defaults, ranges and the wording of a refusal. Leaves out what the knobs do. A choice is the
name of a function in a dict at the edge that uses it ("none" is the null function), never a flag in a loop.
"""

from __future__ import annotations

import json
import re
import reprlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.types import ROLES

MAX_BYTES = 1_000_000  # of a settings or prompt file; real ones have a few thousand
# `a.a.a. … = 1`: the parser's time grows with the square of such a key's length.
_LONG_KEY = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){60}")
_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 80


def brief(value: Any) -> str:
    """A value as a message may show it, however large or deep it is."""
    try:
        return _BRIEF.repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits cannot even be written out
        return f"a {type(value).__name__} too large to be shown"


def parse_toml(text: str) -> dict[str, Any]:
    """`tomllib.loads` for foreign text. Raises ValueError for all that is wrong, depth and size too."""
    if len(text) > MAX_BYTES:
        raise ValueError(f"it has over {MAX_BYTES} characters")
    if _LONG_KEY.search(text):
        raise ValueError("it has a key of over 60 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_bounded(path: Path) -> str:
    """The text of a settings or prompt file. Raises OSError, ValueError (not UTF-8, over MAX_BYTES)."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has over {MAX_BYTES} bytes")
    return data.decode("utf-8-sig")


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Models(_Table):
    """A model string per role; None = `RunConfig.model`."""

    agent: str | None = None
    world: str | None = None
    reflector: str | None = None
    judge: str | None = None


class Budget(_Table):
    """Caps over all roles together; None = no cap. `price` = "IN/OUT" dollars per million tokens."""

    max_usd: float | None = Field(default=None, ge=0)
    max_calls: int | None = Field(default=None, ge=0)
    price: str | None = None


class Limits(_Table):
    """How a server is treated. Rates per minute; `timeout` is the deadline of one call in seconds.

    `trim`: an agent leaves out its oldest steps where a prompt does not fit the model's context.
    """

    rpm: int | None = Field(default=None, ge=1)
    tpm: int | None = Field(default=None, ge=1)
    timeout: float = Field(default=120.0, gt=0)
    retries: int = Field(default=2, ge=0)
    max_tokens: int = Field(default=1024, ge=16)
    trim: bool = False
    base_url: str | None = None
    api_key_env: str | None = None
    replay: bool = False


class Wia(_Table):
    """World-In-Agent (spec sections 2.1 to 2.6)."""

    predict: Literal["together", "separate", "off"] = "together"
    horizon_share: float = Field(default=0.05, gt=0, le=1)
    gamma: float = Field(default=0.95, gt=0, le=1)
    alpha: float = Field(default=1.0, ge=0)
    scorer: str = "lms"
    states: Literal["key", "text"] = "key"
    merge_above: float = Field(default=0.9, ge=0, le=1)
    normalise: Literal["mean_std", "mean"] = "mean_std"
    outcome: Literal["solved", "score"] = "solved"
    feedback: str = "mispredictions"  # or "none": the ablation


class Aiw(_Table):
    """Agent-In-World (spec section 3). `retrieve`: llm, vector, random, task_text, none."""

    diagnose: str = "llm"  # or "none": the ablation
    retrieve: str = "llm"
    rho: float = Field(default=0.3, ge=0, lt=1)
    decay: float = Field(default=0.9, ge=0, le=1)
    candidates: int = Field(default=30, ge=1, le=100)
    embedder: str = "auto"


class Evolve(_Table):
    """The loop. `tasks_per_round` x `group` rollouts for the parent and again for the child."""

    rounds: int = Field(default=8, ge=0)
    tasks_per_round: int = Field(default=6, ge=1)
    group: int = Field(default=4, ge=1)
    temperature: float = Field(default=0.9, ge=0, le=2)
    reflect_temperature: float = Field(default=0.5, ge=0, le=2)
    dev: int = Field(default=24, ge=1)
    test: int = Field(default=50, ge=1)
    components: tuple[str, ...] = ("act.instructions", "act.playbook", "act.demonstrations")
    accept: str = "paired"
    max_chars: int = Field(default=2000, ge=50)  # the longest text that may evolve, in characters


class RunConfig(_Table):
    """Everything that decides a run's outcome. Twelve top-level knobs, no more."""

    model: str = "embedded"
    models: Models = Models()
    tasks: str = "household-easy"
    agent: str = "auto"
    prompts: str = "v1"
    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    workers: int = Field(default=8, ge=1, le=1024)
    budget: Budget = Budget()
    limits: Limits = Limits()
    wia: Wia = Wia()
    aiw: Aiw = Aiw()
    evolve: Evolve = Evolve()

    def model_for(self, role: str) -> str:
        """The model string of one role."""
        if role not in ROLES:
            raise ConfigError(f"no role '{role}'{nearest(role, ROLES)}")
        return getattr(self.models, role) or self.model


def table_of(root: type[BaseModel], place: Sequence[int | str]) -> type[BaseModel]:
    """The table of settings in which the last name of `place` stands, from `root` down."""
    for part in place[:-1]:
        field = root.model_fields[str(part)].annotation
        assert isinstance(field, type) and issubclass(field, BaseModel)
        root = field
    return root


def _explain(error: ValidationError, source: str) -> str:
    first = error.errors()[0]
    path = ".".join(str(p) for p in first["loc"])
    if first["type"] == "extra_forbidden":
        model = table_of(RunConfig, first["loc"])
        return f"{source}: unknown setting '{path}'{nearest(str(first['loc'][-1]), model.model_fields)}"
    return f"{source}: setting '{path}' is {brief(first['input'])}: {first['msg']}"


def from_mapping(values: Mapping[str, Any], source: str = "config") -> RunConfig:
    """A validated config. Raises ConfigError that names the setting, what was found and the nearest name."""
    try:
        return RunConfig.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(_explain(error, source)) from None


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` wins, table by table."""
    out = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


def load(path: Path | None, flags: Mapping[str, Any] | None = None) -> RunConfig:
    """The TOML file at `path` (may be None), overridden by `flags`. Raises ConfigError."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = parse_toml(read_bounded(path).replace("\r\n", "\n"))
        except OSError as error:
            raise ConfigError(f"cannot read config file {path}: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(f"{path} is not valid TOML: {error}") from None
    return from_mapping(merge(values, flags or {}), str(path) if _at_fault(values) else "command line")


def _at_fault(values: Mapping[str, Any]) -> bool:
    """Whether a file's settings are refused by themselves; else what is wrong came by flag."""
    try:
        RunConfig.model_validate(dict(values))
    except ValidationError:
        return True
    return False


def dump_toml(config: RunConfig) -> str:
    """The resolved config as TOML that `load` reads back equal. None is written as a comment."""
    lines: list[str] = []
    tables: list[tuple[str, BaseModel]] = []

    def emit(key: str, value: Any) -> None:
        if isinstance(value, BaseModel):
            tables.append((key, value))
        elif value is None:
            lines.append(f"# {key} = (not set)")
        else:  # JSON of str, bool, int, float and lists of str is TOML as well, but for surrogates and DEL
            text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
            lines.append(f"{key} = {text}".replace("\x7f", "\\u007f"))

    for name in RunConfig.model_fields:
        emit(name, getattr(config, name))
    for name, table in tables:
        lines += ["", f"[{name}]"]
        for key in type(table).model_fields:
            emit(key, getattr(table, key))
    return "\n".join(lines) + "\n"
