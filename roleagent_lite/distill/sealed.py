"""The sealed tasks, opened once: base and adapter play them together, and the two are compared.

Owns that it happens once a run, the Result rows, and `sealed.json`. Leaves out training and its dev tasks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import combinations
from typing import Any

from roleagent_lite.distill import lora
from roleagent_lite.distill.local import LocalModel
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.stand import Stand, name_of
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.stats import paired_difference, success_rate, task_means
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Result, Task, Trajectory, Usage

LEAST = 60  # sealed tasks under which no comparison is made


async def play_sealed(
    stand: Stand, policy: Policy, recipe: Recipe, updates: int, least: int = LEAST
) -> dict[str, Any]:
    """Plays all test tasks once at temperature 0 with the base, with the adapter that training started from
    (where there was one) and with the trained one; what `sealed.json` then says.

    Once a run: after an interruption it goes on, after further updates it is refused. Raises ConfigError for
    fewer than `least` sealed tasks.
    """
    run = stand.session.run
    tasks = [t for t in load_tasks(stand.config.tasks) if t.split == "test"]
    if len(tasks) < least:
        raise ConfigError(
            f"task file '{stand.config.tasks}' has {len(tasks)} tasks of split 'test'; a comparison that can "
            f"be trusted needs {least}"
        )
    run.record("sealed", "sealed", {"updates": updates, "tasks": len(tasks)})
    opened = run.events.get("sealed")
    if opened is not None and opened.data["updates"] != updates:
        raise ConfigError(
            f"the sealed tasks were opened after {opened.data['updates']} updates, and {updates} are done "
            "now: choosing by them would make them dev tasks; train in another --out"
        )
    for task in tasks:
        run.tasks.put(task)
    started = lora.FROZEN in policy.model.peft_config
    systems = {"base": "base", **({"start": "start"} if started else {}), "adapter": "now"}
    results = []
    for place, (system, acting) in enumerate(systems.items(), 1):
        name = name_of(recipe, updates if system == "adapter" else system)
        model = LocalModel(policy, stand.model.tokenizer, name, acting=acting, most=recipe.data.max_tokens)
        # Ids of episodes hold round and prompt set, and the prompt set is the same: each has its own round.
        groups = await replace(stand, model=model).play(
            tasks, updates + place, group=1, temperature=0.0, predict=False
        )
        results.append(_result(system, tasks, [t for g in groups for t in g], name))
        run.results.put(results[-1])
    told = {
        "updates": updates, "tasks": len(tasks),
        "systems": {r.system: {"n": r.n, "solved": r.mean, "low": r.low, "high": r.high} for r in results},
        "pairs": [_pair(a, b) for a, b in combinations(results, 2)],
    }  # fmt: skip
    try:
        (run.dir / "sealed.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RoleAgentError(f"cannot write {run.dir / 'sealed.json'}: {error.strerror}") from None
    return told


def _result(system: str, tasks: Sequence[Task], played: Sequence[Trajectory], model: str) -> Result:
    by_task = {t.task: t for t in played}
    scores = {
        task.id: (float(by_task[task.id].solved) if by_task[task.id].outcome.scored else None,)
        for task in tasks
    }
    rate = success_rate(scores)
    return Result(
        "test", system, scores, rate.mean, rate.low, rate.high, rate.n, Usage(dollars=0.0),
        trajectories={task: (t.id,) for task, t in by_task.items()},
        seconds=round(sum(t.seconds for t in played), 3), temperature=0.0, model=model,
    )  # fmt: skip


def _pair(first: Result, second: Result) -> dict[str, Any]:
    """Second minus first on the same tasks; `within_noise`: no winner may be named."""
    paired = paired_difference(task_means(first.scores), task_means(second.scores))
    told = asdict(paired) | {"within_noise": paired.within_noise()} if paired is not None else {}
    return {"first": first.system, "second": second.system, **told}
