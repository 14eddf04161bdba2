"""How a system words what it shows its model: steps with their thoughts, a whole try, lessons, a sub-task.

Pure. Owns the wording. Leaves out asking (mind).
"""

from __future__ import annotations

from collections.abc import Sequence

from roleagent_lite.agents.show import clip
from roleagent_lite.types import Outcome, Step, View

COMPLETED, FAILED = "task completed", "task failed"  # actions of a system that works through a plan
WIDE = 400  # characters of one outcome in a try that is shown whole
LONG = 30  # steps of it


def history(steps: Sequence[Step]) -> str:
    """The steps as thought, action and what came of it; of the last one the outcome is what is seen now."""
    lines = []
    for number, step in enumerate(steps, 1):
        if step.thought.strip():
            lines.append(f"> think: {clip(step.thought)}")
        lines.append(f"> {step.action}{'' if step.valid else '  (not admissible)'}")
        if number < len(steps):
            lines.append(clip(step.outcome))
    return "\n".join(lines)


def log(view: View, lessons: Sequence[str] = (), thought: str = "") -> str:
    """What agents that choose are shown: lessons, then the episode as a log, open where the move belongs."""
    lines = [f"Lesson: {clip(lesson, WIDE)}" for lesson in lessons]
    if view.history:
        lines += [clip(view.history[0].observation), history(view.history)]
    lines.append(view.observation.text.strip())
    if thought.strip():
        lines.append(f"> think: {clip(thought, WIDE)}\nOK.")
    return "\n".join(lines)


def transcript(steps: Sequence[Step], most: int = LONG, width: int = WIDE) -> str:
    """A whole try, numbered from 1; of a long one the first step and the last ones, the gap marked."""
    if not steps:
        return "(no step was played)"
    lines = []
    for number, step in enumerate(steps, 1):
        thought = f" (thought: {clip(step.thought, width // 2)})" if step.thought.strip() else ""
        refused = "" if step.valid else " [not accepted]"
        lines.append(f"{number}. {step.action}{thought} -> {clip(step.outcome, width)}{refused}")
    if len(lines) > most:
        gap = len(lines) - most
        lines = [lines[0], f"[… {gap} steps left out …]", *lines[gap + 1 :]]
    return "\n".join([f"At first: {clip(steps[0].observation, width)}", *lines])


def ending(outcome: Outcome, score: float, steps: int, limit: int) -> str:
    """How a try ended, in words."""
    reason = f" ({outcome.reason.replace('_', ' ')})" if outcome.reason else ""
    kind = outcome.kind.replace("_", " ")
    return f"{kind}{reason}, score {score:.2f}, after {steps} of at most {limit} steps"


def bullets(lines: Sequence[str]) -> str:
    """One line each; "" for none."""
    return "\n".join(f"- {line}" for line in lines)


def subtask(task: str, done: Sequence[str], extra: Sequence[str]) -> str:
    """The part of a plan that is at hand, and how to say how it went (`extra`); "" for none."""
    lines = []
    if task:
        lines.append(f"Do only this part of it now: {task}")
    if done:
        lines.append(f"Done already: {'; '.join(done)}.")
    if COMPLETED in extra:
        lines.append(f"When this part is done, answer with the action '{COMPLETED}'.")
    if FAILED in extra:
        lines.append(f"When you see that you cannot do it, answer with the action '{FAILED}'.")
    return "\n".join(lines)
