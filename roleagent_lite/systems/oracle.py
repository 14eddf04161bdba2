"""oracle: the environment's own winning plan, played; what the score of a perfect player is. No paper.

Keeps: the plan as the environment's method `walkthrough()` gives it, on the task's true state. Leaves out:
looking for things; a plan that is longer than the step limit ends there as any episode does.
"""

from __future__ import annotations

from collections.abc import Sequence

from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError, EpisodeEnd
from roleagent_lite.systems.base import Attempt, Base
from roleagent_lite.types import Agent, Decision, PromptSet, Task, View


class Follower:
    """An Agent that plays a plan; at its end it gives up."""

    def __init__(self, plan: Sequence[str], prompt_set: PromptSet) -> None:
        self.prompt_set = prompt_set
        self._plan = plan

    async def act(self, view: View) -> Decision:
        if view.step > len(self._plan):
            raise EpisodeEnd("gave_up", f"the plan's {len(self._plan)} actions did not solve the task")
        return Decision(action=self._plan[view.step - 1])


def plan_of(task: Task) -> list[str]:
    """The environment's plan. Raises ConfigError where it has none."""
    env = registry.make(task)
    try:
        walkthrough = getattr(env, "walkthrough", None)
        if not callable(walkthrough):
            raise ConfigError(
                f"the system 'oracle' needs an environment with a method walkthrough(), which '{task.env}' "
                "has not; leave it out of the systems"
            )
        return [str(action) for action in walkthrough()]
    finally:
        env.close()


class Oracle(Base):
    keeps = "the environment's own winning plan"
    asks_model = False

    def agent(self, at: Attempt) -> Agent:
        return Follower(plan_of(at.episode.task), self.prompt_set)

    def most_asks(self, limit: int) -> int:
        return 0
