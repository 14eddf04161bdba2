"""The HTML report's sections on success: headline, systems with intervals, task types, how episodes ended.

Owns their tables and plots. Leaves out counting (gather), the verdict's words (compare) and the page (page).
"""

from __future__ import annotations

from roleagent_lite.report.course import success_series
from roleagent_lite.report.gather import Share
from roleagent_lite.report.html import endings, systems
from roleagent_lite.report.html.naming import labels, ordered
from roleagent_lite.report.html.piece import (
    SHARE_HEAD,
    Cell,
    Markup,
    join,
    number_cell,
    paragraphs,
    percent_cell,
    share_cells,
    table,
    tag,
    text_cell,
)
from roleagent_lite.report.html.plots import Spot, line_plot, spot_plot
from roleagent_lite.report.results import headline_parts
from roleagent_lite.report.systems import Standings
from roleagent_lite.report.write import TRAINING, Report
from roleagent_lite.stats import p_words
from roleagent_lite.types import Result

INTERVALS = (
    "Intervals are 95 % Wilson intervals over episodes. Errors of the provider or the environment are left "
    "out of the mean and shown again as 0."
)
USED = (
    "All that a system did for a task counts, trials included; unknown = the server or the price list did "
    "not say."
)
WORDS = {"test": "sealed test", "dev": "dev", "train": "training"}


def headline(report: Report) -> Markup:
    parts = headline_parts(report.facts, report.sealed)
    return tag(
        "div",
        *(tag("p", *((tag("strong", lead), " ") if lead else ()), words) for lead, words in parts),
        class_="headline",
    )


def _card(title: str, value: object, more: object = "") -> Markup:
    return tag("div", tag("dt", title), tag("dd", value), tag("dd", more) if more else "", class_="card")


def _share_card(title: str, share: Share) -> Markup:
    if share.mean is None:
        return _card(title, "–", "no scored episode")
    words = f"{share.k} of {share.n} (95 %: {100 * (share.low or 0):.0f}–{100 * (share.high or 0):.0f})"
    return _card(title, f"{100 * share.mean:.0f} %", words)


def cards(report: Report) -> Markup:
    """The numbers of the headline at a glance: the sealed comparison, or what was played so far."""
    facts, found = report.facts, report.sealed
    out = []
    if found is not None:
        pair = found.paired
        span = "interval unknown"
        if pair.low is not None and pair.high is not None:
            span = f"95 %: {100 * pair.low:+.0f} to {100 * pair.high:+.0f}"
        out += [
            _share_card(found.first_name.strip(", "), found.first_success),
            _share_card(found.second_name.strip(", "), found.second_success),
            _card("difference, points", f"{100 * pair.difference:+.0f}", span),
            _card(
                "won – lost – same",
                f"{pair.wins} – {pair.losses} – {pair.ties}",
                f"p {p_words(pair.p)}, {pair.test}",
            ),
        ]
    elif report.standings is not None:
        few = len(report.standings.summaries) <= 5  # of more, the table says it better
        for one in report.standings.summaries if few else ():
            rate = one.rate
            got = Share(round((rate.mean or 0.0) * rate.n), rate.n, rate.mean, rate.low, rate.high)
            out.append(_share_card(one.system, got))
    else:
        names = labels(report)
        for (prompt_set, split), tally in list(facts.tallies.items())[:4]:
            out.append(_share_card(f"{names[prompt_set]}, {WORDS.get(split, split)}", tally.success))
    episodes = sum(len(t.won) for t in facts.tallies.values())
    if episodes:
        calls = sum(s.calls for s in facts.spend)
        out.append(_card("episodes", f"{episodes:,}", f"{calls:,} model calls"))
    return tag("dl", *out, class_="cards") if out else Markup("")


def systems_table(report: Report, splits: tuple[str, ...] = ("test", "dev", "train")) -> Markup:
    """Each prompt set on each split, with 95 % Wilson intervals; errors shown left out and as 0."""
    names = labels(report)
    rows = []
    for split in splits:
        for t in ordered(report, split):
            rows.append(
                [
                    text_cell(names[t.prompt_set]),
                    text_cell(WORDS.get(split, split)),
                    *share_cells(t.success),
                    percent_cell(t.macro(report.facts.task_types)),
                    number_cell(t.mean_score, 2),
                    number_cell(t.errors),
                    percent_cell(t.with_errors.mean) if t.errors else Cell("same", t.success.mean),
                    number_cell(t.mean_steps),
                ]
            )
    head = [
        "prompt",
        "played on",
        *SHARE_HEAD,
        "mean of types",
        "mean score",
        "errors",
        "errors as 0",
        "steps",
    ]
    note = INTERVALS
    if "train" in splits and any(split == "train" for _, split in report.facts.tallies):
        note += " " + TRAINING.strip()
    return table("Success by prompt", head, rows, note=note)


def _each(total: float | int | None, episodes: int) -> float | None:
    return None if total is None or not episodes else total / episodes


def tokens(result: Result) -> int | None:
    """Input and output tokens of all calls; None where the server did not say."""
    usage = result.usage
    return None if usage.input is None or usage.output is None else usage.input + usage.output


def episodes_of(result: Result) -> int:
    return sum(len(row) for row in result.scores.values())


def results_table(report: Report) -> Markup:
    """The scored systems (Result rows) with what they used; "" where none was scored yet."""
    rows = []
    for r in report.run.results:
        n = episodes_of(r)
        solved = round((r.mean or 0.0) * r.n)
        each = _each(tokens(r), n)
        dollars = _each(r.usage.dollars, n)
        rows.append(
            [
                text_cell(r.system),
                text_cell(r.suite),
                *share_cells(Share(solved, r.n, r.mean, r.low, r.high)),
                number_cell(n - r.n),
                number_cell(_each(r.calls, n), 1),
                number_cell(round(each) if each is not None else None),
                Cell(f"${dollars:.4f}" if dollars else "$0", dollars)
                if dollars is not None
                else number_cell(None),
                number_cell(_each(r.seconds, n), 1),
            ]
        )
    head = [
        "system",
        "tasks",
        *SHARE_HEAD,
        "errors",
        "calls a task",
        "tokens a task",
        "dollars a task",
        "seconds a task",
    ]
    return table(
        "Scored systems and what they used",
        head,
        rows,
        note=USED,
    )


def cost_plot(report: Report) -> Markup:
    """Success against cost, one spot a scored system: dollars where known, else tokens, else calls."""
    if report.standings is not None:
        found = report.standings.summaries
        return systems.cost_plot(found, [one.system for one in found])
    scored = [r for r in report.run.results if r.mean is not None and episodes_of(r)]
    for unit, of in (
        ("dollars an episode", lambda r: r.usage.dollars or None),
        ("tokens an episode", tokens),
        ("calls an episode", lambda r: r.calls),
    ):
        costs = [of(r) for r in scored]
        if scored and all(c is not None for c in costs):
            several = len({r.suite for r in scored}) > 1
            spots = [
                Spot(
                    f"{r.system} ({r.suite})" if several else r.system,
                    c / episodes_of(r),
                    r.mean or 0.0,
                    r.low,
                    r.high,
                )
                for r, c in zip(scored, costs, strict=True)
                if c is not None
            ]
            return spot_plot("Success against cost", unit, "solved", spots)
    return Markup("")


def learning_plot(report: Report) -> Markup:
    series = success_series(report.facts)
    if sum(len(s.points) for s in series) < 2:
        return Markup("")
    return line_plot("Learning: success by round, with 95 % intervals", "round", "solved", series)


def _evaluated(found: Standings) -> Markup:
    return systems.summary_table("Systems", found.summaries, [one.system for one in found.summaries])


def overview(report: Report) -> Markup:
    """The first page: what came out, the sealed tasks, and the two plots that matter most."""
    splits = ("test",) if any(s == "test" for _, s in report.facts.tallies) else ("dev", "train")
    plots = [p for p in (learning_plot(report), cost_plot(report)) if p]
    return join(
        [
            cards(report),
            headline(report),
            systems_table(report, splits) if report.standings is None else _evaluated(report.standings),
            tag("div", *plots, class_="plots") if plots else "",
        ]
    )


def results(report: Report) -> Markup:
    """All tables on success."""
    found = [
        results_table(report) if report.standings is None else "",
        systems_table(report),
        endings.type_tables(report),
        endings.outcome_table(report),
        endings.moves_table(report),
        endings.arms_table(report),
        endings.remarks(report),
    ]
    return join(found) if any(found) else paragraphs(["No episode has been played yet."])
