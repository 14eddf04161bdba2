"""An evaluation: all systems of a suite on the same tasks, in one run directory that can be resumed.

Owns what is checked before the first call, the order of systems, and what is given back. Leaves out scoring
(harness), the systems (systems) and the report (report), which the caller hands in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

from roleagent_lite.agents import settled
from roleagent_lite.ask import Prompts
from roleagent_lite.config import RunConfig
from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError, MissingExtra
from roleagent_lite.evals.harness import play_system
from roleagent_lite.evals.suite import Assigned, Suite, adjusted, load_suite, suite_hash, tasks_of
from roleagent_lite.lm.plan import PlannedCalls
from roleagent_lite.session import (
    Beginning,
    Config,
    Reporter,
    Session,
    opened,
    run_now,
    settings,
    starting_prompts,
)
from roleagent_lite.stats import Summary, summarise
from roleagent_lite.systems import Setting, make_system
from roleagent_lite.systems.make import check_name
from roleagent_lite.tasksets import family_of
from roleagent_lite.types import Listener, Model, Result, Role, System, TaskBudget

_IN, _OUT = (
    400,
    100,
)  # tokens of one call beside what a world shows, roughly: systems differ too much for more

Systems = Sequence[str | System]


class Options(TypedDict, total=False):
    """What `evaluate` takes besides suite and settings; see there."""

    systems: Systems | None
    repetitions: int | None
    temperature: float | None
    budget: TaskBudget | str | None
    seeds: Sequence[int] | None
    limit: int | None
    run_dir: str | Path | None
    runs: str | Path
    prompt_file: str | Path | None
    models: Mapping[Role, Model] | None
    listener: Listener | None
    replay: bool
    report: Reporter | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A finished evaluation. `results` in the order of the suite's systems; `types`: task type by task id;
    `report` None where no report was asked for."""

    run_dir: Path
    suite: Suite
    results: tuple[Result, ...]
    types: Mapping[str, str]
    report: Path | None

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """Every number of each system, in the order of `results`."""
        return tuple(summarise(result, self.types) for result in self.results)

    def to_dataframe(self) -> Any:
        """One row an episode: system, task, type, repetition, solved, score, trajectory (a pandas DataFrame).

        solved and score are missing where the episode ended in an infrastructure error. Raises MissingExtra
        without pandas.
        """
        return frame(episode_rows(self.results, self.types))


def episode_rows(results: Sequence[Result], types: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of `Evaluation.to_dataframe` as plain dicts, by system, then task, then repetition."""
    return [
        {
            "suite": result.suite,
            "system": result.system,
            "task": task,
            "type": types.get(task, "unknown"),
            "repetition": number,
            "solved": solved,
            "score": dict(enumerate(result.values.get(task, ()))).get(number),
            "trajectory": dict(enumerate(result.trajectories.get(task, ()))).get(number),
        }
        for result in results
        for task, row in result.scores.items()
        for number, solved in enumerate(row)
    ]


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """`rows` as a pandas DataFrame. Raises MissingExtra where pandas is not installed."""
    try:
        import pandas  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtra("a DataFrame needs the package 'pandas': pip install pandas") from None
    return pandas.DataFrame([dict(row) for row in rows])


def chosen(suite: str | Path | Suite, systems: Systems | None, changes: Mapping[str, Any]) -> Suite:
    """The suite that is played, by name or given, with `changes`; names of systems checked. ConfigError."""
    if not isinstance(suite, Suite):
        suite = load_suite(suite)
    names = None if systems is None else [s if isinstance(s, str) else s.name for s in systems]
    suite = adjusted(suite, systems=names, **changes)
    for name in suite.systems if systems is None else [s for s in systems if isinstance(s, str)]:
        check_name(name)
    return suite


def for_suite(config: RunConfig, suite: Suite) -> RunConfig:
    """The settings of a run that plays `suite`: its tasks are what the suite names."""
    return config.model_copy(update={"tasks": " + ".join(one.tasks for one in suite.sets)})


async def evaluate_async(
    suite: str | Path | Suite = "quick",
    config: Config | None = None,
    *,
    systems: Systems | None = None,
    repetitions: int | None = None,
    temperature: float | None = None,
    budget: TaskBudget | str | None = None,
    seeds: Sequence[int] | None = None,
    limit: int | None = None,
    run_dir: str | Path | None = None,
    runs: str | Path = "runs",
    prompt_file: str | Path | None = None,
    models: Mapping[Role, Model] | None = None,
    listener: Listener | None = None,
    replay: bool = False,
    report: Reporter | None = None,
) -> Evaluation:
    """`evaluate` for callers that have an event loop. Same contract."""
    changes = {
        "repetitions": repetitions, "temperature": temperature, "budget": budget, "seeds": seeds,
        "limit": limit,
    }  # fmt: skip
    suite, tasks = tasks_of(chosen(suite, systems, changes))
    resolved = for_suite(settings(config, replay=replay), suite)
    prompts = starting_prompts(resolved, prompt_file)
    resolved = settled(resolved, prompts, [one.task for one in tasks])
    beginning = Beginning(
        [one.task for one in tasks],
        suite_hash(suite),
        "task set",
        prompts.seed_set(),
        {"suite": suite.as_data()},
        partial(registry.ready, [one.task for one in tasks]),
        prompts.fingerprint,
    )
    async with opened(
        resolved, run_dir, beginning, models=models, listener=listener, report=report
    ) as session:
        made = _made(suite, systems, session, resolved, prompts, Path(runs))
        _announce(session, made, suite, tasks)
        results = [
            await play_system(
                one, suite, tasks, run=session.run, workers=resolved.workers, listener=session.listener
            )
            for one in made
        ]
    types = {one.task.id: family_of(one.task) for one in tasks}
    written = session.report if report is not None else None
    return Evaluation(session.run.dir, suite, tuple(results), types, written)


# What a system says of itself; sees_score: whether it is told between its tries how they were scored.
_FACTS = ("paper", "keeps", "leaves_out", "sees_score")


def _made(
    suite: Suite, systems: Systems | None, session: Session, config: RunConfig, prompts: Prompts, runs: Path
) -> list[list[System]]:
    """Each system once a seed, all of them before the first is played; the run says what each is."""
    made: list[list[System]] = []
    for wanted in systems if systems is not None else suite.systems:
        one: list[System] = []
        for seed in suite.seeds:
            setting = Setting(config, session.run, session.models, prompts, suite.budget, seed, runs)
            one.append(make_system(wanted, setting) if isinstance(wanted, str) else wanted)
        first = one[0]
        session.run.prompt_sets.put(first.prompt_set)
        data: dict[str, Any] = {
            "system": first.name,
            "prompt_set": first.prompt_set.id,
            "model": first.model,
        }
        for fact in _FACTS:  # a system object of the user's own need not say them
            if hasattr(first, fact):
                data[fact] = getattr(first, fact)
        session.run.record(f"system/{first.name}", "system", data)
        made.append(one)
    sets = [one[0].prompt_set.id for one in made]
    for number, one in enumerate(made):
        if sets[number] in sets[:number]:
            other = made[sets.index(sets[number])][0].name
            raise ConfigError(
                f"systems '{other}' and '{one[0].name}' have one prompt set, so their episodes could not be "
                "told apart; leave one of them out"
            )
    return made


def _announce(session: Session, made: list[list[System]], suite: Suite, tasks: Sequence[Assigned]) -> None:
    """At most so many calls, system by system, where each can say; no plan where one cannot."""
    plan: list[PlannedCalls] = []
    for one in made:
        bounds = [one[0].most_calls(a.task, a.max_steps) for a in tasks]
        known = [b for b in bounds if b is not None]
        if len(known) < len(bounds):
            return
        seen = _IN + registry.shown([a.task for a in tasks])
        plan.append(PlannedCalls("agent", one[0].name, sum(known) * suite.rollouts, seen, _OUT))
    session.announce(plan)


def evaluate(
    suite: str | Path | Suite = "quick", config: Config | None = None, **how: Unpack[Options]
) -> Evaluation:
    """Play all systems of a suite on the same tasks and score them.

    suite: a shipped suite's name, a suite file, or a Suite. config: settings or a mapping of them, as for
    `roleagent_lite.evolve`. systems: names (random, prompt, react, reflexion, lats, adapt, role-agent,
    role-agent:RUN, oracle, module:callable) or System objects, in place of the suite's; so are repetitions,
    temperature, budget ("calls=30" a task), seeds and limit (tasks a set). run_dir: default `runs/<time>`;
    one that exists is resumed, and refused where suite, settings or prompt differ. runs: where RUN is looked
    for. report: writes the report when the run ends, `roleagent_lite.report.write_report` say. The rest as
    in `roleagent_lite.evolve`.

    Raises ConfigError for what is wrong before the first call, BudgetStop at a cap of the run (what is
    finished is kept, the same call resumes) and FatalModelError where a model cannot answer.
    """
    return run_now(evaluate_async(suite, config, **how), "evaluate")
