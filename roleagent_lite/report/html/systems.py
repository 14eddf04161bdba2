"""The HTML report's section on an evaluation of several systems: table, pairs, types, repetitions, published.

Owns these tables and plots, and those that a comparison of runs shares with them. Leaves out the numbers and
the words (report.systems, stats).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roleagent_lite.report import systems as words
from roleagent_lite.report.gather import Share
from roleagent_lite.report.html.piece import (
    SHARE_HEAD,
    Cell,
    Markup,
    join,
    number_cell,
    percent_cell,
    share_cells,
    table,
    tag,
    text_cell,
)
from roleagent_lite.report.html.plots import Spot, spot_plot
from roleagent_lite.report.markdown import duration
from roleagent_lite.report.reference import Reference, warning
from roleagent_lite.report.systems import USED, Against, Standings
from roleagent_lite.stats import Paired, Rate, Summary, p_words

PAIR_HEAD = (
    "pair", "won / lost / tied", "ties as half", "difference, points (95 %)", "difference in score (95 %)",
    "p, corrected", "verdict",
)  # fmt: skip
P_NOTE = (
    "p is two-sided and corrected over all pairs (Holm): the exact McNemar test where each task is solved or "
    "not, else a permutation test over tasks."
)
HEAD = ("system", *SHARE_HEAD, "mean of types", "mean score", "errors", "errors as 0")
USED_HEAD = (
    "system", "calls a task", "tokens", "dollars", "tokens a solved task", "dollars a solved task",
    "time, summed",
)  # fmt: skip


def rate_cells(rate: Rate) -> list[Cell]:
    """As `share_cells`; where there is no number, the words that say why."""
    if rate.mean is None:
        return share_cells(Share(0, 0, None, None, None), rate.how)
    return share_cells(Share(round(rate.mean * rate.n), rate.n, rate.mean, rate.low, rate.high))


def _money(value: float | None) -> Cell:
    return number_cell(None) if value is None else Cell(words.money(value), value)


def _tokens(one: Summary) -> int | None:
    used = one.usage
    return None if used.input is None or used.output is None else used.input + used.output


def summary_table(title: str, summaries: Sequence[Summary], names: Sequence[str]) -> Markup:
    """One row a system: success with its interval; errors left out, and again as 0."""
    rows = [
        [
            text_cell(name),
            *rate_cells(one.rate),
            percent_cell(one.macro),
            number_cell(one.score, 2),
            number_cell(one.errors),
            percent_cell(one.as_zero) if one.errors else Cell("same", one.rate.mean),
        ]
        for one, name in zip(summaries, names, strict=True)
    ]
    return table(title, HEAD, rows)


def used_table(summaries: Sequence[Summary], names: Sequence[str]) -> Markup:
    """One row a system: what it used; unknown stays unknown."""
    rows = []
    for one, name in zip(summaries, names, strict=True):
        nothing = "none solved" if not one.solved else "unknown"
        rows.append(
            [
                text_cell(name),
                number_cell(one.calls_a_task),
                number_cell(_tokens(one)),
                _money(one.usage.dollars),
                number_cell(one.tokens_a_solved, 0, nothing),
                _money(one.dollars_a_solved) if one.solved else number_cell(None, 0, nothing),
                Cell(duration(one.seconds), one.seconds),
            ]
        )
    return table("What they used", USED_HEAD, rows, note=USED)


def cost_plot(summaries: Sequence[Summary], names: Sequence[str]) -> Markup:
    """Success against cost: dollars where all are known and some is not 0, else tokens, else calls."""
    scored = [(one, name) for one, name in zip(summaries, names, strict=True) if one.rate.mean is not None]
    ways: list[tuple[str, Callable[[Summary], float | None]]] = [
        ("dollars an episode", lambda one: one.usage.dollars),
        ("tokens an episode", _tokens),
        ("calls an episode", lambda one: one.calls),
    ]
    for unit, of in ways:
        costs = [of(one) for one, _ in scored]
        if any(costs) and all(cost is not None for cost in costs):
            spots = [
                Spot(
                    name,
                    (cost or 0.0) / max(1, one.episodes),
                    one.rate.mean or 0.0,
                    one.rate.low,
                    one.rate.high,
                )
                for (one, name), cost in zip(scored, costs, strict=True)
            ]
            return spot_plot("Success against cost", unit, "solved", spots)
    return Markup("")


def types_table(summaries: Sequence[Summary], names: Sequence[str]) -> Markup:
    """Success by task type, a column a system; "" with fewer than two types."""
    kinds = sorted({kind for one in summaries for kind in one.by_type})
    if len(kinds) < 2:
        return Markup("")
    rows = []
    for kind in kinds:
        row = [text_cell(kind)]
        for one in summaries:
            row += rate_cells(one.by_type[kind])[:2] if kind in one.by_type else [Cell("none"), Cell("")]
        rows.append(row)
    return table("By task type", ["task type", *(h for n in names for h in (n, "95 % interval"))], rows)


def pair_row(
    first: str, second: str, success: Paired | None, score: Paired | None, p: float | None
) -> list[Cell]:
    """One row of PAIR_HEAD."""
    name = text_cell(f"{second} against {first}")
    if success is None:
        return [name, *(Cell("") for _ in PAIR_HEAD[2:]), text_cell("no task in common")]
    noise = success.within_noise(p)
    verdict = tag(
        "span", "within noise" if noise else "more than noise", class_=f"tag {'off' if noise else 'good'}"
    )
    return [
        name,
        Cell(f"{success.wins} / {success.losses} / {success.ties}", success.wins - success.losses),
        percent_cell(success.win_rate),
        Cell(words.signed(success), success.difference),
        Cell(words.signed(score, 2), score.difference) if score is not None else Cell("no score"),
        Cell(p_words(p).removeprefix("= "), p) if p is not None else Cell("unknown"),
        Cell(verdict, str(noise), number=False),
    ]


def _pairs(pairs: Sequence[Against]) -> Markup:
    rows = [pair_row(one.first, one.second, one.success, one.score, one.p) for one in pairs]
    note = P_NOTE
    return table(
        "Systems against one another, on the same tasks",
        PAIR_HEAD,
        rows,
        note=note,
        filterable=len(rows) > 10,
    )


def repetitions(summaries: Sequence[Summary], names: Sequence[str]) -> Markup:
    """Run-to-run spread and pass@k; "" where nothing was repeated."""
    rows = []
    for one, name in zip(summaries, names, strict=True):
        if one.spread is not None:
            means = ", ".join("no data" if m is None else f"{100 * m:.0f} %" for m in one.repetition_means)
            spread = Cell(f"{100 * one.spread:.1f} points", one.spread)
            rows.append(
                [text_cell(name), text_cell("standard deviation of repetitions"), spread, text_cell(means)]
            )
        for k in one.passes:
            value = (
                "not computed"
                if k.any is None
                else f"{k.any:.3f} / {k.every if k.every is not None else 0:.3f}"
            )
            rows.append(
                [
                    text_cell(name),
                    text_cell(f"pass@{k.k} / pass^{k.k}"),
                    Cell(value, k.any),
                    text_cell(k.words),
                ]
            )
    return table("Repetitions", ["system", "measure", "value", "in words"], rows)


def _published(found: Sequence[Reference]) -> Markup:
    if not found:
        return Markup("")
    tables = []
    for one in found:
        rows = [
            [
                text_cell(row.method),
                text_cell(row.model),
                number_cell(row.score, 1, "–"),
                number_cell(row.success, 1, "–"),
                text_cell(row.note),
            ]
            for row in one.rows
        ]
        note = f"{one.protocol}. Source: {one.source}."
        tables.append(table(one.title, ["method", "model", "score", "success, %", "note"], rows, note=note))
    return join(
        [tag("h3", "Published numbers, for orientation"), tag("p", warning(), class_="warn"), *tables]
    )


def systems(found: Standings) -> Markup:
    """The whole section."""
    names = [one.system for one in found.summaries]
    plot = cost_plot(found.summaries, names)
    return join(
        [
            tag("p", words.conditions_words(found)),
            tag("p", f"Not finished: {', '.join(found.unfinished)}.", class_="warn")
            if found.unfinished
            else "",
            summary_table("Success", found.summaries, names),
            used_table(found.summaries, names),
            tag("div", plot, class_="plots") if plot else "",
            _pairs(found.pairs),
            types_table(found.summaries, names),
            repetitions(found.summaries, names),
            _published(found.references),
        ]
    )
