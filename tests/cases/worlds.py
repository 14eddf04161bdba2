"""What the field cases of all worlds share: tasks of a world as a file, played through the whole product."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from roleagent_lite import jobs
from roleagent_lite.types import Task
from tests.cases import kit
from tests.cases.kit import Played
from tests.cases.reader import PLANS
from tests.envs.worlds import World
from tests.fake_server import FakeServer, Script, Seen


def few(world: World, count: int, **params: Any) -> list[Task]:
    """Tasks `w1`, `w2`, ... of a world for the split test; `params` over their own."""
    found = world.tasks(count)
    found = [found[n % len(found)] for n in range(count)]
    return [
        replace(task, id=f"w{n}", split="test", params={**task.params, **params})
        for n, task in enumerate(found, 1)
    ]


def file_of(folder: Path, tasks: Sequence[Task]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({**asdict(task), "params": dict(task.params)}) for task in tasks]
    (folder / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder / "t.jsonl"


def asked(folder: Path, tasks: Sequence[Task], script: Script, **settings: Any) -> tuple[Played, list[Seen]]:
    """`evaluate` with a model that answers by `script`; what was played, and the requests."""
    with FakeServer(script) as fake:
        given = {"model": f"fake@{fake.url}", "workers": 1, **settings}
        jobs.evaluate(given, tasks=file_of(folder, tasks), run_dir=folder / "run")
        return kit.read(folder / "run"), list(fake.requests)


def read_out(folder: Path, tasks: Sequence[Task], plans: Sequence[Sequence[str]], **settings: Any) -> Played:
    """`evaluate` with an agent that reads out each task's plan; no model is asked."""
    PLANS.clear()
    PLANS.update({task.id: plan for task, plan in zip(tasks, plans, strict=True)})
    given = {"model": "fake@http://127.0.0.1:9", "agent": "tests.cases.reader:read", "workers": 1, **settings}
    jobs.evaluate(given, tasks=file_of(folder, tasks), run_dir=folder / "run")
    return kit.read(folder / "run")
