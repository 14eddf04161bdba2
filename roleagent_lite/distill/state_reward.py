"""WIA's credit of one step, taken from a stored state: a reward function for TRL, and for verl.

Owns going back to the state of a row, taking the step that a completion says, and what it earns. The formulas
are wia's. Leaves out the rows (table.py) and whole episodes (worlds.py). Imports neither torch nor TRL.

What it computes. A row of `distill RUN --samples` names a task and the moves before the step; the worlds
answer alike each time, so these moves lead to the state again. The completion's action is taken there: r is
its reward, s' what comes of it. With R_task = r + gamma V(s') and R_pre = LMS(prediction of s', s') it earns
R = R_task (1 + R_pre), and R_task where that is not positive (paper Eq. 4-6). V(s') stands for what the
unplayed rest of the episode would bring: the mean R_task of the run's own steps in s', 0 where the run never
was there, and 0 where the episode is over. Predictions of later states are left out, for nothing comes to
compare them with. A reply that holds no action earns 0.

TRL compares the completions of one prompt, which all stand in one state, by (R - mean) / (std + 1e-4): A^S of
a state group (paper Eq. 8; GiGPO) but for the 1e-4, which is 1e-6 there. A^E has no place here: the
completions share the episode before them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roleagent_lite.ask import Output, load_prompts
from roleagent_lite.ask.parse import read_reply
from roleagent_lite.config import Wia
from roleagent_lite.distill.rows import read
from roleagent_lite.distill.worlds import now, pick, training
from roleagent_lite.errors import EnvironmentFault, ReplyError, RoleAgentError
from roleagent_lite.lm.thinking import split
from roleagent_lite.stage import Episode, Stage, completed
from roleagent_lite.store import Run
from roleagent_lite.types import Decision, Observation, Task
from roleagent_lite.wia.align import align, scorer
from roleagent_lite.wia.reward import modulate, predictive, returns

GRID = (
    1 << 16
)  # TRL averages in float32: on this grid equal rewards have their own value as the mean, exactly
Value = Callable[[str, Observation], float]
"""(task id, state) -> what is expected from there on, in R_task's unit."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a completion earns. reward: R; task_return: R_task; foresight: R_pre; valid: the world admitted
    its action; read: the reply held one."""

    reward: float
    task_return: float = 0.0
    foresight: float = 0.0
    valid: bool = False
    read: bool = False


def recorded_values(run: Run) -> Value:
    """V(s) by a run's training episodes: the mean R_task of the steps taken in s, 0 where none was.

    States are equal where their keys are, or their texts where the world gives no keys.
    """
    seen: dict[tuple[str, str], list[float]] = {}
    for played in read(run)[0]:
        if played.split == "train" and played.outcome.teaches:
            earned = returns([step.reward for step in played.steps], run.config.wia.gamma)
            for step, value in zip(played.steps, earned, strict=True):
                seen.setdefault((played.task, step.state_key or step.observation), []).append(value)
    means = {state: sum(values) / len(values) for state, values in seen.items()}
    return lambda task, state: means.get((task, state.state_key or state.text), 0.0)


class StateReward:
    """A reward function for rows of stored states; see the head of this file for what it computes.

    tasks: those that rows may name, all of split train. value: V, None = 0 everywhere. prompts: the version
    whose form of a reply is read. Use `of` for a run's own.
    """

    __name__ = "wia_state"

    def __init__(
        self,
        tasks: Iterable[Task],
        wia: Wia | None = None,
        *,
        value: Value | None = None,
        prompts: str = "v1",
    ) -> None:
        self.wia = wia or Wia()
        self._tasks = training(tasks)
        self._value: Value = value or (lambda task, state: 0.0)
        self._score = scorer(self.wia.scorer)
        self._outputs: tuple[Output, ...] = load_prompts(prompts).module("act").outputs

    @classmethod
    def of(cls, run: Run) -> StateReward:
        """With the training tasks, the settings and the recorded values of a run."""
        tasks = [task for task in run.tasks if task.split == "train"]
        return cls(tasks, run.config.wia, value=recorded_values(run), prompts=run.config.prompts)

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        task: Sequence[str],
        actions: Sequence[Sequence[str]],
        max_steps: Sequence[int] | None = None,
        state_key: Sequence[str | None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **row: Any,
    ) -> list[float | None]:
        """TRL's signature: one R a completion (to 1/65536), None (left out) where the world failed.

        The keywords are columns of the rows. Raises RoleAgentError for a task that is unknown, and for a row
        whose moves do not lead to its state: another version of the world, say.
        """
        limits = max_steps or [0] * len(task)
        keys = state_key or [None] * len(task)
        states: dict[tuple[Any, ...], list[int]] = {}
        for k, (name, before, limit, key) in enumerate(zip(task, actions, limits, keys, strict=True)):
            states.setdefault((name, tuple(before), limit, key), []).append(k)
        found: list[Verdict | None] = [None] * len(completions)
        for (name, before, limit, key), places in states.items():
            texts = [text_of(completions[k]) for k in places]
            verdicts = now(self.judge(name, before, texts, max_steps=limit or 0, state_key=key))
            for k, verdict in zip(places, verdicts, strict=True):
                found[k] = verdict
        counted = [v for v in found if v is not None]
        if log_metric is not None and counted:
            for what in ("read", "valid", "task_return", "foresight"):
                log_metric(f"wia/{what}", sum(getattr(v, what) for v in counted) / len(counted))
        return [None if v is None else round(v.reward * GRID) / GRID for v in found]

    def score(
        self, data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any] | None
    ) -> float:
        """verl's `compute_score`, for rows of `--layout verl`: R, 0 where the world failed. Raises as above,
        ValueError for a ground truth that is no state."""
        state, more = json.loads(ground_truth), extra_info or {}
        (verdict,) = now(
            self.judge(
                state["task"], state["actions"], [solution_str],
                max_steps=more.get("max_steps") or 0, state_key=more.get("state_key"),
            )
        )  # fmt: skip
        return verdict.reward if verdict is not None else 0.0

    async def judge(
        self, name: str, before: Sequence[str], texts: Sequence[str], *, max_steps: int = 0,
        state_key: str | None = None,
    ) -> list[Verdict | None]:  # fmt: skip
        """The verdict on each reply given in the state of task `name` behind the moves `before`.

        Equal replies are taken once. None where the world failed. Raises RoleAgentError where the moves end
        the episode, or lead to a state of another key than `state_key`.
        """
        episode = Episode(pick(self._tasks, name), 0, 0, 0.0, max_steps=max_steps)
        stage = Stage(completed(episode, self.wia), name)
        known: dict[str, Verdict | None] = dict.fromkeys(texts)
        try:
            await stage.open()
            await _go(stage, before, state_key)
            here = await stage.mark()
            for text in known:
                await stage.back(here)
                known[text] = await self._of(stage, text)
        except EnvironmentFault:
            return [None] * len(texts)
        finally:
            await _closed(stage)
        return [known[text] for text in texts]

    async def _of(self, stage: Stage, text: str) -> Verdict:
        """What the reply `text` earns on a stage that stands in its state."""
        parsed = read_reply(split(text)[0], self._outputs, {"action": stage.seen.admissible})
        action = parsed.values.get("action")
        if parsed.problem is not None or action is None:
            return Verdict(0.0)
        foretold = tuple(parsed.values.get("predictions") or ())
        try:
            ended = await stage.move(Decision(str(action), foretold))
        except ReplyError:
            return Verdict(0.0)
        step = stage.steps[-1]
        rest = 0.0 if ended is not None else self._value(stage.episode.task.id, stage.seen)
        task_return = step.reward + self.wia.gamma * rest
        (row,), _ = align([step], stage.episode.horizon, self._score)
        foresight = predictive(row, self.wia.gamma)
        return Verdict(modulate(task_return, foresight), task_return, foresight, step.valid, True)


async def _go(stage: Stage, before: Sequence[str], state_key: str | None) -> None:
    name = stage.episode.task.id
    for k, action in enumerate(before, 1):
        if await stage.move(Decision(action)) is not None:
            raise RoleAgentError(f"a row of task '{name}' goes on behind move {k}, which ends the episode")
    if state_key is not None and stage.seen.state_key != state_key:
        raise RoleAgentError(
            f"the {len(before)} moves of a row of task '{name}' lead to another state than the run "
            "recorded: the world or the task set is of another version"
        )


async def _closed(stage: Stage) -> None:
    try:
        await stage.close()
    except EnvironmentFault:
        return  # what it was opened for has been said


def text_of(completion: Any) -> str:
    """The text of a completion: as it is, or of its messages (TRL's conversational format)."""
    if isinstance(completion, str):
        return completion
    return "".join(str(message.get("content") or "") for message in completion)
