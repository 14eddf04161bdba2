"""The HTML report's tables on task types, how episodes ended, moves and arms; notes and what broke.

Owns these tables. Leaves out counting (gather) and the systems' own table (success).
"""

from __future__ import annotations

from collections import Counter

from roleagent_lite.report.html.naming import labels, ordered
from roleagent_lite.report.html.piece import (
    SHARE_HEAD,
    Cell,
    Markup,
    code_cell,
    join,
    number_cell,
    percent_cell,
    share_cells,
    table,
    tag,
    text_cell,
)
from roleagent_lite.report.results import MEANING, SPLITS
from roleagent_lite.report.write import Report


def type_tables(report: Report) -> Markup:
    """By split and task type, one column a prompt; a split with one type is left out."""
    names = labels(report)
    out = []
    for split, words in SPLITS:
        tallies = ordered(report, split)[:8]
        columns = [t.by_type(report.facts.task_types) for t in tallies]
        kinds = sorted({k for c in columns for k in c})
        if len(kinds) < 2:
            continue
        rows = []
        for kind in kinds:
            row = [text_cell(kind)]
            for column in columns:
                row += share_cells(column[kind])[:2] if kind in column else [Cell("none"), Cell("")]
            rows.append(row)
        head = ["task type"] + [h for t in tallies for h in (names[t.prompt_set], "95 % interval")]
        out.append(table(f"By task type: {words}", head, rows))
    return join(out)


def outcome_table(report: Report) -> Markup:
    facts = report.facts
    splits = [s for s, _ in SPLITS if s in facts.outcomes]
    total: Counter[tuple[str, str]] = Counter()
    for split in splits:
        total.update(facts.outcomes[split])
    order = list(MEANING)
    keys = sorted(total, key=lambda k: (order.index(k[0]) if k[0] in order else 9, -total[k], k[1]))
    rows = [
        [
            text_cell(kind.replace("_", " ")),
            text_cell(reason or "–", 90),
            *(number_cell(facts.outcomes[s][(kind, reason)]) for s in splits),
            text_cell(MEANING.get(kind, "")),
        ]
        for kind, reason in keys
    ]
    return table("How episodes ended", ["ended", "reason", *splits, "in the mean"], rows)


def moves_table(report: Report) -> Markup:
    rows = []
    for split, words in SPLITS:
        m = report.facts.moves.get(split)
        if m is None:
            continue
        unasked = split != "train" and m.without_prediction == m.steps
        empty = (
            Cell("not asked for")
            if unasked
            else percent_cell(m.without_prediction / m.steps if m.steps else None, 1)
        )
        rows.append(
            [
                text_cell(words),
                number_cell(m.steps),
                number_cell(m.invalid),
                percent_cell(m.invalid / m.steps if m.steps else None, 1),
                empty,
            ]
        )
    return table("Moves", ["split", "steps", "not admissible", "share", "without a prediction"], rows)


def arms_table(report: Report) -> Markup:
    if len(report.facts.arms) < 2:
        return Markup("")
    rows = [[text_cell(arm), *share_cells(t.success)] for arm, t in sorted(report.facts.arms.items())]
    return table("Experience in the prompt, on training tasks", ["arm", *SHARE_HEAD], rows)


def remarks(report: Report) -> Markup:
    """Notes of the run and its first infrastructure errors."""
    parts = []
    if report.facts.notes:
        parts += [tag("h3", "Notes"), tag("ul", *(tag("li", n[:600]) for n in report.facts.notes[:50]))]
    if report.facts.errors:
        lines = (tag("li", code_cell(e, 300).show) for e in report.facts.errors)
        parts += [tag("h3", "The first episodes that broke off"), tag("ul", *lines)]
    return join(parts)
