"""What the field cases share: the toy world played through the whole product against the fake server.

`evaluate` runs the job in the test's process, `command_line` the program in one of its own; both play tasks
of the toy world (or of another class of `tests.toy`, or of any `module:Class`) with the model that a dialect
names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite import jobs
from roleagent_lite.agents import make_agent
from roleagent_lite.ask import load_prompts
from roleagent_lite.config import from_mapping, merge
from roleagent_lite.lm.pool import open_models
from roleagent_lite.rollout import Episode, play_many
from roleagent_lite.session import make_asker
from roleagent_lite.store import Event, Run
from roleagent_lite.types import Call, Task, Trajectory
from tests.fake_server import Answer, FakeServer, Say, Script, Seen
from tests.kill_runner import command as command
from tests.toy import LOG

KEY = "sk-test-0123456789abcdefWXYZ"
# How a model string names the fake server in each dialect: our own transport, and DSPy's two.
DIALECTS = {"openai": "fake@{url}", "groq": "groq/fake@{url}", "anthropic": "anthropic/fake@{url}"}
TAKE, OPEN = '{"action": "take key"}', '{"action": "open door"}'


def mostly_slow(names: Iterable[Any]) -> list[Any]:
    """All but the first in the slow pass."""
    head, *rest = names
    return [head, *(pytest.param(name, marks=pytest.mark.slow) for name in rest)]


def text(seen: Seen) -> str:
    """All that a request says, as JSON with its characters as they are."""
    return json.dumps(seen.body, ensure_ascii=False)


def has_key(seen: Seen) -> bool:
    """Whether the toy world has given the key to the agent that asks."""
    return "You take the key." in text(seen)


def goal(seen: Seen) -> str:
    """The number that the task of a request carries in its goal."""
    found = re.search(r"number (\d+)\b", text(seen))
    assert found is not None, text(seen)
    return found[1]


def first(answer: Answer) -> Script:
    """`answer` until the key is taken, then the winning move."""
    return lambda seen: Say(OPEN) if has_key(seen) else answer


def won(seen: Seen) -> Answer:
    """Plays well."""
    return Say(OPEN if has_key(seen) else TAKE)


def of_task(number: int, answer: Answer) -> Script:
    """`answer` for one task (counted from 1), good play for the others."""
    return lambda seen: answer if goal(seen) == str(number) else won(seen)


def tasks_file(path: Path, count: int = 1, world: str = "Toy", **params: Any) -> Path:
    """`count` tasks `t1`, `t2`, ... of the split test."""
    path.parent.mkdir(exist_ok=True)
    env = world if ":" in world else f"tests.toy:{world}"
    rows = [
        {"id": f"t{n}", "env": env, "goal": f"Get out of hall number {n}.", "split": "test", "params": params}
        for n in range(1, count + 1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Played:
    """A run as it lies on the disk. `moves` of a task: what its environment received."""

    folder: Path
    trajectories: list[Trajectory]
    calls: list[Call]
    events: list[Event]
    moves: Mapping[str, list[list[str]]]

    @property
    def report(self) -> str:
        return (self.folder / "report.md").read_text(encoding="utf-8")

    @property
    def ends(self) -> list[tuple[str, str]]:
        """Kind and reason of each episode's outcome, in the order of the tasks."""
        return [(t.outcome.kind, t.outcome.reason) for t in self.trajectories]

    @property
    def notes(self) -> list[str]:
        return [str(e.data["text"]) for e in self.events if e.kind == "note"]


def read(folder: Path) -> Played:
    with Run.open(folder) as run:
        order = {task.id: n for n, task in enumerate(run.tasks)}
        played = sorted(run.trajectories, key=lambda t: order.get(t.task, 0))
        return Played(folder, played, list(run.calls), list(run.events), dict(LOG))


def evaluate(
    fake: FakeServer,
    folder: Path,
    *,
    dialect: str = "openai",
    tasks: int = 1,
    world: str = "Toy",
    model: str = "",
    run: str = "run",
    **settings: Any,
) -> Played:
    """`jobs.evaluate` on the toy world. `settings`: tables of the config. Raises what the job raises."""
    LOG.clear()
    file = tasks_file(folder / "t.jsonl", tasks, world)
    spec = model or DIALECTS[dialect].format(url=fake.url)
    given = merge({"model": spec, "workers": 1, "limits": {"timeout": 20.0}}, settings)
    jobs.evaluate(given, tasks=file, run_dir=folder / run)
    return read(folder / run)


async def foretell(
    fake: FakeServer, folder: Path, *, dialect: str = "openai", world: str = "Toy", **settings: Any
) -> Played:
    """One episode as training plays it, with predictions, through the open models of a run."""
    LOG.clear()
    spec = DIALECTS[dialect].format(url=fake.url)
    config = from_mapping(merge({"model": spec, "limits": {"timeout": 20.0}}, settings))
    prompts = load_prompts("v1")
    seed = prompts.seed_set()
    task = Task("t1", f"tests.toy:{world}", "Get out of hall number 1.", split="train")
    with Run.create(folder / "run", config) as run:
        async with open_models(config, run) as models:
            agent = make_agent("generate", make_asker(config, models, prompts), seed, config.wia)
            await play_many(
                agent, [Episode(task, 1, 0, 0.9, predict=True)], run=run, workers=1, model_name="fake"
            )
    return read(folder / "run")


@dataclass(frozen=True)
class Said:
    """What a user of the command line sees, and where the runs are."""

    code: int
    out: str
    err: str
    folder: Path

    def played(self, run: str = "run") -> Played:
        return read(self.folder / "runs" / run)

    def message(self, code: int, *words: str) -> str:
        """The one clear message: the exit code, every word in it, no traceback, no result."""
        assert self.code == code, f"exit {self.code}: {self.err[-2000:]}"
        assert "Traceback" not in self.err + self.out, self.err
        lines = [line for line in self.err.splitlines() if line.startswith("roleagent-lite: ")]
        assert len(lines) == 1, self.err
        assert [word for word in words if word not in lines[0]] == [], lines[0]
        return lines[0]


def command_line(
    fake: FakeServer,
    folder: Path,
    *more: str,
    tasks: int = 1,
    world: str = "Toy",
    model: Sequence[str] = (),
    run: str = "run",
    env: Mapping[str, str] | None = None,
) -> Said:
    """`roleagent-lite eval` on the toy world in a process of its own."""
    tasks_file(folder / "t.jsonl", tasks, world)
    named = list(model) or ["--model", "fake", "--base-url", fake.url]
    words = ["eval", "--tasks", "t.jsonl", *named, "--run", run, *more]
    return Said(*command(*words, cwd=folder, **(env or {})), folder)


def everything(folder: Path) -> str:
    """All that lies under `folder`, names included, as text."""
    found = [p for p in folder.rglob("*") if p.is_file()]
    return "\n".join([*map(str, found), *(p.read_bytes().decode("utf-8", "replace") for p in found)])
