"""What all systems share: the id of the episode that counts, the meter, and where what was spent is told.

Owns `solve` around each system's own attempt. Leaves out every attempt.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from roleagent_lite.ask import Asker
from roleagent_lite.ask.asker import ASKS
from roleagent_lite.envs import registry
from roleagent_lite.rollout import play
from roleagent_lite.stage import Episode, completed, trajectory_id
from roleagent_lite.systems.meter import Meter, MeteredAsker
from roleagent_lite.systems.setting import Setting, kind_of, own_set
from roleagent_lite.types import Agent, PromptSet, Task, Trajectory


@dataclass(frozen=True, slots=True)
class Attempt:
    """One task being solved: what is played, under which id, and who may be asked for it."""

    episode: Episode
    id: str
    asker: MeteredAsker


class Base:
    """A System. A subclass states what it is and gives `attempt`.

    paper: arXiv id, "" for none; keeps, leaves_out: what of the paper is here and what is not; sees_score:
    whether it is told between its tries how the environment scored them. `predict`: whether predictions are
    asked for. `asks_model` False: it plays without a model.
    """

    paper = ""
    keeps = ""
    leaves_out = ""
    sees_score = False
    predict = False
    asks_model = True
    modules: tuple[str, ...] = ()  # of an agent that writes its actions
    choosing: tuple[str, ...] = ()  # of one that chooses them

    def __init__(self, setting: Setting, name: str, base: PromptSet | None = None) -> None:
        self.name = name
        self.setting = setting
        self.kind = kind_of(setting) if self.asks_model else "generate"
        modules = self.choosing if self.kind == "choose" else self.modules
        self.prompt_set = own_set(setting, name, modules, base)
        self.model = setting.models["agent"].name if self.asks_model else ""
        limits, note = setting.config.limits, setting.models.note
        self._asker = Asker(  # one for all attempts, for it holds what is made once a model
            setting.models, setting.prompts, max_tokens=limits.max_tokens, trim=limits.trim, note=note
        )
        setting.run.prompt_sets.put(self.prompt_set)

    async def solve(
        self, task: Task, *, round: int, rollout: int, temperature: float, max_steps: int = 0
    ) -> Trajectory:
        """The episode that counts, from the run where it is there, else attempted now.

        Raises what ends a run (FatalModelError, BudgetStop, ConfigError) and nothing else.
        """
        started = time.monotonic()
        episode = Episode(task, round, rollout, temperature, self.predict, max_steps=max_steps)
        episode = completed(episode, self.setting.config.wia)
        name = trajectory_id(episode, self.prompt_set)
        stored = self.setting.run.trajectories.get(name)
        if stored is not None:
            return stored
        meter = Meter(self.setting.budget, self.setting.run)
        played = await self.attempt(Attempt(episode, name, MeteredAsker(self._asker, meter, name)))
        in_steps = {call for step in played.steps for call in step.call_ids}
        others = tuple(dict.fromkeys(call for call in meter.calls if call not in in_steps))
        return replace(played, id=name, other_calls=others, seconds=time.monotonic() - started)

    async def attempt(self, at: Attempt) -> Trajectory:
        """This system's way. The trajectory's id may still be that of a trial."""
        return await play(self.agent(at), at.episode, model_name=self.model, wia=self.setting.config.wia)

    def agent(self, at: Attempt) -> Agent:
        """The agent of a system that plays one episode and nothing else."""
        raise NotImplementedError

    def most_calls(self, task: Task, max_steps: int = 0) -> int | None:
        """An upper bound of the calls for one task: each ask may take a re-ask; the budget caps it."""
        limit = max_steps or registry.spec(task.env).max_steps(task)
        bound = ASKS * self.most_asks(limit)
        budget = self.setting.budget
        return min(bound, int(budget.amount)) if budget.rule == "calls" and budget.amount else bound

    def most_asks(self, limit: int) -> int:
        """An upper bound of the asks in an attempt of `limit` steps."""
        return limit

    @property
    def asks_a_move(self) -> int:
        """Asks that one thought and one action take: one reply, or a thought and then the scores."""
        return 2 if self.kind == "choose" else 1
