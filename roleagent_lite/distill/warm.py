"""Warm start of online training: the model plays the training tasks as it is and imitates what it solved.

Owns that stage: its play, its objective, its adapter, `warm.json`. Only the model's own episodes are
imitated, never an oracle's. Leaves out which episodes may be imitated (samples.py), one optimiser step
(train.py), and the updates that follow (online.py), whose reference the warm adapter is.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roleagent_lite.distill import curve, lora, tree
from roleagent_lite.distill.choices import OfflineChoices, alike, drawn, is_choice, key_of
from roleagent_lite.distill.job import identity
from roleagent_lite.distill.loss import Totals
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.prepare import prepare
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.stand import Stand, name_of
from roleagent_lite.distill.tokenizer import Tokenizer
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.distill.train import Trainer
from roleagent_lite.envs import registry
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.types import Listener, Task, Trajectory

# Rounds of the run: as it is, and what it turned out to have solved. The updates' rounds come after them.
ROUND, HINDSIGHT = 0, 1


class ImitatedChoices:
    """Mean of -log p of the moves that solved episodes made, among the admissible ones, at the temperature
    of the play (nats a move)."""

    name = "imitation of its own solved episodes"

    def __init__(self, room: int) -> None:
        self._room = room

    def totals(self, batch: Sequence[Tokens], recipe: Recipe) -> Totals:
        return Totals(len(batch), len(batch), 0, length=1)

    def parts(self, batch: Sequence[Tokens], size: int) -> list[list[Tokens]]:
        """One micro-batch a tree of at most `room` tokens."""
        return tree.with_rows(batch, self._room)

    def loss(self, policy: Policy, batch: Sequence[Tokens], totals: Totals) -> tuple[Any, dict[str, float]]:
        states = [same[0] for same in alike(batch)]
        found = dict(zip(map(key_of, states), tree.choice_sums(policy, states), strict=True))
        logps = load("torch").stack([drawn(t, found[key_of(t)]) for t in batch])
        return -logps.sum() / max(totals.rows, 1), {"moves": float(len(batch)), "states": float(len(states))}

    def report(self, sums: Mapping[str, float], totals: Totals) -> dict[str, float]:
        return dict(sums)

    def limit(self, report: Mapping[str, float]) -> str:
        return ""


class _Imitation(Trainer):
    """Samples of one task stay together: they share most of their tokens."""

    @staticmethod
    def behind(tokens: Tokens) -> object:
        return tokens.sample.task


async def warm_up(
    stand: Stand, policy: Policy, tokenizer: Tokenizer, recipe: Recipe,
    train: Sequence[Task], dev: Sequence[Task], listener: Listener | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Plays and trains, or goes on; what `warm.json` then says. Afterwards the policy's adapter is the warm
    one, and a frozen copy of it the reference.

    Raises RoleAgentError where nothing was solved, and what the trainer raises.
    """
    settings, out = recipe.warm, stand.session.run.dir / "warm"
    clock = time.monotonic()
    stand.model.changed(name_of(recipe, "base"))
    before = await stand.play(dev, ROUND, group=1, temperature=0.0, predict=False)
    looked = time.monotonic()
    groups = await stand.play(
        train, ROUND, group=settings.group, temperature=settings.temperature, predict=False
    )
    stand.credit(groups)
    again, moves = relabelled(train, groups, settings.hindsight)
    for task in again:
        stand.session.run.tasks.put(task)
    retraced = await stand.play(
        again, HINDSIGHT, group=1, temperature=settings.temperature, predict=False, moves=moves
    ) if again else []  # fmt: skip
    stand.credit(retraced)
    played = time.monotonic()
    ours = _recipe_of(recipe)
    found = prepare(stand.session.run, ours, tokenizer)
    solved = [t for t in found.usable if is_choice(t)]
    rows = [t for t in solved if _unsure(t, settings.sure)] or solved
    if not rows:
        raise RoleAgentError(
            f"the model solved none of {len(train)} training tasks in {settings.group} tries each: there is "
            "nothing of its own to imitate; take easier tasks, more tries (warm.group) or no warm start"
        )
    trained = _Imitation(policy, ImitatedChoices(recipe.online.room), ours, out, _identity(ours, rows)).run(
        rows, listener
    )
    if trained.stopped:
        raise RoleAgentError(f"the warm start stopped: {trained.stopped}")
    lora.freeze(policy.model, out / "adapter")
    policy.reference = "the adapter after the warm start"
    told = {
        "dev": curve.told([t for g in before for t in g]),
        "played": curve.told([t for g in groups for t in g]),
        "imitated": {"episodes": len({t.sample.trajectory for t in solved}),
                     "tasks": len({t.sample.task for t in solved}), "moves": len(rows), "of": len(solved),
                     "states": len(alike(rows)), "relabelled": len(again)},
        "steps": trained.steps, "last": dict(trained.last),
        "seconds": {"dev": round(looked - clock, 2), "play": round(played - looked, 2),
                    "learn": round(time.monotonic() - played, 2)},
        "peak_mib": curve.peak_mib(),
    }  # fmt: skip
    return _kept(stand.session.run.dir / "warm.json", told)


def _unsure(tokens: Tokens, sure: float) -> bool:
    """Whether the move was made with a probability under `sure`, or it is not known."""
    logp = OfflineChoices.recorded(tokens)
    return sure >= 1 or logp is None or math.exp(float(logp)) < sure


def relabelled(
    train: Sequence[Task], groups: Sequence[Sequence[Trajectory]], most: int
) -> tuple[list[Task], dict[str, tuple[str, ...]]]:
    """(tasks that failed episodes solved without being meant to, the moves of each by its id).

    Of each training task at most `most`: one a new task, those of few moves first. A world says so by the
    method `hindsight(moves)` of its environments, which gives those of the moves that solve each; a world
    without it has none.
    """
    known = {task.id for task in train}
    tasks: list[Task] = []
    moves: dict[str, tuple[str, ...]] = {}
    for task, group in zip(train, groups, strict=True):
        found: dict[str, tuple[Task, tuple[str, ...]]] = {}
        failed = sorted({tuple(s.action for s in t.steps) for t in group if not t.solved}) if most else []
        for solved in _hindsight(task, failed):
            for other, taken in solved:
                if other.id not in found or len(taken) < len(found[other.id][1]):
                    found[other.id] = other, taken
        fresh = [pair for pair in found.values() if pair[0].id not in known]
        for other, taken in sorted(fresh, key=lambda pair: (len(pair[1]), pair[0].id))[:most]:
            known.add(other.id)
            tasks.append(other)
            moves[other.id] = taken
    return tasks, moves


def _hindsight(task: Task, failed: Sequence[Sequence[str]]) -> list[list[tuple[Task, tuple[str, ...]]]]:
    """What the moves of each failed episode of `task` solved, by one environment."""
    if not failed:
        return []
    env = registry.make(task)
    try:
        says = getattr(env, "hindsight", None)
        return [list(says(actions)) if says is not None else [] for actions in failed]
    finally:
        env.close()


def _identity(recipe: Recipe, rows: Sequence[Tokens]) -> dict[str, Any]:
    """What this stage shares with its resume: nothing of what only the updates look at."""
    every = identity(recipe, rows)
    return {
        k: v for k, v in every.items() if k == "online.room" or k.partition(".")[0] not in ("online", "loss")
    }


def _recipe_of(recipe: Recipe) -> Recipe:
    """The recipe of this stage: imitation of its rounds by its own settings."""
    warm = recipe.warm
    train = {"epochs": warm.epochs, "steps": 0, "lr": warm.lr, "batch": warm.batch, "checkpoint_every": 1}
    return recipe.model_copy(
        update={
            "method": "sft",
            "data": recipe.data.model_copy(update={"rounds": (ROUND, HINDSIGHT)}),
            "train": recipe.train.model_copy(update=train),
            "sft": recipe.sft.model_copy(update={"per_task": warm.per_task, "min_alignment": 0.0}),
        }
    )


def _kept(path: Path, told: dict[str, Any]) -> dict[str, Any]:
    """`told` on the disk; what stands there already where this stage was done before (its seconds count)."""
    try:
        if path.is_file():
            return dict(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RoleAgentError(f"cannot write {path}: {error.strerror}") from None
    return told
