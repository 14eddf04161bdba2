"""Suites: what is played in an evaluation, in a TOML file that names its task sets by content.

Owns reading and checking a suite, the choice of its tasks and what may be changed about it by flag. Leaves
out playing (harness) and what a system's name means (systems).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from roleagent_lite.config import parse_toml, read_bounded
from roleagent_lite.content import find
from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.tasksets import choose, file_hash, load_tasks
from roleagent_lite.types import Split, Task, TaskBudget

DEFAULT_SYSTEMS = ("random", "prompt", "react", "role-agent")


@dataclass(frozen=True, slots=True)
class TaskSource:
    """Part of a task set. `hash`: of the set's file, "" = not checked; limit None = all tasks of the split;
    max_steps 0 = the environment's own limit."""

    tasks: str
    split: Split = "test"
    hash: str = ""
    limit: int | None = None
    max_steps: int = 0


@dataclass(frozen=True, slots=True)
class Suite:
    """What is played, by whom and how often.

    Every task is played `repetitions` times for each of `seeds` (the seed of what systems draw themselves),
    at `temperature`. `budget` is what a system may spend on one task. `reference`: names of published tables
    (evals/reference.json) that are shown beside the results.
    """

    name: str
    sets: tuple[TaskSource, ...]
    about: str = ""
    systems: tuple[str, ...] = DEFAULT_SYSTEMS
    repetitions: int = 1
    temperature: float = 0.0
    seeds: tuple[int, ...] = (0,)
    budget: TaskBudget = field(default_factory=TaskBudget)
    reference: tuple[str, ...] = ()

    @property
    def rollouts(self) -> int:
        """Episodes of one task and one system."""
        return self.repetitions * len(self.seeds)

    def as_data(self) -> dict[str, Any]:
        """Plain values, as a run keeps them; `from_data` reads them back."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Assigned:
    """A task of a suite and its step limit, 0 = the environment's."""

    task: Task
    max_steps: int = 0


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Set(_Form):
    tasks: str = Field(min_length=1)
    split: Split = "test"
    hash: str = ""
    limit: int | None = Field(default=None, ge=1)
    max_steps: int = Field(default=0, ge=0)


class _Budget(_Form):
    rule: Literal["unlimited", "calls", "dollars"] = "unlimited"
    amount: float | None = Field(default=None, gt=0)


class _File(_Form):
    name: str = Field(min_length=1)
    about: str = ""
    sets: tuple[_Set, ...] = Field(min_length=1)
    systems: tuple[str, ...] = Field(default=DEFAULT_SYSTEMS, min_length=1)
    repetitions: int = Field(default=1, ge=1, le=1000)
    temperature: float = Field(default=0.0, ge=0, le=2)
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    budget: _Budget = _Budget()
    reference: tuple[str, ...] = ()


def from_data(values: Mapping[str, Any], source: str = "suite") -> Suite:
    """A suite from plain values. Raises ConfigError that names the key, what was found and the nearest
    name."""
    try:
        read = _File.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(_explained(error, source)) from None
    budget = TaskBudget(read.budget.rule, read.budget.amount)
    if (budget.rule == "unlimited") != (budget.amount is None):
        raise ConfigError(
            f"{source}: budget.rule is '{budget.rule}' and budget.amount {budget.amount}: give an amount "
            "with calls or dollars, and none with unlimited"
        )
    suite = Suite(
        name=read.name,
        sets=tuple(TaskSource(**one.model_dump()) for one in read.sets),
        about=read.about,
        systems=read.systems,
        repetitions=read.repetitions,
        temperature=read.temperature,
        seeds=read.seeds,
        budget=budget,
        reference=read.reference,
    )
    for what, names in (("systems", suite.systems), ("seeds", suite.seeds)):
        if twice := [n for i, n in enumerate(names) if n in names[:i]]:
            raise ConfigError(f"{source}: {what} names {twice[0]} twice")
    return suite


def _explained(error: ValidationError, source: str) -> str:
    first = error.errors()[0]
    place = ".".join(str(p) for p in first["loc"])
    if first["type"] == "extra_forbidden":
        inner: dict[str, type[_Form]] = {"sets": _Set, "budget": _Budget}
        form = inner.get(str(first["loc"][0]), _File) if len(first["loc"]) > 1 else _File
        known = form.model_fields
        return f"{source}: unknown key '{place}'{nearest(str(first['loc'][-1]), known)}"
    if first["type"] == "missing":
        return f"{source}: the key '{place}' is missing"
    return f"{source}: '{place}' is {first['input']!r}: {first['msg']}"


def load_suite(name: str | Path) -> Suite:
    """A shipped suite by name, or a suite file. Task sets that it names by path lie beside it or where it
    says.

    Raises ConfigError for a name nobody knows (with the nearest), a file that cannot be read or is no suite.
    """
    path = find("evals", str(name), ".toml")
    try:
        values = parse_toml(read_bounded(path))
    except OSError as error:
        raise ConfigError(f"cannot read suite file {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    suite = from_data({"name": path.stem, **values}, str(path))
    beside = [
        replace(one, tasks=str(path.parent / one.tasks)) if (path.parent / one.tasks).is_file() else one
        for one in suite.sets
    ]
    return replace(suite, sets=tuple(beside))


def suite_of(tasks: str, split: Split = "test", limit: int | None = None) -> Suite:
    """A suite of one task set, for a comparison that has no file of its own."""
    return Suite(Path(tasks).stem, (TaskSource(tasks, split, limit=limit),))


def adjusted(
    suite: Suite,
    *,
    systems: Sequence[str] | None = None,
    repetitions: int | None = None,
    temperature: float | None = None,
    budget: TaskBudget | str | None = None,
    seeds: Sequence[int] | None = None,
    limit: int | None = None,
) -> Suite:
    """`suite` with what is not None in place of its own; `limit` holds for each of its sets.

    Raises ConfigError where the result is no suite.
    """
    given = parse_budget(budget) if isinstance(budget, str) else budget
    data = suite.as_data()
    for key, value in (
        ("systems", systems),
        ("repetitions", repetitions),
        ("temperature", temperature),
        ("seeds", seeds),
        ("budget", asdict(given) if given is not None else None),
    ):
        if value is not None:
            data[key] = value
    if limit is not None:
        for one in data["sets"]:
            one["limit"] = limit
    return from_data(data, f"suite '{suite.name}'")


def parse_budget(text: str) -> TaskBudget:
    """`unlimited`, `calls=30` or `dollars=0.05`, for each task. Raises ConfigError."""
    rule, equals, amount = text.strip().partition("=")
    try:
        if rule in ("calls", "dollars") and equals and float(amount) > 0:
            value = float(amount)
            if rule == "dollars" or value == int(value):
                return TaskBudget(rule, value)  # type: ignore[arg-type]
        if rule == "unlimited" and not equals:
            return TaskBudget()
    except (ValueError, OverflowError):
        pass
    raise ConfigError(
        f"--budget takes unlimited, calls=N or dollars=X for one task, found '{text}'; for example calls=30"
    )


def tasks_of(suite: Suite) -> tuple[Suite, tuple[Assigned, ...]]:
    """`suite` with the hashes of its task sets filled in, and its tasks in the order of sets and files.

    Raises ConfigError where a set is not the one that the suite was made with (both hashes are named), where
    a set has no task of the split, and where two sets hold tasks of one id.
    """
    out: list[Assigned] = []
    sets: list[TaskSource] = []
    seen: dict[str, str] = {}
    for source in suite.sets:
        now = file_hash(source.tasks)
        if source.hash and source.hash != now:
            raise ConfigError(
                f"suite '{suite.name}': task set '{source.tasks}' is not the one that the suite was made "
                f"with (hash {source.hash} then, {now} now); results would not compare. Use the old file, or "
                "put the new hash into a suite of another name"
            )
        tasks = choose(load_tasks(source.tasks, source.split, check=registry.check), source.limit)
        if not tasks:
            raise ConfigError(
                f"suite '{suite.name}': task set '{source.tasks}' has no tasks of split '{source.split}'"
            )
        for task in tasks:
            if task.id in seen:
                raise ConfigError(
                    f"suite '{suite.name}': task sets '{seen[task.id]}' and '{source.tasks}' both hold a "
                    f"task '{task.id}'; give tasks ids of their own"
                )
            seen[task.id] = source.tasks
        out += [Assigned(task, source.max_steps) for task in tasks]
        sets.append(replace(source, hash=now))
    return replace(suite, sets=tuple(sets)), tuple(out)


def suite_hash(suite: Suite) -> str:
    """One hash for all task sets of a suite, as a run's start keeps it."""
    return "+".join(file_hash(one.tasks) for one in suite.sets)
