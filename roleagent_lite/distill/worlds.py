"""Whole episodes in TRL: a world for `GRPOTrainer(environment_factory=...)`, and WIA's credit as its reward.

Owns the tool by which the model acts, what it is shown, the rows of the data set, and how a credit of steps
becomes TRL's one number an episode, or keeps its steps (`per_step`). The formulas are wia's. Leaves out steps
from stored states (state_reward.py). Imports neither torch nor TRL; written for TRL 1.14.

The rules. One call of `act` is one step; its text is what came. The episode is over where the house says so
(solved, lost, its step limit, a loop); calls behind that change nothing and are no steps. An episode that the
model leaves, by answering without a call or at the limit of its completion, counts as it stands. Rollouts of
one task in one batch are a group; where they did not start alike, each is alone and earns 0.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from roleagent_lite.agents.show import actions
from roleagent_lite.ask import load_prompts, make_prompt_set
from roleagent_lite.config import Wia
from roleagent_lite.errors import EnvironmentFault, ReplyError, RoleAgentError, nearest
from roleagent_lite.rollout import irreproducible, trajectory_of
from roleagent_lite.stage import Episode, Stage, completed
from roleagent_lite.types import Credit, Decision, Outcome, Task, Trajectory
from roleagent_lite.wia import credit_group

T = TypeVar("T")
Row = dict[str, Any]
OVER = "The episode is over."
_NO_TEXTS = make_prompt_set({})
HOW = "Act by calling the tool `act`, one action a call, until the episode is over."
FORETELL = "With each action, foretell in `predictions` what the world will answer, word for word."


def now(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`; where an event loop is running already (a notebook), from a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def training(tasks: Iterable[Task]) -> dict[str, Task]:
    """Tasks by id. Raises RoleAgentError for one that is not of split train, or where there is none."""
    found = {task.id: task for task in tasks}
    odd = [task.id for task in found.values() if task.split != "train"]
    if odd:
        raise RoleAgentError(f"task '{odd[0]}' is not of split train: nothing may be learned from it")
    if not found:
        raise RoleAgentError("there are no training tasks")
    return found


def pick(tasks: Mapping[str, Task], name: str) -> Task:
    """The task of that id. Raises RoleAgentError with the nearest one."""
    if name not in tasks:
        raise RoleAgentError(f"a row names the task '{name}', which is unknown{nearest(name, tasks)}")
    return tasks[name]


def task_rows(
    tasks: Iterable[Task], texts: Mapping[str, str] | None = None, *, predict: bool = True
) -> list[Row]:
    """Rows for TRL's data set: `prompt` (messages) and `task` (id).

    texts: an evolved prompt's (`PromptSet.texts`), of which `act.instructions` and `act.playbook` are used;
    None: the shipped ones. Raises RoleAgentError for a task that is not of split train.
    """
    said = texts if texts is not None else load_prompts("v1").seed_set().texts
    parts = [said.get("act.instructions", ""), said.get("act.playbook", ""), HOW, FORETELL if predict else ""]
    system = "\n\n".join(part.strip() for part in parts if part.strip())
    return [
        {
            "prompt": [
                {"role": "system", "content": system},
                {"role": "user", "content": f"Goal: {task.goal}\n\nYou see:\n"},
            ],
            "task": task.id,
        }
        for task in training(tasks).values()
    ]


class SilentWorld:
    """One episode after the other, nothing foretold: R_pre is 0. TRL takes `act` for the model's tool.

    advantages: A of each step, and elsewhere: alpha A^E, once EpisodeReward has judged the episode; steps: of
    each call of `act`, whether it was one; calls: of each of the model's turns, how many reached `act`.
    """

    def __init__(self, tasks: Mapping[str, Task], wia: Wia, max_steps: int = 0) -> None:
        self._tasks, self._wia, self._limit = tasks, wia, max_steps
        self._stage: Stage | None = None
        self._outcome: Outcome | None = None
        self._clear()

    @property
    def solved(self) -> bool:
        """Whether the last episode is solved."""
        return self._outcome is not None and self._outcome.kind == "solved"

    def _clear(self) -> None:
        self._outcome = None
        self.advantages: tuple[float, ...] = ()
        self.elsewhere = 0.0
        self.steps: list[bool] = []
        self.calls: list[int] = []

    def reset(self, task: str, **row: Any) -> str:
        """Begins the episode of a row's task: what is seen, which TRL puts behind the row's prompt.

        Raises RoleAgentError for a task that is unknown; a world that does not begin is a fault of this
        episode alone.
        """
        self._close()
        self._clear()
        episode = Episode(pick(self._tasks, task), 0, 0, 0.0, max_steps=self._limit)
        self._stage = Stage(completed(episode, self._wia), task)
        try:
            now(self._stage.open())
        except EnvironmentFault:
            return self._broken()
        return self._shown(self._stage)

    def act(self, action: str) -> str:
        """
        Take one action in the world.

        Args:
            action: The action, word for word as it is listed among the admissible ones.

        Returns:
            What the world answers, and which actions are admissible then.
        """
        return self._move(action, ())

    def _move(self, action: str, predictions: Sequence[object]) -> str:
        self.steps.append(False)
        stage = self._stage
        if stage is None or self._outcome is not None:
            return OVER
        foretold = tuple(None if text is None else str(text) for text in predictions)
        try:
            self._outcome = now(stage.move(Decision(str(action), foretold)))
        except EnvironmentFault:
            return self._broken()
        except ReplyError as error:  # no action: no step
            return str(error)
        self.steps[-1] = True
        return self._shown(stage) if self._outcome is None else f"{stage.seen.text}\n\n{OVER}"

    def _shown(self, stage: Stage) -> str:
        view = stage.view()
        listed = actions(view)
        parts = [stage.seen.text, view.note, f"Admissible actions:\n{listed}" if listed else ""]
        return "\n\n".join(part for part in parts if part)

    def _broken(self) -> str:
        self._outcome = Outcome("infrastructure_error", "environment")
        return OVER

    def _played(self, rollout: int) -> Trajectory:
        stage = self._stage
        if stage is None:
            raise RoleAgentError("no episode has begun: TRL calls reset() before each")
        if self._outcome is None:  # the model left it
            try:
                stage.score = now(stage.settle())
                self._outcome = Outcome("solved") if stage.score >= 1.0 else Outcome("failed", "gave_up")
            except EnvironmentFault:
                self._broken()
        assert self._outcome is not None
        name = f"{stage.episode.task.id}#{rollout}"
        whole = trajectory_of(stage, self._outcome, name=name, prompt_set=_NO_TEXTS, model_name="trl")
        return replace(whole, rollout=rollout)

    def _close(self) -> None:
        stage, self._stage = self._stage, None
        if stage is not None:
            with suppress(EnvironmentFault):  # what was played in it has been judged
                now(stage.close())

    def _turn_values(self) -> list[float]:
        """The advantage of each of the model's turns: the mean of its steps', else alpha A^E."""
        made = iter(self.steps)
        own = iter(self.advantages)
        values = []
        for count in self.calls:
            steps = [a for _ in range(count) if next(made, False) and (a := next(own, None)) is not None]
            values.append(sum(steps) / len(steps) if steps else self.elsewhere)
        return values


class World(SilentWorld):
    """The same, and with each action the model foretells what will come."""

    def act(self, action: str, predictions: list[str] | None = None) -> str:
        """
        Take one action in the world.

        Args:
            action: The action, word for word as it is listed among the admissible ones.
            predictions: What the world will answer to it; further entries: what the steps behind it bring.

        Returns:
            What the world answers, and which actions are admissible then.
        """
        said = [predictions] if isinstance(predictions, str) else list(predictions or ())
        return self._move(action, said)


def worlds(
    tasks: Iterable[Task], wia: Wia | None = None, *, max_steps: int = 0, predict: bool = True
) -> Callable[[], SilentWorld]:
    """An `environment_factory`. max_steps: 0 = the world's own limit. predict: see `World`, `SilentWorld`.

    Raises RoleAgentError for a task that is not of split train.
    """
    return partial(World if predict else SilentWorld, training(tasks), wia or Wia(), max_steps)


class EpisodeReward:
    """WIA's credit of whole episodes as a TRL reward function, for `worlds`.

    An episode earns the mean over its steps of A = A^S + alpha A^E (paper Eq. 1-8), computed over the
    batch's rollouts of its task; one without a step earns alpha A^E, one that an infrastructure error ended
    None, which TRL leaves out. These are advantages already: `scale_rewards="none"` keeps TRL from dividing
    them by their spread again. `per_step` keeps what the mean loses. Rollouts are compared within one
    process: give each whole groups.
    """

    __name__ = "wia_episode"

    def __init__(self, wia: Wia | None = None) -> None:
        self.wia = wia or Wia()

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], *, environments: Sequence[SilentWorld],
        log_metric: Callable[[str, float], None] | None = None, **row: Any,
    ) -> list[float | None]:  # fmt: skip
        played = [world._played(k) for k, world in enumerate(environments)]
        credits = {credit.trajectory: credit for credit in _judged(played, self.wia)}
        earned = [
            self._earned(world, completion, credits.get(episode.id))
            for world, completion, episode in zip(environments, completions, played, strict=True)
        ]
        counted = [episode for episode in played if episode.id in credits]
        if log_metric is not None and counted:
            foresight = [p for credit in credits.values() for p in credit.predictive]
            log_metric("wia/solved", sum(e.solved for e in counted) / len(counted))
            log_metric("wia/predictive", sum(foresight) / len(foresight) if foresight else 0.0)
        return earned

    def _earned(self, world: SilentWorld, completion: Any, credit: Credit | None) -> float | None:
        world.calls = _calls(world, completion)
        if credit is None:
            world.advantages, world.elsewhere = (), 0.0
            return None
        world.advantages, world.elsewhere = credit.advantage, self.wia.alpha * credit.episode_advantage
        own = credit.advantage
        return sum(own) / len(own) if own else world.elsewhere


def _judged(played: Sequence[Trajectory], wia: Wia) -> list[Credit]:
    groups: dict[str, list[Trajectory]] = {}
    for episode in played:
        groups.setdefault(episode.group, []).append(episode)
    odd = irreproducible(played)
    parts = [
        part for own in groups.values() for part in ([[t] for t in own] if own[0].task in odd else [own])
    ]
    return [credit for part in parts for credit in credit_group(part, wia)]


def _calls(world: SilentWorld, completion: Any) -> list[int]:
    """How many calls of each of the model's turns reached `act`: TRL answers the others itself."""
    turns = [m for m in completion if m.get("role") == "assistant"] if isinstance(completion, list) else []
    taken = set(inspect.signature(world.act).parameters)
    found = []
    for turn in turns:
        asked = [call.get("function") or {} for call in turn.get("tool_calls") or ()]
        given = [set(one["arguments"]) for one in asked if one.get("name") == "act" and _is_object(one)]
        found.append(sum("action" in names and names <= taken for names in given))
    return found


def _is_object(asked: Mapping[str, Any]) -> bool:
    return isinstance(asked.get("arguments"), dict)


def per_step(trainer: type[Any]) -> type[Any]:
    """`trainer` (a GRPOTrainer) whose tokens each carry the advantage of the step that they belong to.

    For one reward function, an `EpisodeReward` with `worlds`: A of a turn's steps in place of TRL's one
    number an episode; TRL's own comparison of rewards is not used then. It stands on
    `_generate_and_score_completions` of TRL 1.14, and not with `use_liger_kernel`.
    """

    class PerStep(trainer):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            said = (output["completion_mask"] * output["tool_mask"]).tolist()
            values = [
                spread(own, world._turn_values()) for own, world in zip(said, self.environments, strict=True)
            ]
            output["advantages"] = output["advantages"].new_tensor(values)
            return output

    return PerStep


def spread(said: Sequence[int], turns: Sequence[float]) -> list[float]:
    """The value of each token: that of its turn where `said` is 1, else 0. A run of 1s is a turn; one behind
    the last of `turns` has 0."""
    out, turn = [], -1
    for k, mark in enumerate(said):
        turn += mark and (k == 0 or not said[k - 1])
        out.append(turns[turn] if mark and turn < len(turns) else 0.0)
    return out
