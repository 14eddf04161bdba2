"""What an agent shows its model: a view as the named inputs of a prompt file, an answer as a Decision.

Pure. Owns the wording of history and progress. Leaves out asking (generate, choose) and playing (rollout).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roleagent_lite.ask import Answer, PromptFile
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.types import Decision, Step, View

MAX_SHOWN = 1500  # characters of one past observation; a page of text, the present one is shown whole


def clip(text: str, limit: int = MAX_SHOWN) -> str:
    """At most `limit` characters, the cut marked."""
    text = text.strip()
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def history(steps: Sequence[Step]) -> str:
    """The steps as `> action` and what came of it; an action that was not admissible says so.

    Of the last step only the action is shown: what came of it is the present observation.
    """
    lines = []
    for number, step in enumerate(steps, 1):
        lines.append(f"> {step.action}{'' if step.valid else '  (not admissible)'}")
        if number < len(steps):
            lines.append(clip(step.outcome))
    return "\n".join(lines)


def log(view: View) -> str:
    """What stood before the oldest move shown, then each move and what came of it, down to the present."""
    now = view.observation.text.strip()
    if not view.history:
        return now
    return f"{clip(view.history[0].observation)}\n{history(view.history)}\n{now}"


def view_inputs(view: View) -> dict[str, str]:
    """All inputs that a prompt file of an acting module may name."""
    return {
        "task": view.task.goal,
        "progress": f"Step {view.step} of {view.max_steps}.",
        "history": history(view.history),
        "log": log(view),
        "observation": view.observation.text,
        "actions": "\n".join(view.observation.admissible),
        "note": view.note,
    }


def select(file: PromptFile, offered: Mapping[str, str]) -> dict[str, str]:
    """The inputs that `file` asks for. Raises ConfigError for one that the agent does not have."""
    for name in file.inputs:
        if name not in offered:
            raise ConfigError(
                f"prompt file {file.path}: no agent gives module '{file.name}' the input '{name}'"
                f"{nearest(name, offered)}"
            )
    return {name: offered[name] for name in file.inputs}


def predictions_from(answer: Answer, horizon: int) -> tuple[str | None, ...]:
    """Exactly `horizon` entries; what the model left out is None."""
    found = list(answer.values.get("predictions") or [])[:horizon]
    return tuple(found + [None] * (horizon - len(found)))


def decision_from(answer: Answer, horizon: int) -> Decision:
    """The Decision that an answer of an acting module states. `horizon` 0: no prediction was asked for."""
    return Decision(
        action=str(answer.values["action"]),
        predictions=predictions_from(answer, horizon),
        thought=str(answer.values.get("thought") or answer.reasoning or ""),
        said=answer.text,
        call_ids=answer.call_ids,
    )
