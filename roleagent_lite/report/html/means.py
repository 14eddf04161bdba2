"""The HTML report's sections on means: tokens, dollars, time, settings, and what the default model is.

Owns their tables. Leaves out counting (gather) and the words on the default model (report.means).
"""

from __future__ import annotations

from roleagent_lite.report import means
from roleagent_lite.report.html.piece import (
    Cell,
    Markup,
    code_cell,
    folded,
    join,
    number_cell,
    paragraphs,
    pre,
    table,
    tag,
    text_cell,
)
from roleagent_lite.report.markdown import count, dollars, duration
from roleagent_lite.report.write import Report, settings_rows


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def cost(report: Report) -> Markup:
    """Calls, tokens, dollars and model time by role; sessions."""
    facts = report.facts
    rows = [
        [
            text_cell(s.role),
            code_cell(s.model),
            Cell(means.calls_words(s), s.calls),
            Cell(count(s.input, s.unknown_tokens, s.calls), s.input),
            Cell(count(s.cached, s.unknown_tokens, s.calls), s.cached),
            Cell(count(s.output, s.unknown_tokens, s.calls), s.output),
            Cell(dollars(s.dollars, s.unknown_dollars, s.calls), s.dollars),
            Cell(duration(s.seconds), s.seconds),
        ]
        for s in facts.spend
    ]
    head = [
        "role",
        "model",
        "calls",
        "input tokens",
        "of these cached",
        "output tokens",
        "dollars",
        "model time",
    ]
    sessions = []
    for i, one in enumerate(facts.sessions[-200:], 1):
        seconds = one.get("seconds")
        known = float(seconds) if isinstance(seconds, int | float) else None
        sessions.append(
            [
                number_cell(i),
                Cell(duration(known), known),
                number_cell(_whole(one.get("calls"))),
                number_cell(_whole(one.get("replayed"))),
                text_cell(one.get("stopped") or "finished", 300),
            ]
        )
    return join(
        [
            table("Cost by role", head, rows, note="Model time counts calls at once one by one.")
            or paragraphs(["No call was made."]),
            paragraphs([means.unanswered(facts)]),
            table(
                "Sessions", ["session", "time", "calls made", "answered from the record", "ended"], sessions
            ),
        ]
    )


def settings(report: Report) -> Markup:
    """What was run, then every resolved setting as the run's config.toml has it."""
    rows = [[text_cell(k), text_cell(v or "unknown")] for k, v in settings_rows(report)]
    flat: list[list[Cell]] = []
    for key, value in report.run.config.model_dump(mode="json").items():
        for name, one in value.items() if isinstance(value, dict) else [(None, value)]:
            full = f"{key}.{name}" if name is not None else key
            flat.append([code_cell(full), code_cell("not set" if one is None else str(one), 300)])
    parts: list[object] = [
        table("What was run", ["setting", "value"], rows),
        folded("All settings", table("All settings", ["setting", "value"], flat, filterable=True)),
    ]
    told, command = means.embedded_parts(report.run.config, report.name, report.facts)
    if told:
        parts += [tag("h3", "What this model can and cannot do"), paragraphs(told), pre(command)]
    return join(parts)
