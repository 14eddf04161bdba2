"""What an agent shows its model: a view as the named inputs of a prompt file, an answer as a Decision.

Pure. Owns the wording of history and progress. Leaves out asking (generate, choose) and playing (rollout).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from roleagent_lite.ask import Answer, PromptFile
from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.types import Decision, Step, View

UNLISTED = "(none is listed: write your own, in one of these forms)"  # the heading above asks to choose one
MAX_SHOWN = 1500  # characters of one past observation; a page of text, the present one is shown whole


def clip(text: str, limit: int = MAX_SHOWN) -> str:
    """At most `limit` characters, the cut marked."""
    text = text.strip()
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _moves(text: str) -> str:
    """`text` with the sign of a move made another where it begins a line: no observation invents a move."""
    return re.sub(r"^([ \t]*)>", r"\1›", text, flags=re.MULTILINE) if ">" in text else text


def history(steps: Sequence[Step]) -> str:
    """The steps as `> action` and what came of it; an action that was not admissible says so.

    Of the last step only the action is shown: what came of it is the present observation.
    """
    lines = []
    for number, step in enumerate(steps, 1):
        lines.append(f"> {step.action}{'' if step.valid else '  (not admissible)'}")
        if number < len(steps):
            lines.append(_moves(clip(step.outcome)))
    return "\n".join(lines)


def log(view: View) -> str:
    """What stood before the oldest move shown, then each move and what came of it, down to the present."""
    now = _moves(view.observation.text.strip())
    if not view.history:
        return now
    return f"{_moves(clip(view.history[0].observation))}\n{history(view.history)}\n{now}"


def alike(demonstrations: str, goal: str, most: int) -> str:
    """The `most` demonstrations whose goals share most words with `goal`, the likest last (nearest to it).

    Demonstrations are separated by blank lines; the first line of each names its goal. A word counts the
    more, the fewer demonstrations have it; numbers don't count. Of equals, the earlier in the text is kept.
    """
    blocks = [block.strip() for block in re.split(r"\n[ \t]*\n", demonstrations) if block.strip()]
    words = [_words(block.splitlines()[0]) for block in blocks]
    wanted = _words(goal)
    common = Counter(word for found in words for word in found)

    def weight(some: frozenset[str]) -> float:
        # fsum: a plain sum depends on the order of a set, which differs from process to process
        return math.fsum(math.log((1 + len(blocks)) / (common[word] or 0.5)) for word in some)

    def likeness(k: int) -> float:
        return weight(words[k] & wanted) / (weight(words[k] | wanted) or 1.0)

    best = sorted(range(len(blocks)), key=lambda k: (-likeness(k), k))[:most]
    return "\n\n".join(blocks[k] for k in reversed(best))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W\d_]+", text.lower())) - {"goal"}


def actions(view: View) -> str:
    """The listed actions, one a line; where any other may be given, also the forms that the world knows."""
    lines = list(view.observation.admissible)
    forms = registry.spec(view.task.env).vocabulary if view.observation.open or not lines else ""
    if forms:
        lines.append(f"or: {forms}" if lines else f"{UNLISTED} {forms}")
    return "\n".join(lines)


def view_inputs(view: View) -> dict[str, str]:
    """All inputs that a prompt file of an acting module may name."""
    return {
        "task": view.task.goal,
        "progress": f"Step {view.step} of {view.max_steps}.",
        "history": history(view.history),
        "log": log(view),
        "observation": view.observation.text,
        "actions": actions(view),
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
        thought=str(answer.values.get("thought") or ""),  # not the model's thinking: no prompt shows that
        said=answer.text,
        call_ids=answer.call_ids,
    )
