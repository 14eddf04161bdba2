"""An episode as text for the one who diagnoses it: bounded, its head stable, its end always there.

Owns what is shown and what is left out. Pure.
"""

from __future__ import annotations

from roleagent_lite.types import Step, Trajectory

WORDS = 600  # of a whole transcript, unless the caller says otherwise
_WIDTHS = (60, 30, 15, 8)  # words of one text, tried in turn until the whole fits


def clip(text: str, words: int) -> str:
    """`text` on one line, at most `words` words, with a mark where it was cut."""
    parts = text.split()
    return " ".join(parts) if len(parts) <= words else " ".join([*parts[:words], "…"])


def ending(trajectory: Trajectory) -> str:
    """How it ended, in words: kind, reason, score, steps."""
    outcome = trajectory.outcome
    reason = f" ({outcome.reason})" if outcome.reason else ""
    limit = f" of at most {trajectory.max_steps}" if trajectory.max_steps else ""
    return f"{outcome.kind}{reason}, score {trajectory.score:.2f}, after {len(trajectory.steps)}{limit} steps"


def transcript(trajectory: Trajectory, max_words: int = WORDS) -> str:
    """The episode from its first observation to its last, in about `max_words` words at most.

    Rollouts of one task share the head, so that prompt caches apply. Too long: texts are cut shorter, and
    where that is not enough steps are left out from the middle, said so, the first and as many of the last
    as fit being kept. The last step is always shown; step numbers count from 1.
    """
    for width in _WIDTHS:
        head, steps = _lines(trajectory, width)
        if _words([head, *steps]) <= max_words:
            return "\n".join([head, *steps])
    return "\n".join([head, *_ends(steps, max_words - _words([head]))])


def _lines(trajectory: Trajectory, width: int) -> tuple[str, list[str]]:
    if not trajectory.steps:
        return "(no step was played)", []
    head = f"At first: {clip(trajectory.steps[0].observation, width)}"
    return head, [_line(number, step, width) for number, step in enumerate(trajectory.steps, 1)]


def _line(number: int, step: Step, width: int) -> str:
    thought = f" (thought: {clip(step.thought, width // 3)})" if step.thought.strip() else ""
    refused = "" if step.valid else " [not accepted]"
    return f"{number}. {step.action or '(no action)'}{thought} -> {clip(step.outcome, width)}{refused}"


def _ends(steps: list[str], budget: int) -> list[str]:
    """The first step and the last ones that fit; the last one whatever it takes."""
    kept: list[str] = []
    left = budget - _words(steps[:1]) - 6
    for line in reversed(steps[1:]):
        left -= _words([line])
        if kept and left < 0:
            break
        kept.append(line)
    missing = len(steps) - 1 - len(kept)
    mark = [f"[… {missing} steps left out …]"] if missing else []
    return [*steps[:1], *mark, *reversed(kept)]


def _words(lines: list[str]) -> int:
    return sum(len(line.split()) for line in lines)
