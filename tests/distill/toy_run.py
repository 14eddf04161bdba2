"""A run of episodes that were really played in the toy hall, by fixed moves, with every call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from roleagent_lite.rollout import play
from roleagent_lite.stage import Episode
from roleagent_lite.store import Run
from roleagent_lite.types import Decision, PromptSet, Step, Task, View
from tests.distill import make


class Scripted:
    """Plays fixed moves; foretells the same each time ("" = nothing)."""

    prompt_set = PromptSet("seed00000000", {})

    def __init__(self, moves: Sequence[str], foretold: str = "") -> None:
        self.moves, self.foretold = list(moves), foretold

    async def act(self, view: View) -> Decision:
        action = self.moves[view.step - 1]
        return Decision(action, (self.foretold,) if self.foretold else (), said=action)


def add(
    run: Run, task: Task, ways: Sequence[Sequence[str]], said: Callable[[Step], str], foretold: str = ""
) -> None:
    """A group of `task`, one rollout a way, which ends with its last move. said: the reply of a step."""
    run.tasks.put(task)
    for k, way in enumerate(ways):
        episode = Episode(task, 1, k, 0.9, max_steps=len(way))
        played = asyncio.run(play(Scripted(way, foretold), episode, model_name=make.MODEL))
        steps = [
            replace(step, said=said(step), call_ids=(_call(run, f"{played.id}/{n}", step, said(step)),))
            for n, step in enumerate(played.steps)
        ]
        run.trajectories.put(replace(played, steps=tuple(steps), max_steps=6))


def _call(run: Run, key: str, step: Step, text: str) -> str:
    return make.call(run, key, text, make.chat(step.observation))
