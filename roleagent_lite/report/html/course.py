"""The HTML report's sections on a run's course: foresight, failure modes, curriculum, candidates, prompt.

Owns their tables and plots. Leaves out counting (gather, wia.fidelity) and success.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from roleagent_lite.report import foresight
from roleagent_lite.report.compare import final_id, seed_id
from roleagent_lite.report.course import (
    MOST_MODES,
    fixed_words,
    prompt_difference,
    round_tallies,
    type_shares,
)
from roleagent_lite.report.gather import Facts, Tally
from roleagent_lite.report.html.naming import labels
from roleagent_lite.report.html.piece import (
    Cell,
    Markup,
    code_cell,
    folded,
    join,
    number_cell,
    paragraphs,
    percent_cell,
    pre,
    share_cells,
    table,
    tag,
    text_cell,
)
from roleagent_lite.report.html.plots import Bar, bar_plot, line_plot, stack_plot
from roleagent_lite.report.svg import Point, Series
from roleagent_lite.report.write import Report

TRIVIAL_HEAD = ("trivial predictor", "it scores", "the agent scores there", "n")
ACTION_HEAD = ("first word of the action", "steps", "without prediction", "alignment")


def _nothing(report: Report, words: str) -> Markup:
    """`words` in an evolution; "" in an evaluation, which has no such thing."""
    return tag("p", words) if report.facts.rounds else Markup("")


def world(report: Report) -> Markup:
    """Foresight: predictions against trivial predictors, and by the first word of the action."""
    found = report.fidelity
    if found is None:
        return _nothing(report, "No episode carries predictions that were scored.")
    trivial = [
        [
            text_cell(b.name),
            number_cell(b.alignment, 2, "no data"),
            number_cell(b.model, 2, "no data"),
            number_cell(b.n),
        ]
        for b in found.baselines
    ]
    actions = [
        [
            code_cell(a.action or "(none)"),
            number_cell(a.steps),
            number_cell(a.missing),
            number_cell(a.alignment, 2, "no data"),
        ]
        for a in found.by_action[:50]
    ]
    bars = [Bar(a.action or "(none)", (a.alignment,), f"{a.steps} steps") for a in found.by_action[:12]]
    against = [Bar(b.name, (b.alignment, b.model), str(b.n)) for b in found.baselines]
    plots = [
        bar_plot(
            "Foresight against trivial predictors", "alignment", against, ["trivial predictor", "the agent"]
        )
        if found.comparisons
        else "",
        bar_plot("Foresight by action type (first word)", "alignment", bars, ["the agent"])
        if found.comparisons
        else "",
    ]
    return join(
        [
            *(tag("p", tag("strong", "Note:"), " ", w, class_="warn") for w in found.warnings),
            paragraphs(foresight.sentences(found, report.left_out)),
            tag("div", *plots, class_="plots"),
            table("Trivial predictors on the same comparisons", TRIVIAL_HEAD, trivial),
            table("By action type", ACTION_HEAD, actions, filterable=len(actions) > 12),
        ]
    )  # fmt: skip


def _mode_totals(facts: Facts) -> list[tuple[str, int]]:
    total: Counter[str] = Counter()
    for counts in facts.modes.values():
        total.update(counts)
    return sorted(total.items(), key=lambda item: (-item[1], item[0]))


def failures(report: Report) -> Markup:
    """Diagnosed failures by mode and round, and the prompt that last got over each."""
    facts = report.facts
    totals, rounds = _mode_totals(facts), list(facts.modes)
    if not totals:
        return _nothing(report, "No failure was diagnosed.")
    shown, rest = totals[:7], totals[7:]
    columns = [
        (
            str(r),
            [
                *(facts.modes[r][m] for m, _ in shown),
                *([sum(facts.modes[r][m] for m, _ in rest)] if rest else []),
            ],
        )
        for r in rounds
    ]
    names = [m for m, _ in shown] + ([f"{len(rest)} rarer modes"] if rest else [])
    late = rounds[-30:]
    rows = [
        [
            Cell(tag("a", m, href=f"#episodes&q={quote(m, safe='')}"), m.lower(), number=False),
            *(number_cell(facts.modes[r][m]) for r in late),
            number_cell(n),
            text_cell(fixed_words(m, facts)),
        ]
        for m, n in totals[:500]
    ]
    head = ["failure mode", *(f"round {r}" for r in late), "all", "got over by"]
    plot = stack_plot("Failure modes over time", "round", "diagnosed failures", columns, names)
    note = "Each failed training episode is diagnosed once. A mode leads to its episodes."
    if len(rounds) > len(late):
        note += f" The last {len(late)} of {len(rounds)} rounds have a column; all count in the sum."
    return join(
        [
            tag("div", plot, class_="plots"),
            table("Failure modes by round", head, rows, filterable=len(rows) > MOST_MODES, note=note),
        ]
    )  # fmt: skip


def _share_of(tally: Tally | None) -> list[Cell]:
    return (
        [Cell(tag("span", "not played", class_="dim")), Cell("")]
        if tally is None
        else share_cells(tally.success)[:2]
    )


def _chances(facts: Facts) -> list[Series]:
    """Draw probability by task type over rounds; by task (those that moved most) where there is one type."""
    by: Mapping[str, list[tuple[int, float]]] = type_shares(facts)
    if len(by) < 2:
        tasks: dict[str, list[tuple[int, float]]] = {}
        for one in facts.rounds:
            for task, p in (one.get("p") or {}).items():
                tasks.setdefault(str(task), []).append((int(one.get("round", 0)), float(p)))
        moved = sorted(tasks, key=lambda t: (min(p for _, p in tasks[t]) - max(p for _, p in tasks[t]), t))
        by = {t: tasks[t] for t in moved[:8]}
    return [Series(k, tuple(Point(r, v) for r, v in points)) for k, points in list(by.items())[:8]]


def curriculum(report: Report) -> Markup:
    """Each round's draw, and how likely each kind of task was."""
    facts = report.facts
    rows = []
    for one in facts.rounds[-500:]:
        p: Mapping[str, float] = one.get("p") or {}
        top = max(p, key=lambda task: (p[task], task)) if p else ""
        even = bool(p) and max(p.values()) - min(p.values()) < 1e-9
        parent, child = round_tallies(facts, int(one.get("round", 0)))
        rows.append(
            [
                number_cell(int(one.get("round", 0))),
                number_cell(len(one.get("drawn") or ())),
                percent_cell(1 / len(p) if p else None, 1),
                percent_cell(max(p.values()) if p else None, 1),
                text_cell("all alike") if even else code_cell(top, 40),
                text_cell("" if even else facts.task_types.get(top, "")),
                *_share_of(parent),
                *_share_of(child),
            ]
        )
    if not rows:
        return Markup("")
    series = _chances(facts)
    most = max((p.y or 0.0 for s in series for p in s.points), default=0.0)
    roof = next((top for top in (0.05, 0.1, 0.25, 0.5, 0.75) if most <= top), 1.0)
    plots = (
        [line_plot("Chance that a drawn task is of this type", "round", "probability", series, y_max=roof)]
        if series
        else []
    )
    head = [
        "round",
        "tasks drawn",
        "uniform p",
        "highest p",
        "likeliest task",
        "its type",
        "parent solved",
        "95 % interval",
        "child solved",
        "95 % interval",
    ]
    return join([tag("div", *plots, class_="plots"), table("Rounds", head, rows, filterable=len(rows) > 20)])


def _candidate(one: Mapping[str, Any], report: Report, names: Mapping[str, str]) -> list[Cell]:
    parent, child = str(one.get("parent") or ""), str(one.get("child") or "")
    dev = report.facts.tallies.get((child, "dev"))
    scored = [one.get(k) for k in ("wins", "losses", "ties")]
    round = one.get("round")
    words, colour = ("entered", "good") if one.get("accepted") else ("refused", "off")
    verdict = tag("span", words, class_=f"tag {colour}")
    return [
        number_cell(round if isinstance(round, int) else None),
        text_cell(names.get(parent, parent[:8]) or "unknown"),
        text_cell(names.get(child, child[:8]) or "none"),
        code_cell(str(one.get("component", "unknown"))),
        Cell(verdict, str(bool(one.get("accepted"))), number=False),
        text_cell(" / ".join("?" if v is None else str(v) for v in scored)),
        *(share_cells(dev.success)[:2] if dev else [Cell(tag("span", "not played", class_="dim")), Cell("")]),
        text_cell(one.get("reason") or "unknown", 300),
    ]  # fmt: skip


def candidates(report: Report) -> Markup:
    """Every proposal with what became of it and why."""
    names = labels(report)
    rows = [_candidate(c, report, names) for c in report.facts.candidates[-1000:]]
    head = [
        "round",
        "parent",
        "child",
        "rewrites",
        "verdict",
        "won / lost / equal",
        "dev solved",
        "95 % interval",
        "reason",
    ]
    if not rows:
        return _nothing(report, "No candidate was proposed.")
    return table("Proposals", head, rows, filterable=len(rows) > 8)


def _difference(lines: str) -> Markup:
    kinds = {"+": "add", "-": "del", "@": "hunk"}

    def kind(line: str) -> str | None:
        return "hunk" if line.startswith(("--- seed ", "+++ final ")) else kinds.get(line[:1])

    shown = (tag("span", line + "\n", class_=kind(line)) for line in lines.splitlines())
    return tag("pre", *shown, class_="diff")


def prompt(report: Report) -> Markup:
    """The final prompt in full and what changed since the seed."""
    sets, facts = report.prompts, report.facts
    seed, final = sets.get(seed_id(facts) or ""), sets.get(final_id(facts) or "")
    shown = final or seed
    if shown is None:
        return paragraphs(["The run does not say which prompt it played."])
    if final is None:
        words = (
            "The prompt that was played."
            if facts.finished
            else "The run has not chosen its final prompt yet. It started from this one."
        )
    else:
        words = (
            "The final prompt is the seed, unchanged."
            if seed is None or seed.id == final.id
            else "What changed since the seed:"
        )
    parts: list[object] = [tag("p", words)]
    if final is not None and seed is not None and seed.id != final.id:
        parts.append(_difference(prompt_difference(seed, final)))
    for name, text in sorted(shown.texts.items()):
        parts.append(
            folded(f"{name} ({len(text):,} characters)", pre(text) if text.strip() else tag("p", "(empty)"))
        )
    return join([tag("h3", "The prompt"), *parts])
