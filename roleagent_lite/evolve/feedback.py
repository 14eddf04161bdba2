"""What the reflector is told about a round: failing tasks, wrong predictions, diagnoses.

Owns the choice of what to show and its length. Leaves out alignment (wia), diagnosis (aiw) and the asking
(propose). Every record is about the training tasks just played.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.evolve.played import Played
from roleagent_lite.types import Diagnosis, Step, Trajectory

LOW = 0.7  # alignments under this are shown: two observations of one world that differ in a name score above
SHOWN = 3  # mispredicted steps a task
WIDE = 160  # characters of one observation or prediction

Record = dict[str, Any]


def clip(text: str, width: int = WIDE) -> str:
    """`text` on one line, cut at `width` characters with a mark that it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def _wrong_steps(played: Played) -> list[tuple[float, Step]]:
    found: list[tuple[float, Step]] = []
    for trajectory in played.trajectories:
        credit = played.credits.get(trajectory.id)
        if credit is None:
            continue
        for step, row in zip(trajectory.steps, credit.alignment, strict=False):
            if row and row[0] is not None and row[0] < LOW and step.predictions:
                found.append((row[0], step))
    return sorted(found, key=lambda pair: pair[0])  # stable: ties stay in the order of rollouts and steps


def mispredictions(played: Played) -> list[str]:
    """The worst foretold steps of one task, worst first, one an action: what was foretold, what came.

    World-In-Agent as feedback (arXiv 2606.10917, section 3.2): where prediction and world part, the agent's
    idea of the world is wrong. At most `SHOWN` lines; none where nothing was foretold.
    """
    lines: dict[str, str] = {}
    for alignment, step in _wrong_steps(played):
        foretold = step.predictions[0] or ""
        lines.setdefault(
            step.action,
            f"after '{clip(step.action)}' the agent foretold '{clip(foretold)}' "
            f"but what came was '{clip(step.outcome)}' (alignment {alignment:.2f})",
        )
    return list(lines.values())[:SHOWN]


def nothing(played: Played) -> list[str]:
    """The ablation: predictions are not shown to the reflector."""
    return []


FEEDBACK: dict[str, Callable[[Played], list[str]]] = {"mispredictions": mispredictions, "none": nothing}


def feedback(name: str) -> Callable[[Played], list[str]]:
    """The function of that name. Raises ConfigError with the nearest name."""
    if name not in FEEDBACK:
        raise ConfigError(f"wia.feedback: no feedback '{name}'{nearest(name, FEEDBACK)}")
    return FEEDBACK[name]


def diagnosis_lines(failures: Sequence[Trajectory], diagnoses: Mapping[str, Diagnosis]) -> list[str]:
    """One line a failure mode, most frequent first: how often, what happened, the rule that was drawn."""
    found = [diagnoses[t.id] for t in failures if t.id in diagnoses]
    first: dict[str, Diagnosis] = {}
    for diagnosis in found:
        first.setdefault(diagnosis.mode, diagnosis)
    return [
        f"{mode} ({count} times): {clip(first[mode].detail, 300)} Lesson: {clip(first[mode].lesson, 300)}"
        for mode, count in Counter(d.mode for d in found).most_common()
    ]


def _ending(played: Played) -> str:
    reasons = Counter(t.outcome.reason or t.outcome.kind for t in played.failures)
    ends = ", ".join(f"{reason} {count} times" for reason, count in reasons.most_common())
    return f"{sum(t.solved for t in played.scored)} of {len(played.scored)} attempts solved; failed: {ends}"


def records(
    batch: Sequence[Played], show: Callable[[Played], list[str]], diagnoses: Mapping[str, Diagnosis]
) -> list[Record]:
    """One record for each task with a failure that teaches, in the order played; empty where none failed.

    Always told: goal, how the attempts ended, the actions of the first failed one. `show` adds the
    mispredictions, `diagnoses` (by trajectory id) the failure modes and lessons.
    """
    out: list[Record] = []
    for played in batch:
        if not played.failures:
            continue
        record: Record = {"task": played.task.id, "goal": clip(played.task.goal, 300)}
        record["result"] = _ending(played)
        record["actions"] = clip("; ".join(s.action for s in played.failures[0].steps), 300)
        record["diagnoses"] = diagnosis_lines(played.failures, diagnoses)
        record["mispredictions"] = show(played)
        out.append(record)
    return out


def _text(number: int, record: Mapping[str, Any]) -> str:
    lines = [f"{number}. Task: {record['goal']}", f"   Result: {record['result']}"]
    if record["actions"]:
        lines.append(f"   Actions of a failed attempt: {record['actions']}")
    lines += [f"   Failure mode: {line}" for line in record["diagnoses"]]
    lines += [f"   Wrong prediction: {line}" for line in record["mispredictions"]]
    return "\n".join(lines)


def render(rows: Sequence[Mapping[str, Any]], max_chars: int) -> str:
    """The records as text of at most `max_chars` characters; whole records are left out from the end.

    The first record is always there, cut if it has to be. A last line says how many were left out.
    """
    kept: list[str] = []
    for number, row in enumerate(rows, 1):
        text = _text(number, row)
        if kept and sum(map(len, kept)) + len(kept) + len(text) + 40 > max_chars:
            kept.append(f"({len(rows) - number + 1} more failing tasks)")
            break
        kept.append(text)
    return "\n".join(kept)[:max_chars]
