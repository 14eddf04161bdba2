"""Where the model in training plays: its run, its tasks, and an agent a state of the weights.

Owns the settings of such a run, the split of its tasks, how much is going to be played, and playing through
the house's rollout engine with every call recorded. Leaves out what is learned (online.py) and the sealed
set (sealed.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roleagent_lite.agents import make_agent
from roleagent_lite.agents.choose import Retracing
from roleagent_lite.ask import Asker, Prompts
from roleagent_lite.config import RunConfig
from roleagent_lite.distill.local import LocalModel
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.lm.recorder import Recorder
from roleagent_lite.rollout import Episode, irreproducible, play_many
from roleagent_lite.session import Session, settings
from roleagent_lite.tasksets import choose, content_id, load_tasks
from roleagent_lite.types import ROLES, Agent, PromptSet, Task, Trajectory
from roleagent_lite.wia import credit_group


def config_of(recipe: Recipe, tasks: str) -> RunConfig:
    """The settings of the run. Updates are not among them: more may be asked for at a resume."""
    on = recipe.online
    given: dict[str, Any] = {
        "model": recipe.model, "agent": "choose", "prompts": on.prompts, "tasks": tasks, "seed": on.seed,
        "workers": 4,
        "wia": {"predict": "together" if on.predictions else "off", "alpha": on.alpha, "gamma": on.gamma},
        "aiw": {"diagnose": "none", "retrieve": "none", "rho": on.rho, "decay": on.decay},
        "evolve": {"rounds": 0, "tasks_per_round": on.tasks, "group": on.group,
                   "temperature": on.temperature, "dev": on.dev},
    }  # fmt: skip
    return settings(given)


def planned(recipe: Recipe, train: int, dev: int) -> str:
    """How much is going to be played and learned, at most, with `train` training and `dev` dev tasks."""
    online, warm = recipe.online, recipe.warm
    between = (online.updates - 1) // online.dev_every if online.dev_every else 0
    looks = bool(warm.group) + 1 + between + 1  # the base where something changes it first; before; after
    parts = [
        *([f"imitation of what it solves in {train * warm.group} episodes"] if warm.group else []),
        f"{online.updates} updates of {online.tasks * online.group} episodes each",
        f"{looks * dev} dev episodes",
    ]
    limit = f", none begun after {online.minutes:g} minutes" if online.minutes else ""
    return f"plan: {', '.join(parts)}{limit}; no call costs money"


def name_of(recipe: Recipe, state: str | int) -> str:
    """Under which name the model plays after so many updates; `base` and `start` are those without any."""
    return f"local:{recipe.model.rstrip('/').rpartition('/')[2]}+{state}"


def training_tasks(tasks: str, dev: int) -> tuple[list[Task], list[Task]]:
    """(all training tasks, at most `dev` dev tasks). The sealed tasks are only looked at, to refuse doubles.

    Raises ConfigError for a file that cannot be used, an empty split, a task that stands in two splits.
    """
    every = load_tasks(tasks)
    seen: dict[str, Task] = {}
    for task in every:
        what = {"env": task.env, "goal": task.goal, "seed": task.seed, "params": dict(task.params)}
        other = seen.setdefault(content_id(what), task)
        if other.split != task.split:
            raise ConfigError(
                f"tasks '{other.id}' ({other.split}) and '{task.id}' ({task.split}) are the same task; "
                "train, dev and test must be disjoint: remove one of the two rows"
            )
    train = [t for t in every if t.split == "train"]
    held = choose([t for t in every if t.split == "dev"], dev)
    for split, some in (("train", train), ("dev", held)):
        if not some:
            raise ConfigError(
                f"task file '{tasks}' has no tasks of split '{split}'; training online needs it"
            )
    return train, list(held)


@dataclass(frozen=True, slots=True)
class Stand:
    """A run that is played by `model`, in whatever state its weights are."""

    session: Session
    config: RunConfig
    prompts: Prompts
    prompt_set: PromptSet
    model: LocalModel

    async def play(
        self,
        tasks: Sequence[Task],
        round: int,
        *,
        group: int,
        temperature: float,
        predict: bool,
        moves: Mapping[str, Sequence[str]] | None = None,
    ) -> list[list[Trajectory]]:
        """One group a task. Calls and episodes that the run holds are taken from there.

        moves: of each task id, taken in place of draws; then only the choices' scores are the model's. Raises
        RoleAgentError where not one episode got to a move: nothing could be learned or said of that.
        """
        run = self.session.run
        model = Recorder(self.model, run, self.session.models.ledger, name=self.model.name, can_score=True)
        asker = Asker(dict.fromkeys(ROLES, model), self.prompts, max_tokens=self.config.limits.max_tokens)
        agent: Agent
        if moves is None:
            agent = make_agent("choose", asker, self.prompt_set, self.config.wia, self.config.seed)
        else:
            agent = Retracing(asker, self.prompt_set, moves)
        episodes = [Episode(t, round, k, temperature, predict) for t in tasks for k in range(group)]
        with self.model.crew():
            played = await play_many(
                agent, episodes, run=run, workers=self.config.workers, model_name=self.model.name,
                wia=self.config.wia, listener=self.session.listener, stage=tasks[0].split,
            )  # fmt: skip
        if not any(t.steps for t in played):
            why = next((t.error for t in played if t.error), "")
            raise RoleAgentError(
                f"none of {len(played)} episodes got to its first move"
                + (f"; the first broke off: {why.strip().splitlines()[-1]}" if why.strip() else "")
            )
        return [played[at : at + group] for at in range(0, len(played), group)]

    def credit(self, groups: Sequence[Sequence[Trajectory]]) -> None:
        """WIA's verdict on each group, into the run. Rollouts that did not start alike are no group."""
        for group in groups:
            for some in [[t] for t in group] if irreproducible(group) else [group]:
                for credit in credit_group(some, self.config.wia):
                    self.session.run.credits.put(credit)
