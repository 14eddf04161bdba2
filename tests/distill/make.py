"""Small runs for the tests of distill, written row by row as `evolve` writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roleagent_lite.config import from_mapping
from roleagent_lite.store import Run
from roleagent_lite.types import Call, Message, Outcome, Reply, Request, Split, Step, Trajectory, Usage

SYSTEM = "Act in the hall. Reply with one action."
SEEN = "You are in a hall. There is a key and a door."
MODEL = "tiny"
OPENED: list[Run] = []


def new_run(path: Path, **settings: Any) -> Run:
    run = Run.create(path, from_mapping({"model": "openai/tiny", "tasks": "toy", **settings}))
    OPENED.append(run)
    return run


def chat(observation: str = SEEN, system: str = SYSTEM) -> tuple[Message, ...]:
    return (Message("system", system), Message("user", observation))


def call(
    run: Run,
    key: str,
    text: str,
    messages: Sequence[Message] | None = None,
    *,
    module: str = "act",
    choices: tuple[str, ...] | None = None,
    stop: tuple[str, ...] = (),
    **reply: Any,
) -> str:
    """A stored call; its key."""
    request = Request(
        "agent", module, tuple(messages if messages is not None else chat()), 0.9, choices=choices, stop=stop
    )
    run.calls.put(Call(key, MODEL, None, request, Reply(text, usage=Usage(10, 2), **reply)))
    return key


def step(said: str, *keys: str, outcome: str = "Nothing happens.", state: str = "", **more: Any) -> Step:
    return Step(
        SEEN, said, outcome, state_key=state or f"state-{said}-{keys}", said=said, call_ids=keys, **more
    )  # fmt: skip


def episode(
    run: Run,
    task: str,
    rollout: int,
    solved: bool,
    *,
    steps: Sequence[Step] | None = None,
    round: int = 1,
    split: Split = "train",
    arm: str = "none",
    outcome: Outcome | None = None,
) -> Trajectory:
    """A stored episode; without `steps`, of one step `take key` with its call. States are all different."""
    name = f"{round}/seed0000/{task}#{rollout}"
    if steps is None:
        key = call(run, f"call-{name}", "take key")
        steps = [step("take key", key, state=f"state-{name}", reward=float(solved))]
    trajectory = Trajectory(
        id=name, task=task, prompt_set="seed00000000", model=MODEL, round=round, rollout=rollout, split=split,
        steps=tuple(steps), score=float(solved),
        outcome=outcome or Outcome("solved" if solved else "failed", "" if solved else "lost"), arm=arm,
        max_steps=6,
    )  # fmt: skip
    run.trajectories.put(trajectory)
    return trajectory


def group(run: Run, task: str, outcomes: Sequence[bool], **more: Any) -> list[Trajectory]:
    return [episode(run, task, k, solved, **more) for k, solved in enumerate(outcomes)]


def rewrite(run: Run, rollout: int, **fields: Any) -> None:
    """Puts other values into the stored row of one rollout, past every check; `...` takes a field away."""
    path = run.trajectories.path
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["row"]["rollout"] == rollout:
            record["row"] = {k: v for k, v in {**record["row"], **fields}.items() if v is not ...}
        lines.append(json.dumps(record, separators=(",", ":")))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def again(run: Run) -> Run:
    """The run as another process opens it."""
    run.close()
    OPENED.append(Run.open(run.dir))
    return OPENED[-1]
