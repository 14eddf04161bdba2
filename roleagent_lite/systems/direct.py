"""prompt: act only; the starting prompt, one action a reply, no thought and no prediction.

The row "prompt only" of the tables of arXiv 2606.10917. Keeps: the same instructions, playbook and
demonstrations that all systems start from. Leaves out: thoughts (a reasoning model's own go on), predictions.
"""

from __future__ import annotations

from roleagent_lite.agents.choose import ChooseAgent
from roleagent_lite.agents.show import decision_from, select, view_inputs
from roleagent_lite.systems.base import Attempt, Base
from roleagent_lite.systems.meter import MeteredAsker
from roleagent_lite.types import Agent, Decision, PromptSet, View


class Direct:
    """An Agent that writes its action alone (module act without its other outputs)."""

    def __init__(self, asker: MeteredAsker, prompt_set: PromptSet) -> None:
        self.prompt_set = prompt_set
        self._asker = asker

    async def act(self, view: View) -> Decision:
        """Raises ReplyError where no usable reply came, and what ends the attempt or the run."""
        admissible = view.observation.admissible
        answer = await self._asker.ask(
            "act",
            select(self._asker.prompts.module("act"), view_inputs(view)),
            prompt_set=self.prompt_set,
            sample=view.sample,
            temperature=view.temperature,
            enums={"action": admissible} if admissible and not view.observation.open else None,
            counts={"thought": 0, "predictions": 0},
        )
        return decision_from(answer, 0)


class Prompt(Base):
    keeps = "the starting prompt"
    leaves_out = "thoughts and predictions"
    modules = ("act",)
    choosing = ("choose",)

    def agent(self, at: Attempt) -> Agent:
        if self.kind == "choose":
            return ChooseAgent(at.asker, self.prompt_set, "off", seed=self.setting.seed)
        return Direct(at.asker, self.prompt_set)
