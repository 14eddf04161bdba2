"""`roleagent-lite env`: the environments there are; `env new NAME` writes one, `env check NAME` tries one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roleagent_lite.cli import border
from roleagent_lite.cli.settings import AsJson

if TYPE_CHECKING:
    from roleagent_lite.envs.checker import Limit
    from roleagent_lite.types import Task

Action = Annotated[str | None, typer.Argument(metavar="[new|check]", help="Write an example, or try one.")]
Name = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="new: a name; check: an environment or module:Class.")
]
File = Annotated[str | None, typer.Option("--tasks", help="With check: its tasks, a JSONL file or a set.")]
Folder = Annotated[Path, typer.Option("--to", help="With new: the folder to write into.")]
TRIED = 3  # tasks of each split that `check` plays
GRACE = 10.0  # seconds that a call into an environment may go on after the time of the check is over
SEEDS = 8  # tasks, alike but for the seed, that must not all be the same episode


def listed() -> list[dict[str, Any]]:
    """Each known environment as plain data; one that lacks a package says so."""
    from roleagent_lite.envs import registry
    from roleagent_lite.errors import RoleAgentError

    found = []
    for name in registry.known():
        try:
            spec = registry.spec(name)
            found.append({"name": name, "facts": spec.facts, "snapshots": spec.snapshots, "problem": ""})
        except RoleAgentError as error:
            found.append({"name": name, "facts": False, "snapshots": False, "problem": str(error)})
    return found


def check(name: str, file: str | None) -> dict[str, Any]:
    """What `env check` found: tasks by split, those tried, problems, one entry a distinct complaint, and
    notes: what may be meant so."""
    import json
    from collections import Counter
    from tempfile import TemporaryDirectory

    from roleagent_lite.envs import own, registry
    from roleagent_lite.envs.checker import Limit, seed_ignored
    from roleagent_lite.envs.checker import check as check_env
    from roleagent_lite.tasksets import load_tasks

    with TemporaryDirectory() as folder:
        path = own.write_tasks(name, Path(folder) / "tasks.jsonl", file)
        tasks = load_tasks(path)
        example = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    registry.ready(tasks)
    spec = registry.spec(name)
    make = spec.make
    limit = Limit()
    tried: Counter[str] = Counter()
    problems = {problem: problem for problem in attributes(name, tasks[0])}
    counts = Counter(t.split for t in tasks)
    with recalled(limit):
        for task in tasks:
            if tried[task.split] >= TRIED or limit.over():
                continue
            tried[task.split] += 1
            others = [t for t in tasks if t.id != task.id and t.split == task.split]
            other = others[0] if others and task.params else None
            for problem in check_env(make, task, other=other, limit=limit, ending=not spec.wants):
                problems.setdefault(problem, f"task {task.id}: {problem}")
        alike = [t for t in tasks if (t.goal, t.params) == (tasks[0].goal, tasks[0].params)][:SEEDS]
        ignored = [] if limit.over() else seed_ignored(make, alike, limit=limit)
    notes = []
    if file is None and spec.tasks is None and not spec.task_set:  # the tasks are ours: one a seed
        unused = ", or give it tasks of its own (--tasks, tasks()): else test tasks are training tasks again"
        notes = [words + unused for words in ignored]
    else:
        problems |= {problem: problem for problem in ignored}
    if limit.stopped:
        notes.append(stopped(limit.seconds, tried.total(), sum(min(n, TRIED) for n in counts.values())))
    return {
        "name": name,
        "splits": dict(counts),
        "tried": {split: tried[split] for split in counts},
        "example": example,
        "problems": list(problems.values()),
        "notes": notes,
    }


def attributes(name: str, task: Task) -> list[str]:
    """What is wrong with a class's max_steps and failure_modes, which would end a run before it begins."""
    from roleagent_lite.envs import registry
    from roleagent_lite.errors import ConfigError
    from roleagent_lite.evolve.world import vocabulary_of

    wrong = []
    for look in (lambda: registry.spec(name).max_steps(task), lambda: vocabulary_of(name)):
        try:
            look()
        except ConfigError as error:
            wrong.append(str(error))
    return wrong


@contextmanager
def recalled(limit: Limit) -> Iterator[None]:
    """Ends a call into an environment that does not come back; the checker then names the call.

    What hangs outside of Python cannot be ended. Does nothing outside of the main thread.
    """
    import signal
    import threading

    from roleagent_lite.errors import EnvironmentFault

    def late(_number: int, _frame: object) -> None:
        raise EnvironmentFault(f"does not come back; it was ended after {GRACE:g} s or more")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit.seconds + GRACE, GRACE)  # again, for close() may hang too
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def stopped(seconds: float, tried: int, planned: int) -> str:
    """That a check ended at its time limit, and how far it came."""
    return (
        f"the check stopped after {seconds:g} s: {tried} of {planned} tasks were tried, the last of them in "
        "part; what it did not get to is unknown"
    )


def findings(problems: list[str], notes: list[str]) -> str:
    """What a check found, a line each: problems, and what may be meant so."""
    return "\n".join([*(problems or ["no problems found"]), *(f"note: {note}" for note in notes)])


def command(
    action: Action = None, name: Name = None, tasks: File = None, to: Folder = Path(), json: AsJson = False
) -> None:
    """List environments; `env new NAME` writes a working example with a test; `env check NAME` plays one."""
    from roleagent_lite.cli.output import emit, flat, table
    from roleagent_lite.errors import ConfigError, nearest

    if action is None:
        with border.result_only():
            known = listed()
        rows = [[e["name"], "yes" if e["facts"] else "", "yes" if e["snapshots"] else "", e["problem"]]
                for e in known]  # fmt: skip
        emit(known, table(["environment", "true state", "snapshots", ""], rows), json)
        return
    if action not in ("new", "check"):
        raise ConfigError(f"env knows `new` and `check`, not '{action}'{nearest(action, ['new', 'check'])}")
    if name is None:
        raise ConfigError(f"env {action} needs a name: roleagent-lite env {action} NAME")
    if action == "new":
        from roleagent_lite.envs.template import names, write

        written = [str(path) for path in write(name, to)]
        module, kind = names(name)
        lines = [*(f"wrote {path}" for path in written), f"try it: roleagent-lite env check {module}:{kind}"]
        emit({"written": written, "name": f"{module}:{kind}"}, "\n".join(lines), json)
        return
    with border.result_only():
        found = check(name, tasks)
    text = f"{name}: {flat(found['splits'])} tasks; tried {flat(found['tried'])}\n"
    emit(found, text + findings(found["problems"], found["notes"]), json)
    if found["problems"]:
        raise typer.Exit(1)
