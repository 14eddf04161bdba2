"""Small run directories for the report's tests, written through the store like a real run's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roleagent_lite.config import RunConfig, from_mapping
from roleagent_lite.store import Run
from roleagent_lite.types import (
    Call,
    Credit,
    Diagnosis,
    Message,
    Outcome,
    PromptSet,
    Reply,
    Request,
    Split,
    Step,
    Task,
    Trajectory,
    Usage,
)
from roleagent_lite.wia.credit import credit_all

SEED = PromptSet("seed00000000", {"act.instructions": "Act.", "act.playbook": ""})
CHILD = PromptSet(
    "child0000000", {"act.instructions": "Act.", "act.playbook": "- Open it first."}, SEED.id, "playbook"
)
SOLVED, LOST = Outcome("solved"), Outcome("failed", "step_limit")
BROKEN = Outcome("infrastructure_error", "provider")


def task(number: int, split: Split = "test", kind: str = "put") -> Task:
    return Task(f"{split}{number}", "toy", f"goal {number}", params={"type": kind}, split=split)


def step(action: str = "open box", valid: bool = True, foretold: str | None = "The box is open.") -> Step:
    return Step(
        "You see a box.", action, "The box is open.", 0.0, f"s-{action}", ("open box", "look"), "hm",
        (foretold,), action, valid,
    )  # fmt: skip


def episode(
    of: Task,
    prompts: PromptSet,
    outcome: Outcome = SOLVED,
    *,
    round: int = 1,
    rollout: int = 0,
    steps: Sequence[Step] | None = None,
    arm: str = "none",
    error: str | None = None,
) -> Trajectory:
    return Trajectory(
        id=f"{round}/{prompts.id[:8]}/{of.id}#{rollout}", task=of.id, prompt_set=prompts.id,
        model="toy-model", round=round, rollout=rollout, split=of.split,
        steps=tuple(steps or (step("look"), step())),
        score=float(outcome.kind == "solved"), outcome=outcome, arm=arm, max_steps=8,
        error=error, seconds=1.0,
    )  # fmt: skip


def call(number: int, role: str = "agent", usage: Usage | None = None) -> Call:
    request = Request(role, "act", (Message("user", f"q{number}"),), sample=str(number))  # type: ignore[arg-type]
    known = Usage(100, 10, 20, None, 0.001)
    return Call(
        f"c{number}",
        "toy-model",
        None,
        request,
        Reply("ok", usage=known if usage is None else usage, seconds=2.0),
    )


def new_run(path: Path, config: RunConfig | None = None) -> Run:
    return Run.create(path, config or from_mapping({"model": "openai/toy", "tasks": "toy"}))


def play(run: Run, *trajectories: Trajectory, tasks: Sequence[Task] = ()) -> None:
    for one in tasks:
        run.tasks.put(one)
    for trajectory in trajectories:
        run.trajectories.put(trajectory)


def credit(run: Run, trajectories: Sequence[Trajectory]) -> list[Credit]:
    found = credit_all(list(trajectories), run.config.wia)
    for one in found:
        run.credits.put(one)
    return found


def whole_run(
    path: Path, *, finished: bool = True, adopted: bool = True, config: RunConfig | None = None
) -> Run:
    """An evolve run of two rounds: 4 train, 4 dev and 12 test tasks; the child solves more.

    Sealed tasks: the seed solves 3 of 12, the child those and 6 more, so 6 wins and no loss.
    """
    run = new_run(path, config)
    train = [task(i, "train", ("put", "clean")[i % 2]) for i in range(4)]
    dev = [task(i, "dev", ("put", "clean")[i % 2]) for i in range(4)]
    test = [task(i, "test", ("put", "clean")[i % 2]) for i in range(12)]
    for one in (*train, *dev, *test):
        run.tasks.put(one)
    run.prompt_sets.put(SEED)
    run.prompt_sets.put(CHILD)
    run.record("start", "start", {"version": "0.1.0", "tasks_hash": "abcd", "seed_set": SEED.id})
    for k in (1, 2):
        p = {t.id: 0.25 + (0.05 if k == 2 and i == 0 else 0.0) for i, t in enumerate(train)}
        run.record(
            f"round/{k}", "round", {"round": k, "drawn": [t.id for t in train[:2]], "p": p, "counts": {}}
        )
        group = [
            episode(
                t,
                SEED,
                SOLVED if r == 0 else LOST,
                round=k,
                rollout=r,
                steps=[step("look"), step(valid=r == 0)],
            )
            for t in train[:2]
            for r in range(2)
        ]
        play(run, *group)
        credit(run, group)
        for t in group:
            if not t.solved:
                run.diagnoses.put(
                    Diagnosis(t.id, "navigation_loop", "went round", 1, "Open it first.", "box")
                )
    run.record(
        "candidate/1/child000",
        "candidate",
        {"round": 1, "parent": SEED.id, "child": CHILD.id, "component": "act.playbook", "accepted": True,
         "reason": "2 won, 0 lost", "wins": 2, "losses": 0, "ties": 0},
    )  # fmt: skip
    play(run, *(episode(t, SEED, LOST, round=0) for t in dev))
    play(run, *(episode(t, CHILD, round=1) for t in dev))
    if finished:
        play(run, *(episode(t, SEED, SOLVED if i < 3 else LOST, round=9) for i, t in enumerate(test)))
        play(run, *(episode(t, CHILD, SOLVED if i < 9 else LOST, round=9) for i, t in enumerate(test)))
        final = CHILD.id if adopted else SEED.id
        run.record(
            "final", "final",
            {"seed": SEED.id, "best": CHILD.id, "final": final, "accepted": adopted, "p": 0.06,
             "reason": "4 won"},
        )  # fmt: skip
    for i in range(3):
        run.calls.put(call(i))
    run.calls.put(call(9, "reflector", Usage()))
    run.record("session/1", "session", {"seconds": 75.0, "calls": 4, "replayed": 0, "stopped": ""})
    if finished:
        run.record("finished", "finished", {})
    return run
