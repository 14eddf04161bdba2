"""Four cells: a base model and its adapter, each under the prompt a run began with and the one it evolved,
on the same sealed tasks; beside them the model that made the run, where it played these tasks.

Owns who plays in which cell, where the two prompts and the teacher's rows come from, and what must be the
same at a resume. Leaves out playing (harness), the comparison (report/cells.py) and how adapters are made.

One run directory holds all of it. A run has a model for each role and needs no other role here, so that base,
adapter and teacher stand in its settings as `agent`, `world` and `judge`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

from roleagent_lite.agents import make_agent
from roleagent_lite.ask import Prompts
from roleagent_lite.config import Budget, RunConfig, from_mapping, merge
from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError
from roleagent_lite.evals.harness import play_system, result_of, usage_of
from roleagent_lite.evals.suite import Assigned, Suite, TaskSource, suite_hash, tasks_of
from roleagent_lite.lm.plan import PlannedCalls, tokens
from roleagent_lite.lm.pool import Models
from roleagent_lite.lm.weights import check_adapter, is_embedded, split_adapter
from roleagent_lite.session import Beginning, Reporter, Session, opened, run_now, starting_prompts
from roleagent_lite.store import Run
from roleagent_lite.systems import Setting
from roleagent_lite.systems.base import Attempt, Base
from roleagent_lite.tasksets import content_id
from roleagent_lite.types import ROLES, Agent, Listener, Model, PromptSet, Result, Role, Task, Trajectory

BASE, ADAPTER, TEACHER = "base", "adapter", "teacher"
SEED, EVOLVED = "seed", "evolved"
CELLS = tuple(f"{who}+{prompt}" for who in (BASE, ADAPTER) for prompt in (SEED, EVOLVED))
ROLE_OF: dict[str, Role] = {BASE: "agent", ADAPTER: "world", TEACHER: "judge"}
ROLES_WORDS = (
    "in the settings of these four cells, agent is the base, world the adapter and judge the teacher"
)
OWN_PROMPT = "prompt.json"  # beside the tables of a run that was begun with a prompt of its user's
_OBSERVED, _MOVE = 200, 80  # tokens of one call beside the prompt's own texts, roughly
_EMBEDDED_WORKERS = 4


class Options(TypedDict, total=False):
    """What `four_cells` takes besides run and adapter; see there."""

    base: str
    teacher: bool
    seed_prompt: str | Path | None
    evolved_prompt: str | Path | None
    tasks: str | Path | None
    limit: int | None
    budget: Budget
    run_dir: str | Path | None
    models: Mapping[Role, Model] | None
    listener: Listener | None
    report: Reporter | None


@dataclass(frozen=True, slots=True)
class FourCells:
    """What was played. `results`: the cells in the order of CELLS, then the teacher's; `teacher`: where its
    rows come from, or why there are none."""

    run_dir: Path
    suite: Suite
    results: tuple[Result, ...]
    teacher: str
    report: Path | None


@dataclass(frozen=True, slots=True)
class _Source:
    """What the run gives: its settings, templates, both prompts, whether they are its own, its name."""

    name: str
    config: RunConfig
    prompts: Prompts
    sets: Mapping[str, PromptSet]
    own: frozenset[str]


class Cell(Base):
    """One model under one prompt: it acts and foretells nothing, as in a run's sealed test."""

    keeps = "the agent of the run, under one of its prompts"
    leaves_out = "predictions and all learning"
    modules = ("act",)
    choosing = ("choose",)

    def __init__(self, setting: Setting, name: str, prompt_set: PromptSet, stands_for: str = "") -> None:
        super().__init__(setting, name, prompt_set)
        self.stands_for = stands_for

    def agent(self, at: Attempt) -> Agent:
        config = self.setting.config
        return make_agent(config.agent, at.asker, self.prompt_set, config.wia, self.setting.seed)


def four_cells(source: str | Path, adapter: str | Path, **how: Unpack[Options]) -> FourCells:
    """Play {base, adapter} x {seed prompt, evolved prompt} on one sealed set, once each at temperature 0.

    source: directory of the run that evolved the prompt. adapter: a LoRA file in GGUF beside `base` (an
    embedded model's string), or the string of a model that has it (merged, or served). teacher: also play
    the model that made the run, under the evolved prompt; else its rows are the run's own where it scored
    these tasks.
    seed_prompt, evolved_prompt: prompt files in place of the run's. tasks: a task set, its tasks of split
    test; default the run's own, as many as its sealed test had. limit: tasks at most. budget: caps over all
    of it. run_dir: where it is played, default RUN-cells beside the run; one that exists is resumed. models:
    objects by role (ROLE_OF) in place of strings. report: writes the report, `report.cells.write` say.

    Raises ConfigError for what is wrong before the first call, among it a run that kept its seed prompt;
    BudgetStop at a cap (the same call goes on) and FatalModelError where a model cannot answer.
    """
    return run_now(four_cells_async(source, adapter, **how), "four_cells")


async def four_cells_async(
    source: str | Path,
    adapter: str | Path,
    *,
    base: str = "embedded",
    teacher: bool = False,
    seed_prompt: str | Path | None = None,
    evolved_prompt: str | Path | None = None,
    tasks: str | Path | None = None,
    limit: int | None = None,
    budget: Budget | None = None,
    run_dir: str | Path | None = None,
    models: Mapping[Role, Model] | None = None,
    listener: Listener | None = None,
    report: Reporter | None = None,
) -> FourCells:
    """`four_cells` for callers that have an event loop. Same contract."""
    folder = Path(source)
    if models is not None:  # no other role than those of ROLE_OF is ever asked
        models = {**dict.fromkeys(ROLES, models[ROLE_OF[BASE]]), **models}
    with Run.open(folder) as run:
        given = _source(run, seed_prompt, evolved_prompt)
        suite, assigned = tasks_of(_suite(given, tasks, limit))
        config = _settings(given.config, suite, base, adapter, teacher, budget or Budget())
        recorded, words = ({}, "played here") if teacher else _recorded(run, given, suite, assigned)
    fixed = {
        "run": given.name,
        **{who: config.model_for(ROLE_OF[who]) for who in (BASE, ADAPTER)},
        "teacher": given.config.model_for("agent"), "plays": teacher,
        **{f"{name}_prompt": one.id for name, one in given.sets.items()},
    }  # fmt: skip
    beginning = Beginning(
        [one.task for one in assigned], suite_hash(suite), "task set", given.sets[SEED],
        {"suite": suite.as_data(), "cells": fixed}, partial(registry.ready, [one.task for one in assigned]),
        given.prompts.fingerprint,
    )  # fmt: skip
    where = Path(run_dir) if run_dir is not None else folder.with_name(f"{folder.name}-cells")
    async with opened(config, where, beginning, models=models, listener=listener, report=report) as session:
        made = _made(session, given, config, teacher)
        if recorded and session.models[ROLE_OF[BASE]].name in {one.model for one in recorded.values()}:
            recorded, words = {}, "the base itself made the run: its cells are the teacher's"
        _announce(session, made, given, assigned)
        session.run.record("teacher", "teacher", {"words": words})
        session.models.note(ROLES_WORDS)
        results = [
            await play_system([one], suite, assigned, run=session.run, workers=config.workers,
                              listener=session.listener)
            for one in made
        ]  # fmt: skip
        for name, result in recorded.items():
            _tell_system(session.run, name, given.sets[name.partition("+")[2]].id, result.model)
            session.run.results.put(result)
    written = session.report if report is not None else None
    return FourCells(session.run.dir, suite, (*results, *recorded.values()), words, written)


def _source(run: Run, seed_file: str | Path | None, evolved_file: str | Path | None) -> _Source:
    begun_with = run.dir / OWN_PROMPT
    prompts = starting_prompts(run.config, begun_with if begun_with.is_file() else None)
    start, final = run.events.get("start"), run.events.get("final")
    sets: dict[str, PromptSet] = {}
    own: set[str] = set()
    for name, file, event, key in (
        (SEED, seed_file, start, "seed_set"),
        (EVOLVED, evolved_file, final, "final"),
    ):
        if file is not None:
            sets[name] = prompts.override(file).seed_set()
        found = run.prompt_sets.get(str(event.data.get(key))) if event is not None else None
        if found is not None:
            sets.setdefault(name, found)
            own |= {name} if sets[name].id == found.id else set()
        elif file is None:
            raise ConfigError(
                f"run {run.dir} has no {name} prompt (it is {run.status}); resume it, or give "
                f"--{name}-prompt FILE"
            )
    if sets[SEED].id == sets[EVOLVED].id:
        raise ConfigError(
            f"run {run.dir} kept its seed prompt, so that there are no four cells to compare; give another "
            "one with --evolved-prompt FILE"
        )
    return _Source(run.name, run.config, prompts, sets, frozenset(own))


def _suite(source: _Source, tasks: str | Path | None, limit: int | None) -> Suite:
    if tasks is None and limit is None:
        limit = source.config.evolve.test
    one = TaskSource(str(tasks) if tasks is not None else source.config.tasks, "test", limit=limit)
    return Suite(
        f"cells-{source.name}", (one,), systems=CELLS,
        about="Base and adapter, each under the seed prompt and the evolved one.",
    )  # fmt: skip


def _settings(
    config: RunConfig, suite: Suite, base: str, adapter: str | Path, teacher: bool, budget: Budget
) -> RunConfig:
    """The run's settings with its model's place taken by others. Raises ConfigError for an adapter without a
    base."""
    with_it = str(adapter)
    if not is_embedded(with_it) and (with_it.endswith(".gguf") or Path(adapter).exists()):
        if not is_embedded(base):
            raise ConfigError(
                f"the adapter {adapter} is a file, which is played beside the embedded model, and the base "
                f"is '{base}'; name the served model that has it instead"
            )
        with_it = f"{split_adapter(base)[0]}+{check_adapter(Path(adapter).expanduser()).resolve()}"
    if with_it == base:
        raise ConfigError(f"base and adapter are both '{base}': there is nothing to compare")
    made_it = config.model_for("agent") if teacher else None
    over: dict[str, Any] = {
        "model": base,
        "models": {"agent": None, "world": with_it, "reflector": None, "judge": made_it},
        "tasks": suite.sets[0].tasks,
        "budget": budget.model_dump(),
        "limits": {"replay": False},
    }
    if is_embedded(base):
        over["workers"] = min(config.workers, _EMBEDDED_WORKERS)
    if all(is_embedded(name) for name in (base, with_it, made_it or base)):
        over["limits"] |= {"base_url": None, "api_key_env": None}
    return from_mapping(merge(config.model_dump(), over))


def _recorded(
    run: Run, source: _Source, suite: Suite, tasks: Sequence[Assigned]
) -> tuple[dict[str, Result], str]:
    """The teacher's rows by name from the run's own sealed test, and words on where they come from."""
    wanted = {source.sets[name].id: name for name in source.own}
    played: dict[str, dict[str, Trajectory]] = {}
    for result in run.results:
        for ids in result.trajectories.values() if result.suite == "test" else ():
            for one in (t for id in ids if (t := run.trajectories.get(id)) is not None):
                if one.prompt_set in wanted and one.rollout == 0:
                    played.setdefault(wanted[one.prompt_set], {})[one.task] = one
    found: dict[str, Result] = {}
    most = 0
    for name in (SEED, EVOLVED):
        rows = {
            one.task.id: played[name][one.task.id]
            for one in tasks
            if one.task.id in played.get(name, {}) and _same(run.tasks.get(one.task.id), one.task)
        }
        most = max(most, len(rows))
        if len(rows) == len(tasks):
            row = result_of(
                suite.name, f"{TEACHER}+{name}", [one.task for one in tasks], list(rows.values()),
                usage_of(run, rows.values()), temperature=0.0, budget=suite.budget.words,
                model=next(iter(rows.values())).model,
            )  # fmt: skip
            found[row.system] = replace(row, trajectories={})  # they are the other run's
    if found:
        return found, f"from the sealed test of run {source.name}, under the same conditions"
    return {}, (
        f"not played: run {source.name} scored {most} of these {len(tasks)} tasks under these prompts; "
        "--teacher plays it"
    )


def _same(first: Task | None, second: Task) -> bool:
    def content(task: Task) -> str:
        return content_id(
            {"env": task.env, "goal": task.goal, "seed": task.seed, "params": dict(task.params)}
        )

    return first is not None and content(first) == content(second)


def _made(session: Session, source: _Source, config: RunConfig, teacher: bool) -> list[Cell]:
    names = [*CELLS, *([f"{TEACHER}+{EVOLVED}"] if teacher else [])]
    made = []
    for name in names:
        who, _, prompt = name.partition("+")
        models = _acting(session.models, ROLE_OF[who])
        setting = Setting(config, session.run, models, source.prompts, seed=config.seed)
        made.append(Cell(setting, name, source.sets[prompt], who))
    kinds = {cell.kind for cell in made if cell.stands_for != TEACHER}
    if len(kinds) > 1:
        raise ConfigError("base and adapter would not play alike: one of them can score actions, one cannot")
    for cell in made:
        _tell_system(session.run, cell.name, cell.prompt_set.id, cell.model)
    return made


def _tell_system(run: Run, name: str, prompt_set: str, model: str) -> None:
    run.record(f"system/{name}", "system", {"system": name, "prompt_set": prompt_set, "model": model})


def _acting(models: Models, role: Role) -> Models:
    """The pool with the model of `role` in every role."""
    return replace(models, by_role=dict.fromkeys(ROLES, models[role]))


def _announce(session: Session, made: Sequence[Cell], source: _Source, tasks: Sequence[Assigned]) -> None:
    plan = []
    for cell in made:
        module = "choose" if cell.kind == "choose" else "act"
        file = source.prompts.module(module)
        texts = source.prompts.texts(module, source.sets[cell.name.partition("+")[2]])
        sent = tokens(file.system + file.user + file.assistant + "".join(texts.values())) + _OBSERVED
        bounds = [cell.most_calls(one.task, one.max_steps) or 0 for one in tasks]
        plan.append(PlannedCalls(ROLE_OF[cell.stands_for], cell.name, sum(bounds), sent, _MOVE))
    session.announce(plan)
