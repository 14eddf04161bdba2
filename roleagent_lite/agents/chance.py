"""RandomAgent: a seeded draw among the admissible actions; the floor that every agent must beat."""

from __future__ import annotations

import random

from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Decision, PromptSet, View


class RandomAgent:
    """The draw depends on seed, episode and step alone, so that it is the same in any order of play."""

    def __init__(self, prompt_set: PromptSet, seed: int = 0) -> None:
        self.prompt_set = prompt_set
        self._seed = seed

    async def act(self, view: View) -> Decision:
        """Raises ConfigError in an environment that lists no admissible actions."""
        actions = view.observation.admissible
        if not actions:
            raise ConfigError(
                f"agent 'random' cannot play '{view.task.env}', which lists no admissible actions; "
                "use the agent 'generate', or leave the system 'random' out"
            )
        draw = random.Random(f"{self._seed}/{view.sample}/{view.step}")
        return Decision(action=draw.choice(actions))
