"""The report's sections on the course of a run: failure modes, curriculum, candidates, the prompt itself.

Owns their tables, the data of their plots and the difference between two prompt texts. Leaves out success.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from roleagent_lite.report.compare import final_id, seed_id
from roleagent_lite.report.gather import Facts, Tally
from roleagent_lite.report.markdown import code, fence, percent, plain, table
from roleagent_lite.report.results import name_of
from roleagent_lite.report.svg import Point, Series, lines
from roleagent_lite.types import PromptSet

MOST_MODES = 12


def fixed_words(mode: str, facts: Facts) -> str:
    """The prompt that last got over `mode`, and the round in which it came back; "" where none did."""
    if mode not in facts.fixed:
        return ""
    prompt_set, round = facts.fixed[mode]
    back = next((r for r, seen in facts.modes.items() if r > round and seen[mode]), None)
    return name_of(prompt_set, facts) + (f", seen again in round {back}" if back is not None else "")


def modes_table(facts: Facts) -> str:
    """Diagnosed failures per mode and round, frequent ones first, and the prompt that last got over it
    (on the tasks of its round), with the round in which it came back.

    "" where none was diagnosed."""
    total: Counter[str] = Counter()
    for counts in facts.modes.values():
        total.update(counts)
    rounds = list(facts.modes)
    rows = [
        [plain(mode), *(str(facts.modes[r][mode]) for r in rounds), str(n), plain(fixed_words(mode, facts))]
        for mode, n in sorted(total.items(), key=lambda item: (-item[1], item[0]))[:MOST_MODES]
    ]
    if len(total) > MOST_MODES:
        rest = sum(total.values()) - sum(n for _, n in total.most_common(MOST_MODES))
        rows.append([f"{len(total) - MOST_MODES} rarer modes", *("" for _ in rounds), str(rest), ""])
    return table(["failure mode", *(f"round {r}" for r in rounds), "all", "got over by"], rows)


def type_shares(facts: Facts) -> dict[str, list[tuple[int, float]]]:
    """Per task type: (round, summed draw probability of its tasks, 0..1)."""
    out: dict[str, list[tuple[int, float]]] = {}
    for one in facts.rounds:
        p: Mapping[str, float] = one.get("p") or {}
        by_type: dict[str, float] = {}
        for task, value in p.items():
            kind = facts.task_types.get(task, "unknown")
            by_type[kind] = by_type.get(kind, 0.0) + float(value)
        for kind, value in by_type.items():
            out.setdefault(kind, []).append((int(one.get("round", 0)), value))
    return dict(sorted(out.items()))


def round_tallies(facts: Facts, round: int) -> tuple[Tally | None, Tally | None]:
    """What the parent and its child did on the round's training tasks; None for one that did not play."""
    played = facts.train_rounds.get(round, {})
    said = next((c for c in facts.candidates if c.get("round") == round and c.get("parent")), {})
    parent = played.get(str(said.get("parent"))) or next(iter(played.values()), None)
    child = next((t for t in played.values() if t is not parent), None)
    return parent, child


def _played(tally: Tally | None) -> str:
    return "not played" if tally is None else f"{percent(tally.success.mean)} of {tally.success.n}"


def _likeliest(task: str, even: bool, facts: Facts) -> str:
    if even:
        return "all alike"
    return f"{code(task, 40)} ({plain(facts.task_types.get(task, ''))})" if task else "unknown"


def curriculum_table(facts: Facts) -> str:
    """Each round's draw: how many tasks, how uneven the probabilities, the likeliest task."""
    rows = []
    for one in facts.rounds:
        p: Mapping[str, float] = one.get("p") or {}
        top = max(p, key=lambda task: (p[task], task)) if p else ""
        even = bool(p) and max(p.values()) - min(p.values()) < 1e-9
        parent, child = round_tallies(facts, int(one.get("round", 0)))
        rows.append(
            [
                str(one.get("round", "?")),
                str(len(one.get("drawn") or ())),
                percent(1 / len(p), 1) if p else "unknown",
                percent(max(p.values()), 1) if p else "unknown",
                _likeliest(top, even, facts),
                _played(parent),
                _played(child),
            ]
        )
    head = [
        "round",
        "tasks drawn",
        "uniform p",
        "highest p",
        "likeliest task",
        "parent solved",
        "child solved",
    ]
    return table(head, rows)


def curriculum_plot(facts: Facts) -> str | None:
    """Draw probability by task type over rounds, or None with fewer than 2 rounds or types."""
    shares = type_shares(facts)
    if len(shares) < 2 or len(facts.rounds) < 2:
        return None
    series = [Series(k, tuple(Point(r, v) for r, v in points)) for k, points in list(shares.items())[:8]]
    most = max(p.y or 0.0 for s in series for p in s.points)
    return lines(
        "Curriculum: chance that a drawn task is of this type", "round", "probability", series, _roof(most)
    )


def _roof(value: float) -> float:
    return next((top for top in (0.25, 0.5, 0.75) if value <= top), 1.0)


def success_series(facts: Facts) -> list[Series]:
    """Dev success of each prompt set over the round it was first scored in, and training success by round."""
    dev = sorted((t for (_, s), t in facts.tallies.items() if s == "dev"), key=lambda t: t.first_round)
    series: list[Series] = []
    if dev:
        points = [Point(t.first_round, t.success.mean, t.success.low, t.success.high) for t in dev]
        series.append(Series("dev: each prompt set scored", tuple(points)))
    train: list[Point] = []
    for number in facts.train_rounds:
        parent, _ = round_tallies(facts, number)
        if parent is not None:
            train.append(Point(number, parent.success.mean, parent.success.low, parent.success.high))
    if train:
        series.append(Series("training: the parent's rollouts of the round", tuple(train), dashed=True))
    return series


def success_plot(facts: Facts) -> str | None:
    """The series of `success_series`; None below 2 points."""
    series = success_series(facts)
    if sum(len(s.points) for s in series) < 2:
        return None
    return lines("Success by round, with 95 % intervals", "round", "solved", series)


def candidates_table(facts: Facts) -> str:
    """Every proposal with what became of it and why; "" where there was none."""
    rows = []
    for one in facts.candidates:
        child = one.get("child")
        dev = facts.tallies.get((str(child), "dev"))
        scored = [one.get(k) for k in ("wins", "losses", "ties")]
        rows.append(
            [
                str(one.get("round", "?")),
                plain(name_of(str(one.get("parent")), facts)) if one.get("parent") else "unknown",
                plain(name_of(str(child), facts)) if child else "none",
                code(str(one.get("component", "unknown"))),
                "entered" if one.get("accepted") else "refused",
                "-".join("?" if v is None else str(v) for v in scored),
                percent(dev.success.mean) + f" of {dev.success.n}" if dev and dev.success.n else "not played",
                plain(str(one.get("reason", "")) or "unknown", 200),
            ]
        )
    head = ["round", "parent", "child", "rewrites", "verdict", "won-lost-equal", "dev", "reason"]
    return table(head, rows)


def prompt_difference(seed: PromptSet, final: PromptSet) -> str:
    """A unified diff of the texts that changed; "" where none did."""
    out: list[str] = []
    for name in sorted({*seed.texts, *final.texts}):
        before, after = seed.texts.get(name, ""), final.texts.get(name, "")
        if before != after:
            out += difflib.unified_diff(
                before.splitlines(), after.splitlines(), f"seed {name}", f"final {name}", lineterm="", n=1
            )
    return "\n".join(out)


def prompt_section(facts: Facts, sets: Mapping[str, PromptSet]) -> str:
    """The final prompt's texts in full and what changed since the seed."""
    seed, final = sets.get(seed_id(facts) or ""), sets.get(final_id(facts) or "")
    shown = final or seed
    if shown is None:
        return "The run does not say which prompt it played."
    if final is None and facts.finished:
        parts = ["The prompt that was played:"]
    elif final is None:
        parts = ["The run has not chosen its final prompt yet. It started from this one:"]
    elif seed is not None and seed.id != final.id:
        parts = ["What changed since the seed:\n\n" + fence(prompt_difference(seed, final), "diff")]
    else:
        parts = ["The final prompt is the seed, unchanged."]
    for name, text in sorted(shown.texts.items()):
        parts.append(f"{code(name)}:\n\n" + (fence(text) if text.strip() else "(empty)"))
    return "\n\n".join(parts)


def rounds_as_data(facts: Facts) -> list[dict[str, Any]]:
    """Rounds for the JSON report: the draw and the training success."""
    out = []
    for one in facts.rounds:
        parent, child = round_tallies(facts, int(one.get("round", 0)))
        out.append(
            {
                "round": one.get("round"),
                "drawn": list(one.get("drawn") or ()),
                "p": dict(one.get("p") or {}),
                "counts": dict(one.get("counts") or {}),
                "parent": asdict(parent.success) if parent else None,
                "child": asdict(child.success) if child else None,
            }
        )
    return out
