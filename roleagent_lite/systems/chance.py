"""random: a seeded draw among the admissible actions; the floor that every system must beat. No paper.

Owns the system. Leaves out the draw itself (agents/chance.py).
"""

from __future__ import annotations

from roleagent_lite.agents.chance import RandomAgent
from roleagent_lite.systems.base import Attempt, Base
from roleagent_lite.types import Agent


class Random(Base):
    keeps = "an even draw among the admissible actions"
    asks_model = False

    def agent(self, at: Attempt) -> Agent:
        return RandomAgent(self.prompt_set, self.setting.seed)

    def most_asks(self, limit: int) -> int:
        return 0
