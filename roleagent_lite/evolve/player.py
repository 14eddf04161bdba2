"""Plays tasks with a prompt set and gives the rollouts their credit.

Owns how training and dev are played (groups and temperature) and the Credit rows. Leaves out one episode
(rollout), the formulas (wia) and what is learned from failures (world).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roleagent_lite.agents import make_agent
from roleagent_lite.ask import Asker
from roleagent_lite.config import RunConfig
from roleagent_lite.evolve.played import Played
from roleagent_lite.rollout import Episode, irreproducible, play_many, trajectory_id
from roleagent_lite.store import Run
from roleagent_lite.types import Listener, Progress, PromptSet, Split, Task, Trajectory
from roleagent_lite.wia import credit_group
from roleagent_lite.wia.align import scorer
from roleagent_lite.wia.fidelity import missing_warning


@dataclass(frozen=True, slots=True)
class Manner:
    """How a split is played: rollouts a task, temperature, whether the agent foretells, whether credited."""

    group: int
    temperature: float
    predict: bool
    credit: bool


def manners(config: RunConfig) -> dict[Split, Manner]:
    """Groups at a temperature in training; dev once at 0, without predictions: they would only cost."""
    foretells = config.wia.predict != "off"
    return {
        "train": Manner(config.evolve.group, config.evolve.temperature, foretells, True),
        "dev": Manner(1, 0.0, False, False),
    }


class Player:
    """Plays for one run. Trajectory ids hold round, prompt set, task and rollout, so a resume finds them.

    Raises ConfigError for an unknown `wia.scorer`: here, for the first credit comes after paid calls.
    """

    def __init__(self, config: RunConfig, run: Run, asker: Asker, listener: Listener | None) -> None:
        scorer(config.wia.scorer)
        self._config = config
        self._run = run
        self._asker = asker
        self._listener = listener
        self._manners = manners(config)
        self._model = asker.models["agent"].name
        self._warned = False

    async def play(self, tasks: Sequence[Task], prompt_set: PromptSet, round: int) -> list[Played]:
        """One Played a task, in order. All tasks are of one split. Raises what ends a run."""
        manner = self._manners[tasks[0].split]
        config = self._config
        agent = make_agent(config.agent, self._asker, prompt_set, config.wia, config.seed)
        episodes = [
            Episode(task, round, rollout, manner.temperature, manner.predict)
            for task in tasks
            for rollout in range(manner.group)
        ]
        trajectories = await play_many(
            agent,
            episodes,
            run=self._run,
            workers=self._config.workers,
            model_name=self._model,
            wia=self._config.wia,
            listener=self._watched(trajectory_id(episodes[0], prompt_set), manner.predict),
            stage=tasks[0].split,
        )
        size = manner.group
        groups = [trajectories[i : i + size] for i in range(0, len(trajectories), size)]
        return [self._credited(task, group, manner) for task, group in zip(tasks, groups, strict=True)]

    def _watched(self, first: str, foretells: bool) -> Listener:
        """The listener, which hears once the episode `first` is over if no step of it carries a prediction.

        That very episode, not whichever ended first: a resumed or replayed run has to say the same.
        """

        def hear(progress: Progress) -> None:
            if self._listener is not None:
                self._listener(progress)
            ended = self._run.trajectories.get(first) if foretells and not self._warned else None
            if ended is None:
                return
            self._warned = True
            warning = missing_warning([ended])
            if warning is not None:
                self._run.record("note/predictions", "note", {"text": warning})
                if self._listener is not None:
                    self._listener(replace(progress, note=warning))

        return hear

    def _credited(self, task: Task, group: Sequence[Trajectory], manner: Manner) -> Played:
        # An environment that ignores its seed makes another task of each rollout: each is a group of its own.
        alike = [[t] for t in group] if irreproducible(group) else [group]
        credits = [c for some in alike for c in credit_group(some, self._config.wia)] if manner.credit else []
        for credit in credits:
            self._run.credits.put(credit)
        return Played(task, tuple(group), {credit.trajectory: credit for credit in credits})
