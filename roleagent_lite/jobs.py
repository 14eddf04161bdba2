"""The library's front door: `evolve` and `evaluate` open a run, do the work and write the report.

Owns what a job is made of: settings, task sets, the seed prompt, what is checked before the first call, the
session's record. Leaves out the loop (evolve), scoring (evals), the report (report) and the screen (cli).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict, TypeVar, Unpack

from roleagent_lite.agents import make_agent
from roleagent_lite.ask import Asker, Prompts, load_prompts
from roleagent_lite.config import RunConfig, from_mapping, merge
from roleagent_lite.errors import ConfigError
from roleagent_lite.evals.harness import evaluate as score
from roleagent_lite.evolve.estimate import planned, planned_evaluation
from roleagent_lite.evolve.export import export
from roleagent_lite.evolve.loop import Evolution, run_evolution
from roleagent_lite.evolve.tasks import TaskSets, one_split, task_sets
from roleagent_lite.lm.ledger import Ledger
from roleagent_lite.lm.plan import PlannedCalls, estimate
from roleagent_lite.lm.pool import Models, open_models
from roleagent_lite.report.write import write_report
from roleagent_lite.store import Run
from roleagent_lite.types import ROLES, Listener, Model, Progress, PromptSet, Result, Role, Split
from roleagent_lite.version import __version__

__all__ = ["EvalResult", "EvolveResult", "evaluate", "evaluate_async", "evolve", "evolve_async", "export"]

T = TypeVar("T")
Config = RunConfig | Mapping[str, Any]  # settings as TOML has them will do as well


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


class _Session:
    """One process's part in a run: its record and the report, however it ends."""

    def __init__(self, run: Run, ledger: Ledger) -> None:
        self._run = run
        self._ledger = ledger
        self._start = time.monotonic()
        self._told = run.status == "finished"  # a finished run that is opened again gets no session more
        self.report = run.dir / "report.md"

    def __enter__(self) -> _Session:
        self._before = self._ledger.snapshot().total
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        total = self._ledger.snapshot().total
        number = 1 + sum(event.kind == "session" for event in self._run.events)
        data = {
            "seconds": round(time.monotonic() - self._start, 1),
            "calls": total.calls - self._before.calls,
            "replayed": total.replayed - self._before.replayed,
            "stopped": "" if kind is None else f"{kind.__name__}: {error}",
        }
        if kind is None:
            self._run.record("finished", "finished", {})
        if not self._told:
            self._run.record(f"session/{number}", "session", data)
        self.report = write_report(self._run.dir)


def settings(
    config: Config | None,
    *,
    agent: str | None = None,
    tasks: str | Path | None = None,
    replay: bool = False,
) -> RunConfig:
    """The resolved settings: what the caller set, over the embedded profile where the agent is embedded."""
    if isinstance(config, RunConfig):
        config = config.model_dump(exclude_unset=True)
    given: dict[str, Any] = dict(config or {})
    if agent is not None:
        given["agent"] = agent
    if tasks is not None:
        given["tasks"] = str(tasks)
    if replay:
        given = merge(given, {"limits": {"replay": True}})
    asked = from_mapping(given)
    return from_mapping(merge(profile(asked.model_for("agent")), given))


def profile(model: str) -> dict[str, Any]:
    """Settings that a small embedded model needs (prompts/embedded/profile.toml); none for other models."""
    import tomllib

    from roleagent_lite.content import room

    path = room("prompts") / "embedded" / "profile.toml"
    if model.partition(":")[0] != "embedded" or not path.is_file():
        return {}
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _directory(run_dir: str | Path | None) -> Path:
    return Path(run_dir) if run_dir is not None else Path("runs") / datetime.now().strftime("%Y%m%d-%H%M%S")


def _prompts(config: RunConfig, prompt_file: str | Path | None) -> Prompts:
    """The prompts of the config; a single file stands over those that the agent's model has by default."""
    own = Path(config.prompts)
    if own.is_file():
        prompts = load_prompts(profile(config.model_for("agent")).get("prompts", "v1")).override(own)
    else:
        prompts = load_prompts(config.prompts)
    return prompts.override(prompt_file) if prompt_file is not None else prompts


def _beginning(run: Run, config: RunConfig, sets: TaskSets, seed: PromptSet) -> dict[str, Any]:
    """What the run starts from, as its event `start` says it.

    Raises ConfigError where the run was started from another task file or seed prompt, naming which.
    """
    data = {
        "version": __version__,
        "tasks_hash": sets.hash,
        "models": {role: config.model_for(role) for role in ROLES},
        "seed_set": seed.id,
        "counts": sets.counts,
    }
    before = run.events.get("start")
    for key, what in (("tasks_hash", f"task file '{config.tasks}'"), ("seed_set", "seed prompt")):
        if before is not None and before.data.get(key) != data[key]:
            raise ConfigError(
                f"run {run.dir} was started with another {what} ({key} {before.data.get(key)} then, "
                f"{data[key]} now); use another --run name, or restore the file to resume"
            )
    return data


@asynccontextmanager
async def _opened(
    config: RunConfig,
    run_dir: str | Path | None,
    sets: TaskSets,
    seed: PromptSet,
    models: Mapping[Role, Model] | None,
    listener: Listener | None,
) -> AsyncIterator[tuple[Run, Models, _Session, Listener | None]]:
    """The run, its models and its session; a listener that knows the dollars spent so far."""
    with Run.create(_directory(run_dir), config) as run:
        data = _beginning(run, config, sets, seed)
        async with open_models(config, run, overrides=models, listener=listener) as pool:
            run.record("start", "start", data)
            _tell_torn(run, listener)
            run.prompt_sets.put(seed)
            for task in (*sets.train, *sets.dev, *sets.test):
                run.tasks.put(task)
            with _Session(run, pool.ledger) as session:
                yield run, pool, session, _counting(listener, pool.ledger)


def _tell_torn(run: Run, listener: Listener | None) -> None:
    """Half a record that a kill left is told and noted for the report; the store cuts it off."""
    for table, size in run.torn.items():
        text = f"the last record of {table}.jsonl was half written ({size} bytes): it is dropped and redone"
        run.record(f"note/torn/{table}/{len(getattr(run, table))}/{size}", "note", {"text": text})
        if listener is not None:
            listener(Progress("resume", note=text))


def _counting(listener: Listener | None, ledger: Ledger) -> Listener | None:
    if listener is None:
        return None
    return lambda progress: listener(replace(progress, dollars=ledger.snapshot().total.dollars))


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
    prompts = _prompts(config, prompt_file)
    seed = prompts.seed_set()
    sets = task_sets(config.tasks, dev=config.evolve.dev, test=config.evolve.test)
    async with _opened(config, run_dir, sets, seed, models, listener) as (run, pool, session, told):
        _announce(planned(config, prompts, seed, sets), run, pool, told)
        evolution = await run_evolution(
            config, run, pool, tasks=sets, prompts=prompts, seed_set=seed, listener=told
        )
        results = await _sealed_test(config, run, pool, sets, prompts, evolution, told)
    return EvolveResult(run.dir, session.report, evolution, results)


async def _sealed_test(
    config: RunConfig,
    run: Run,
    pool: Models,
    sets: TaskSets,
    prompts: Prompts,
    evolution: Evolution,
    listener: Listener | None,
) -> tuple[Result, ...]:
    """The test tasks, played once: the seed, and the best on dev (adopted or not) where that is another."""
    systems = {"seed": evolution.seed, "best": evolution.best}
    if evolution.best.id == evolution.seed.id:
        del systems["best"]
    asker = _asker(config, pool, prompts)
    return tuple(
        [
            await score(
                agent=make_agent(config.agent, asker, prompt_set, config.wia, config.seed),
                tasks=sets.test,
                run=run,
                models=pool,
                config=config,
                suite="test",
                system=name,
                round=config.evolve.rounds + 1,
                listener=listener,
            )
            for name, prompt_set in systems.items()
        ]
    )


def _announce(plan: Sequence[PlannedCalls], run: Run, pool: Models, listener: Listener | None) -> None:
    """Planned calls, tokens and dollars: recorded and told before the first call is paid."""
    total = estimate(plan, {role: pool.price(role) for role in ROLES})
    run.record("estimate", "estimate", asdict(total))
    if listener is not None:
        listener(Progress("estimate", note=total.words))


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
    prompts = _prompts(config, prompt_file)
    seed = prompts.seed_set()
    sets = one_split(config.tasks, split, limit)
    async with _opened(config, run_dir, sets, seed, models, listener) as (run, pool, session, told):
        _announce(planned_evaluation(config, prompts, seed, sets.of(split)), run, pool, told)
        result = await score(
            agent=make_agent(config.agent, _asker(config, pool, prompts), seed, config.wia, config.seed),
            tasks=sets.of(split),
            run=run,
            models=pool,
            config=config,
            suite=split,
            system="seed",
            round=0,
            listener=told,
        )
    return EvalResult(run.dir, session.report, result)


def _asker(config: RunConfig, pool: Models, prompts: Prompts) -> Asker:
    return Asker(pool, prompts, max_tokens=config.limits.max_tokens)


def _run(work: Coroutine[Any, Any, T], name: str) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise ConfigError(f"an event loop is running already (a notebook?); use `await {name}_async(...)`")


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
    return _run(evolve_async(config, **how), "evolve")


def evaluate(config: Config | None = None, **how: Unpack[EvalOptions]) -> EvalResult:
    """Play one prompt set on one split and score it. Arguments as in `evolve`; `split`, `limit` (tasks)."""
    return _run(evaluate_async(config, **how), "evaluate")
