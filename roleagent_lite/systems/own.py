"""module:callable: the user's own agent, compared like any other system. No paper.

The callable is that of agents/external.py: `callable(view, prompt_set, ask)`. What it asks goes through the
meter. Leaves out what it does, and calls that it makes past `ask`.
"""

from __future__ import annotations

from roleagent_lite.agents.external import ExternalAgent, load_callable
from roleagent_lite.systems.base import Attempt, Base
from roleagent_lite.systems.setting import Setting
from roleagent_lite.types import Agent, Task


class Own(Base):
    keeps = "the user's callable"
    predict = True
    modules = ("act",)
    choosing = ("choose",)

    def __init__(self, setting: Setting, name: str) -> None:
        super().__init__(setting, name, setting.prompts.seed_set())
        self._call = load_callable(name)

    def agent(self, at: Attempt) -> Agent:
        return ExternalAgent(self._call, at.asker, self.prompt_set, self.name)

    def most_calls(self, task: Task, max_steps: int = 0) -> int | None:
        """None: nobody knows how often it asks; the budget's calls where there is one."""
        budget = self.setting.budget
        return int(budget.amount) if budget.rule == "calls" and budget.amount else None
