"""A run directory as an enemy would fill it, and the same run in plain words: equal in all but the texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from roleagent_lite.config import from_mapping
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
    Step,
    Task,
    Trajectory,
    Usage,
)

EVIL = (
    "<script>alert(1)</script><img src=x onerror=alert(1)><svg/onload=alert(1)>"
    "\" onmouseover=\"alert(1) ' x='![pixel](http://evil.example/p.png) [click](javascript:alert(1)) "
    "<http://evil.example> http://evil.example | cell | `tick` ``` ~~~ **bold** _it_ &lt;b&gt; "
    "</td></table></textarea></title></style></script> --> ]]> "
    "\x1b]0;own\x07\x1b[2J\x1b[31m \x9b31m \u202e \u2066 {{7*7}} ${x} {x.__class__} =cmd|' /C calc'!A0"
)
LINES = f"{EVIL}\n# heading\n\n---\n- item\n> quote\n```\n| a | b |\n|---|---|\n<div>\n[ref]: http://evil.example\n{EVIL}"
IDS = ("../../x", "/etc/passwd", "a\x00b", "CON", "x" * 3000, "-rf", "..", "nul.txt", "a\nb", "\u202e", "")
Words = Callable[[str, int], str]


def evil(plain: str, number: int) -> str:
    """What stands in place of `plain`; different for each number."""
    return f"{LINES if number % 2 else EVIL} {IDS[number % len(IDS)]} {plain} {number}"


def harmless(plain: str, number: int) -> str:
    return f"{plain} {number}"


def build(path: Path, words: Words = evil) -> Path:
    """A finished evolution of two rounds in which every text that can be chosen is `words`."""
    w = words
    config = from_mapping(
        {"model": w("model", 0), "tasks": w("tasks", 1), "agent": w("agent", 2), "prompts": w("prompts", 3)}
    )
    seed = PromptSet(
        "seed" + w("s", 0)[:8],
        {f"act.{w('text', 4)}": w("Act.", 5), "act.playbook": w("", 7)},
        None,
        w("seed", 5),
    )
    child = PromptSet(
        "child" + w("c", 0)[:8],
        {f"act.{w('text', 4)}": w("Act now.", 7), "act.playbook": w("x", 9)},
        seed.id,
        w("why", 7),
    )
    tasks = [
        Task(
            w(f"{split}{i}", i),
            w("env", 1),
            w("goal", 2 * i + 1),
            params={"type": w("type", i % 2), w("p", 3): [w("v", 5)]},
            split=split,
        )
        for split in ("train", "dev", "test")
        for i in range(4)
    ]
    with Run.create(path, config) as run:
        for one in tasks:
            run.tasks.put(one)
        run.prompt_sets.put(seed)
        run.prompt_sets.put(child)
        start = {
            "version": w("v", 1),
            "tasks_hash": w("h", 3),
            "seed_set": seed.id,
            "models": {"agent": w("m", 5)},
            "counts": {"train": 4, "dev": 4, "test": 4},
        }
        run.record("start", "start", start)
        for round in (1, 2):
            p = {t.id: 0.25 + 0.1 * (i == round) for i, t in enumerate(tasks[:4])}
            run.record(
                f"round/{round}",
                "round",
                {"round": round, "drawn": [t.id for t in tasks[:2]], "p": p, "counts": {}},
            )
            for t in tasks[:2]:
                for r in range(2):
                    _play(run, t, seed, round, r, w, solved=r == 0)
            run.record(
                f"candidate/{round}/x",
                "candidate",
                {
                    "round": round,
                    "parent": seed.id,
                    "child": child.id if round == 1 else None,
                    "component": w("c", 1),
                    "accepted": round == 1,
                    "reason": w("r", 3),
                    "wins": 1,
                    "losses": 0,
                    "ties": 1,
                },
            )
        for t in tasks[4:8]:
            _play(run, t, seed, 0, 0, w, solved=False)
            _play(run, t, child, 1, 0, w, solved=True)
        for t in tasks[8:]:
            _play(run, t, seed, 3, 0, w, solved=False)
            _play(run, t, child, 3, 0, w, solved=True)
        broken = replace(tasks[8], id=w("broken", 9))
        run.tasks.put(broken)
        _play(run, broken, child, 3, 0, w, solved=False, error=w("Traceback\nError:", 1))
        _rest(run, seed, child, w)
    return path


def _play(
    run: Run,
    t: Task,
    prompts: PromptSet,
    round: int,
    rollout: int,
    w: Words,
    *,
    solved: bool,
    error: str | None = None,
) -> None:
    kind = "infrastructure_error" if error else "solved" if solved else "failed"
    outcome = Outcome(kind, "" if solved else w("reason", 3))  # type: ignore[arg-type]
    steps = tuple(
        Step(
            w("see", 2 * n + 1),
            w("act", n),
            w("came", 2 * n + 1),
            float(solved and n == 1),
            w("state", n),
            (w("a", 1), w("b", 2)),
            w("think", 3),
            (w("foretold", 5), None),
            w("said", 7),
            n == 0,
        )
        for n in range(2)
    )
    one = Trajectory(
        f"{round}/{prompts.id[:8]}/{t.id}#{rollout}",
        t.id,
        prompts.id,
        w("model", 1),
        round,
        rollout,
        t.split,
        steps,
        float(solved),
        outcome,
        w("arm", rollout),
        8,
        w("end", 1),
        error,
        1.0,
    )
    run.trajectories.put(one)
    if t.split == "train":
        run.credits.put(
            Credit(
                one.id,
                ((0.5, None), (0.1, None)),
                (0.5, 0.1),
                (1.0, 1.0),
                (0.5, 0.1),
                (0, 1),
                (0.0, 0.0),
                0.0,
                (0.0, 0.0),
                (),
                {w("formula", 1): w("f", 3)},
            )
        )
        if not solved:
            run.diagnoses.put(
                Diagnosis(one.id, w("mode", 1), w("detail", 3), 1, w("lesson", 5), w("query", 7))
            )


def _rest(run: Run, seed: PromptSet, child: PromptSet, w: Words) -> None:
    for role in ("agent", "reflector"):
        request = Request(
            role, w("module", 1), (Message("system", w("s", 3)), Message("user", w("u", 5))), sample=w("x", 1)
        )
        run.calls.put(
            Call(
                w(role, 1),
                w("model", 1),
                w("http://host", 0),
                request,
                Reply(w("reply", 7), "stop", w("think", 1), Usage(1, 1, 0, 0, 0.1)),
            )
        )
    run.record("fixed/1", "fixed", {"mode": w("mode", 1), "prompt_set": child.id, "round": 1})
    for n in range(3):
        run.record(f"note/{w('n', n)}", "note", {"text": w("note", 2 * n + 1)})
    final = {
        "seed": seed.id,
        "best": child.id,
        "final": child.id,
        "accepted": True,
        "p": 0.05,
        "reason": w("because", 3),
    }
    run.record("final", "final", final)
    run.record(
        "session/1", "session", {"seconds": 3.0, "calls": 4, "replayed": 0, "stopped": w("stopped", 1)}
    )
    run.record("finished", "finished", {})
