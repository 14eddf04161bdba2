"""react: a thought before each action (Yao et al. 2022, arXiv 2210.03629).

Keeps: thought, action and observation in turn; the thoughts of the steps that are shown are shown with them,
so that a thought can carry what the window of steps loses.
Leaves out: the hand-written trajectories of the paper as examples (all systems start from the same texts);
the whole episode as context (as many past steps are shown as the environment's settings say, to all systems
alike); thoughts where the model sees fit (one before every action); the switch to chain of thought with
self-consistency.
"""

from __future__ import annotations

from roleagent_lite.rollout import perform
from roleagent_lite.stage import Stage
from roleagent_lite.systems.base import Attempt
from roleagent_lite.systems.mind import Mind, Thinking, Told
from roleagent_lite.types import Outcome, Trajectory


async def think_and_act(stage: Stage, mind: Mind, told: Told) -> Outcome:
    """Plays an open stage to its end, a thought before each action."""
    while True:
        outcome = await stage.move(await mind.move(stage, told))
        if outcome is not None:
            return outcome


class React(Thinking):
    paper = "2210.03629"
    keeps = "a thought before each action; past thoughts shown with the past steps"
    leaves_out = "hand-written examples; the whole episode as context; chain of thought with self-consistency"

    async def attempt(self, at: Attempt) -> Trajectory:
        mind = self.mind(at)
        return await perform(
            lambda stage: think_and_act(stage, mind, Told()),
            at.episode,
            name=at.id,
            prompt_set=self.prompt_set,
            model_name=self.model,
        )

    def most_asks(self, limit: int) -> int:
        return limit * self.asks_a_move
