"""The library's front door: `evolve` and `evaluate` open a run, do the work and write the report.

Owns which tasks, prompts and systems a job takes and in which order it calls the rooms. Leaves out what every
job is made of (session), the loop (evolve), scoring (evals), the report (report) and the screen (cli).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

from roleagent_lite.agents import make_agent, settled
from roleagent_lite.ask import Prompts
from roleagent_lite.config import RunConfig
from roleagent_lite.envs import registry
from roleagent_lite.evals import play
from roleagent_lite.evals.harness import score_agent
from roleagent_lite.evals.suite import Suite
from roleagent_lite.evolve.estimate import planned, planned_evaluation
from roleagent_lite.evolve.export import export
from roleagent_lite.evolve.loop import Evolution, run_evolution
from roleagent_lite.evolve.tasks import TaskSets, one_split, task_sets
from roleagent_lite.report.html.write import write_all
from roleagent_lite.session import (
    Beginning,
    Config,
    Session,
    make_asker,
    opened,
    run_now,
    settings,
    starting_prompts,
)
from roleagent_lite.types import Listener, Model, PromptSet, Result, Role, Split

__all__ = [
    "EvalResult",
    "EvolveResult",
    "evaluate",
    "evaluate_async",
    "evaluate_suite",
    "evolve",
    "evolve_async",
    "export",
]


class Options(TypedDict, total=False):
    """What `evolve` takes besides its settings; see there."""

    run_dir: str | Path | None
    prompt_file: str | Path | None
    agent: str | None
    tasks: str | Path | None
    models: Mapping[Role, Model] | None
    listener: Listener | None
    replay: bool


class EvalOptions(Options, total=False):
    split: Split
    limit: int | None


@dataclass(frozen=True, slots=True)
class EvolveResult:
    """What a finished evolution leaves. `results`: the sealed test, seed first, alone if nothing entered."""

    run_dir: Path
    report: Path
    evolution: Evolution
    results: tuple[Result, ...]

    @property
    def final(self) -> PromptSet:
        return self.evolution.final


@dataclass(frozen=True, slots=True)
class EvalResult:
    run_dir: Path
    report: Path
    result: Result


async def evolve_async(
    config: Config | None = None,
    *,
    run_dir: str | Path | None = None,
    prompt_file: str | Path | None = None,
    agent: str | None = None,
    tasks: str | Path | None = None,
    models: Mapping[Role, Model] | None = None,
    listener: Listener | None = None,
    replay: bool = False,
) -> EvolveResult:
    """`evolve` for callers that have an event loop. Same contract."""
    config = settings(config, agent=agent, tasks=tasks, replay=replay)
    prompts = starting_prompts(config, prompt_file)
    seed = prompts.seed_set()
    sets = task_sets(config.tasks, dev=config.evolve.dev, test=config.evolve.test)
    config = settled(config, prompts, (*sets.train, *sets.dev, *sets.test))
    begun = _beginning(config, sets, prompts)
    async with opened(config, run_dir, begun, models=models, listener=listener, report=write_all) as session:
        session.announce(planned(config, prompts, seed, sets))
        evolution = await run_evolution(
            config, session.run, session.models,
            tasks=sets, prompts=prompts, seed_set=seed, listener=session.listener,
        )  # fmt: skip
        results = await _sealed_test(config, session, sets, prompts, evolution)
    return EvolveResult(session.run.dir, session.report, evolution, results)


def _beginning(config: RunConfig, sets: TaskSets, prompts: Prompts) -> Beginning:
    tasks = (*sets.train, *sets.dev, *sets.test)
    ready = partial(registry.ready, tasks)
    named = f"task file '{config.tasks}'"
    seed = prompts.seed_set()
    return Beginning(tasks, sets.hash, named, seed, ready=ready, prompts=prompts.fingerprint)


async def _sealed_test(
    config: RunConfig, session: Session, sets: TaskSets, prompts: Prompts, evolution: Evolution
) -> tuple[Result, ...]:
    """The test tasks, played once: the seed, and the best on dev (adopted or not) where that is another."""
    systems = {"seed": evolution.seed, "best": evolution.best}
    if evolution.best.id == evolution.seed.id:
        del systems["best"]
    asker = make_asker(config, session.models, prompts)
    return tuple(
        [
            await score_agent(
                agent=make_agent(config.agent, asker, prompt_set, config.wia, config.seed),
                tasks=sets.test,
                run=session.run,
                models=session.models,
                config=config,
                suite="test",
                system=name,
                round=config.evolve.rounds + 1,
                listener=session.listener,
            )
            for name, prompt_set in systems.items()
        ]
    )


async def evaluate_async(
    config: Config | None = None,
    *,
    run_dir: str | Path | None = None,
    prompt_file: str | Path | None = None,
    split: Split = "test",
    limit: int | None = None,
    agent: str | None = None,
    tasks: str | Path | None = None,
    models: Mapping[Role, Model] | None = None,
    listener: Listener | None = None,
    replay: bool = False,
) -> EvalResult:
    """`evaluate` for callers that have an event loop. Same contract."""
    config = settings(config, agent=agent, tasks=tasks, replay=replay)
    prompts = starting_prompts(config, prompt_file)
    seed = prompts.seed_set()
    sets = one_split(config.tasks, split, limit)
    config = settled(config, prompts, sets.of(split))
    begun = _beginning(config, sets, prompts)
    async with opened(config, run_dir, begun, models=models, listener=listener, report=write_all) as session:
        session.announce(planned_evaluation(config, prompts, seed, sets.of(split)))
        asker = make_asker(config, session.models, prompts)
        result = await score_agent(
            agent=make_agent(config.agent, asker, seed, config.wia, config.seed),
            tasks=sets.of(split),
            run=session.run,
            models=session.models,
            config=config,
            suite=split,
            system="seed",
            round=0,
            listener=session.listener,
        )
    return EvalResult(session.run.dir, session.report, result)


def evolve(config: Config | None = None, **how: Unpack[Options]) -> EvolveResult:
    """Evolve the agent's prompt and say whether it got better on sealed tasks.

    config: settings, or a mapping of them; what they leave open is the default, or the embedded profile's
    for the embedded model. run_dir: the run's directory (default `runs/<time>`); one that exists is resumed,
    and refused where settings, task file or seed prompt differ. prompt_file: the user's own starting prompt.
    agent: a name or "module:Callable". tasks: a shipped set or a JSONL file. models: model objects by role in
    place of the config's strings. listener: called with Progress. replay: answer every call from the run,
    buy none.

    Raises ConfigError for what is wrong before the first call, BudgetStop at a cap (what is finished is
    kept, a partial report is written, the same call resumes) and FatalModelError where a model can't answer.
    """
    return run_now(evolve_async(config, **how), "evolve")


def evaluate(config: Config | None = None, **how: Unpack[EvalOptions]) -> EvalResult:
    """Play one prompt set on one split and score it. Arguments as in `evolve`; `split`, `limit` (tasks)."""
    return run_now(evaluate_async(config, **how), "evaluate")


def evaluate_suite(
    suite: str | Path | Suite, config: Config | None = None, **how: Unpack[play.Options]
) -> play.Evaluation:
    """`roleagent_lite.evals.evaluate`, with the report written at the end, at a stop as well."""
    how["report"] = how.get("report") or write_all
    return play.evaluate(suite, config, **how)
