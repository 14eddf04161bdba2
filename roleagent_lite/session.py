"""What every job is made of: settings, the starting prompt, an open run with its models, a session's record.

Owns opening a run and closing it however it ends, what is checked before the first call, and the events
start, estimate and session. Leaves out the work in between, and the report, which the caller hands in.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from roleagent_lite.ask import Asker, Prompts, load_prompts
from roleagent_lite.config import RunConfig, from_mapping, merge
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.lm.ledger import Ledger
from roleagent_lite.lm.plan import PlannedCalls, estimate
from roleagent_lite.lm.pool import Models, open_models
from roleagent_lite.lm.weights import is_embedded
from roleagent_lite.store import Run
from roleagent_lite.types import ROLES, Listener, Model, Progress, PromptSet, Role, Task
from roleagent_lite.version import __version__

T = TypeVar("T")
Config = RunConfig | Mapping[str, Any]  # settings as TOML has them will do as well
Reporter = Callable[[Path], Path]  # writes the report of a run directory and gives its path


# --- settings -----------------------------------------------------------------------------------------


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
    if not is_embedded(model) or not path.is_file():
        return {}
    return tomllib.loads(path.read_text(encoding="utf-8"))


def starting_prompts(config: RunConfig, prompt_file: str | Path | None = None) -> Prompts:
    """The prompts of the config; a single file stands over those that the agent's model has by default."""
    own = Path(config.prompts)
    if own.is_file():
        prompts = load_prompts(profile(config.model_for("agent")).get("prompts", "v1")).override(own)
    else:
        prompts = load_prompts(config.prompts)
    return prompts.override(prompt_file) if prompt_file is not None else prompts


def make_asker(config: RunConfig, models: Models, prompts: Prompts) -> Asker:
    limits = config.limits
    return Asker(models, prompts, max_tokens=limits.max_tokens, trim=limits.trim, note=models.note)


# --- an open run --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a run starts from. `hash` is that of the task files, `named` how a refusal calls them.

    `prompts`: fingerprint of the prompt files, "" where a caller has none.
    `fixed`: events by key and kind that hold what else must be the same at a resume. `ready`: raises in words
    what the tasks' worlds lack here; asked before a model is opened, unless the run holds episodes already.
    """

    tasks: Sequence[Task]
    hash: str
    named: str
    seed: PromptSet
    fixed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ready: Callable[[], None] | None = None
    prompts: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """Tasks of each split."""
        return {split: sum(t.split == split for t in self.tasks) for split in ("train", "dev", "test")}


@dataclass(slots=True)
class Session:
    """One process's part in a run. The listener knows the dollars spent; `report` counts at the end."""

    run: Run
    models: Models
    listener: Listener | None
    report: Path

    def announce(self, plan: Sequence[PlannedCalls]) -> None:
        """Planned calls, tokens and dollars: recorded and told before the first call is paid."""
        total = estimate(plan, {role: self.models.price(role) for role in ROLES})
        self.run.record("estimate", "estimate", asdict(total))
        if self.listener is not None:
            self.listener(Progress("estimate", note=total.words))


def directory(run_dir: str | Path | None) -> Path:
    """`run_dir`, or one under runs/ that is named after the time."""
    return Path(run_dir) if run_dir is not None else Path("runs") / datetime.now().strftime("%Y%m%d-%H%M%S")


@asynccontextmanager
async def opened(
    config: RunConfig,
    run_dir: str | Path | None,
    beginning: Beginning,
    *,
    models: Mapping[Role, Model] | None = None,
    listener: Listener | None = None,
    report: Reporter | None = None,
) -> AsyncIterator[Session]:
    """The run and its models for as long as the block lasts; its session is recorded, its report written.

    Leaving without an exception marks the run finished. `report` is called however the block ends. Raises
    ConfigError where the run was begun with something else, naming it.
    """
    with Run.create(directory(run_dir), config) as run:
        start = _checked(run, config, beginning)
        if beginning.ready is not None and not len(run.trajectories):
            beginning.ready()
        async with open_models(config, run, overrides=models, listener=listener) as pool:
            run.record("start", "start", start)
            for key, data in beginning.fixed.items():
                run.record(key, key, data)
            _tell_torn(run, listener)
            run.prompt_sets.put(beginning.seed)
            for task in beginning.tasks:
                run.tasks.put(task)
            session = Session(run, pool, _counting(listener, pool.ledger), run.dir / "report.md")
            told = run.status == "finished"  # a finished run that is opened again gets no session more
            began, before, stored = time.monotonic(), pool.ledger.snapshot().total, len(run.calls)
            stopped = ""
            try:
                yield session
                run.record("finished", "finished", {})
            except BaseException as error:
                stopped = f"{type(error).__name__}: {error}"
                raise
            finally:
                total = pool.ledger.snapshot().total
                data = {
                    "seconds": round(time.monotonic() - began, 1),
                    # A model in this process is not in the ledger; its replies are in the run.
                    "calls": max(total.calls - before.calls, len(run.calls) - stored),
                    "replayed": total.replayed - before.replayed,
                    "stopped": stopped,
                }
                with _behind(stopped, listener):
                    if not told:
                        number = 1 + sum(event.kind == "session" for event in run.events)
                        run.record(f"session/{number}", "session", data)
                    if report is not None:
                        session.report = report(run.dir)


@contextmanager
def _behind(stopped: str, listener: Listener | None) -> Iterator[None]:
    """What is written at the end of a session. Where something stopped it (`stopped`, in words), that is what
    its caller hears of: a disk that is full for the report was full before."""
    try:
        yield
    except RoleAgentError as error:
        if not stopped:
            raise
        if listener is not None:
            listener(Progress("report", note=str(error)))


def _checked(run: Run, config: RunConfig, beginning: Beginning) -> dict[str, Any]:
    """What the run starts from, as its event `start` says it.

    Raises ConfigError where the run was started from another task file, seed prompt or suite, naming which.
    """
    data = {
        "version": __version__,
        "tasks_hash": beginning.hash,
        "models": {role: config.model_for(role) for role in ROLES},
        "seed_set": beginning.seed.id,
        "prompts": beginning.prompts,
        "counts": beginning.counts,
    }
    before = run.events.get("start")
    if before is None:
        return data
    for key, what in (("tasks_hash", beginning.named), ("seed_set", "seed prompt")):
        _same(run, what, key, before.data.get(key), data[key])
    if before.data.get("prompts"):  # not in runs that were begun before prompts had a fingerprint
        _same(run, "set of prompt files", "prompts", before.data["prompts"], beginning.prompts)
    for key, fixed in beginning.fixed.items():
        event = run.events.get(key)
        if event is None:
            raise ConfigError(
                f"run {run.dir} is another job (it has no {key}); use another --run name (distill: --out), "
                "or resume that job"
            )
        now = json.loads(json.dumps(fixed))
        for name in sorted({*event.data, *now}):
            _same(run, key, name, event.data.get(name), now.get(name))
    return data


def _same(run: Run, what: str, key: str, then: Any, now: Any) -> None:
    if then != now:
        raise ConfigError(
            f"run {run.dir} was started with another {what} ({key} {then} then, {now} now); "
            "use another --run name (distill: --out), or restore it to resume"
        )


def _tell_torn(run: Run, listener: Listener | None) -> None:
    """Half a record that a kill left is told and noted for the report; the store cuts it off."""
    for table, size in run.torn.items():
        text = f"the last record of {table}.jsonl was half written ({size} bytes): it is dropped and redone"
        getattr(run, table).mend()
        run.record(f"note/torn/{table}/{len(getattr(run, table))}/{size}", "note", {"text": text})
        if listener is not None:
            listener(Progress("resume", note=text))


def _counting(listener: Listener | None, ledger: Ledger) -> Listener | None:
    if listener is None:
        return None
    return lambda progress: listener(replace(progress, dollars=ledger.snapshot().total.dollars))


def run_now(work: Coroutine[Any, Any, T], name: str) -> T:
    """Runs a job to its end. Raises ConfigError inside an event loop, naming what to await there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise ConfigError(f"an event loop is running already (a notebook?); use `await {name}_async(...)`")
