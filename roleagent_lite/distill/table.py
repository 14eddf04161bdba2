"""The samples of a run with their advantages as one file that other trainers read: JSONL or parquet.

Owns the columns of the two layouts and the writing. Leaves out how samples come about (samples.py), tokens
(those who read the file use their own tokenizer) and what is done with a row elsewhere.

The rules. A row is one acting reply. Messages are as sent and the reply as received; thinking that the server
gave apart stands in front of it in `<think>` tags, and a reply that was begun in the prompt (an open log)
ends the user's message instead, for other trainers always open a new turn. Nothing is cut to a length.
`actions` are the moves before the step: with the task they say in which state it was taken, since the worlds
answer alike each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from roleagent_lite.distill.bake import bake, short_prompt
from roleagent_lite.distill.prepare import SELECT
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.rows import Dropped, read
from roleagent_lite.distill.samples import Sample, collect
from roleagent_lite.errors import ConfigError, RoleAgentError, nearest
from roleagent_lite.lm.thinking import split
from roleagent_lite.memory import write_parquet
from roleagent_lite.store import Run
from roleagent_lite.tasksets import family_of
from roleagent_lite.types import Message, Task, Trajectory

Row = dict[str, Any]
MESSAGES = [{"role": str, "content": str}]
SCORED: dict[str, Any] = {
    "id": str, "group": str, "task": str, "env": str, "family": str, "goal": str, "seed": int, "round": int,
    "rollout": int, "step": int, "max_steps": int, "prompt_set": str, "arm": str, "model": str,
    "reward": float, "step_reward": float, "episode_advantage": float, "state_advantage": float,
    "advantage": float, "signal": bool, "solved": bool, "alignment": float, "actions": [str],
    "observation": str, "state_key": str, "action": str, "predictions": [str], "outcome": str,
    "logprobs": [float],
}  # fmt: skip
"""What every row says. reward: R^E; step_reward: R_t; advantage: A = A^S + alpha A^E; signal: whether the
group has an advantage that is not 0; alignment: mean over the step's horizon, null without predictions;
seed: null where the run does not hold the task; observation, state_key: before the step; outcome: what came;
logprobs: nats, as recorded with the reply, null where they were not."""
TRL: dict[str, Any] = {"prompt": MESSAGES, "completion": MESSAGES, **SCORED}
VERL: dict[str, Any] = {
    "data_source": str, "prompt": MESSAGES, "ability": str,
    "reward_model": {"style": str, "ground_truth": str},
    "env_kwargs": {"task": str, "env": str, "goal": str, "seed": int, "actions": [str]},
    "extra_info": {"split": str, "index": int, "completion": str, **SCORED},
}  # fmt: skip


def conversation(sample: Sample) -> tuple[list[dict[str, str]], str]:
    """(messages of the prompt, the reply) of a sample, by the rules at the head of this file."""
    *before, last = sample.messages
    if last.role == "assistant":
        asked = before.pop().content + "\n\n" if before and before[-1].role == "user" else ""
        last = Message("user", asked + last.content)
    reply = sample.text
    if sample.reasoning and split(reply)[1] is None:
        reply = f"<think>\n{sample.reasoning.strip()}\n</think>\n\n{reply}"
    return [{"role": m.role, "content": m.content} for m in (*before, last)], reply


def _scored(sample: Sample, played: Trajectory, task: Task | None, signal: bool) -> Row:
    step = played.steps[sample.step - 1]
    return {
        "id": sample.id, "group": sample.group, "task": sample.task, "env": task.env if task else "",
        "family": family_of(task) if task else "", "goal": task.goal if task else "",
        "seed": task.seed if task else None, "round": sample.round, "rollout": played.rollout,
        "step": sample.step, "max_steps": played.max_steps, "prompt_set": played.prompt_set,
        "arm": played.arm, "model": sample.model,
        "reward": sample.reward, "step_reward": sample.step_reward, "episode_advantage": sample.parts[1],
        "state_advantage": sample.parts[0], "advantage": sample.advantage, "signal": signal,
        "solved": sample.solved, "alignment": sample.alignment,
        "actions": [s.action for s in played.steps[: sample.step - 1]], "observation": step.observation,
        "state_key": step.state_key, "action": step.action, "predictions": list(step.predictions),
        "outcome": step.outcome, "logprobs": list(sample.logprobs) if sample.logprobs else None,
    }  # fmt: skip


def _trl(sample: Sample, scored: Row, index: int) -> Row:
    """TRL's conversational format for prompt and completion; the other columns reach its reward functions."""
    prompt, reply = conversation(sample)
    return {"prompt": prompt, "completion": [{"role": "assistant", "content": reply}], **scored}


def _verl(sample: Sample, scored: Row, index: int) -> Row:
    """verl's columns. What is right is known to the world alone, so the rule's ground truth is the state to
    play on from, as JSON: task and moves; `env_kwargs`, which verl-agent gives to a world, says the same."""
    prompt, reply = conversation(sample)
    state = {"task": sample.task, "actions": scored["actions"]}
    names = ("task", "env", "goal", "seed", "actions")
    return {
        "data_source": f"roleagent-lite/{scored['env']}", "prompt": prompt, "ability": scored["family"],
        "reward_model": {"style": "rule", "ground_truth": json.dumps(state, ensure_ascii=False)},
        "env_kwargs": {name: scored[name] for name in names},
        "extra_info": {"split": "train", "index": index, "completion": reply, **scored},
    }  # fmt: skip


LAYOUTS: dict[str, tuple[dict[str, Any], Callable[[Sample, Row, int], Row]]] = {
    "trl": (TRL, _trl),
    "verl": (VERL, _verl),
}


def rows(run: Run, recipe: Recipe, layout: str = "trl") -> tuple[list[Row], tuple[Dropped, ...]]:
    """Every sample that `recipe` would train on, as rows of a layout, and what became none.

    Of the recipe only `method`, `data` and `sft.bake` (the short prompt in place of the one that was sent)
    count; groups without signal stay, with `signal` False. Raises ConfigError for an unknown layout or short
    prompt, RoleAgentError for rewards that are rubbish.
    """
    _, make = _layout(layout)
    found = collect(run, rounds=recipe.data.rounds, strip_experience=recipe.data.experience == "strip")
    found = SELECT[recipe.method](found, recipe)
    if recipe.sft.bake:
        found, _ = bake(run, found, short_prompt(run, recipe.sft.bake))
    played = {t.id: t for t in read(run)[0]}
    made = []
    for index, sample in enumerate(found.samples):
        scored = _scored(
            sample, played[sample.trajectory], run.tasks.get(sample.task), found.signal[sample.group]
        )
        made.append(make(sample, scored, index))
    return made, found.dropped


def _layout(name: str) -> tuple[dict[str, Any], Callable[[Sample, Row, int], Row]]:
    if name not in LAYOUTS:
        raise ConfigError(f"no layout '{name}'{nearest(name, LAYOUTS)}")
    return LAYOUTS[name]


def _jsonl(path: Path, made: Sequence[Row], columns: dict[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in made)


WRITERS: dict[str, Callable[[Path, Sequence[Row], dict[str, Any]], None]] = {
    ".jsonl": _jsonl,
    ".parquet": write_parquet,
}


def writer(path: Path) -> Callable[[Path, Sequence[Row], dict[str, Any]], None]:
    """The writer for a file's ending. Raises ConfigError for another one."""
    found = WRITERS.get(path.suffix.lower())
    if found is None:
        raise ConfigError(f"samples go into a file named *{' or *'.join(WRITERS)}, not '{path}'")
    return found


def write(run: Run, recipe: Recipe, path: Path, layout: str = "trl") -> tuple[int, tuple[Dropped, ...]]:
    """The rows of `run` in the file `path`, whole or not at all; how many, and what became none.

    Raises ConfigError for an ending or a layout that is unknown; RoleAgentError where there is no row or the
    file cannot be written.
    """
    save = writer(path)
    columns, _ = _layout(layout)
    made, dropped = rows(run, recipe, layout)
    if not made:
        raise RoleAgentError("the run's training episodes give no sample: there is nothing to write")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".part")
        save(partial, made, columns)
        partial.replace(path)
    except OSError as error:
        raise RoleAgentError(f"cannot write the samples to {path}: {error.strerror or error}") from None
    return len(made), dropped
