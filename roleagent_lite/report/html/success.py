"""The HTML report's sections on success: headline, systems with intervals, task types, how episodes ended.

Owns their tables and plots. Leaves out counting (gather), the verdict's words (compare) and the page (page).
"""

from __future__ import annotations

from collections import Counter

from roleagent_lite.report.course import success_series
from roleagent_lite.report.gather import Share, Tally
from roleagent_lite.report.html.piece import (
    SHARE_HEAD,
    Cell,
    Markup,
    code_cell,
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
from roleagent_lite.report.results import MEANING, SPLITS, headline_parts, name_of
from roleagent_lite.report.write import TRAINING, Report
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


def labels(report: Report) -> dict[str, str]:
    """What each prompt set is called: seed, final, the system that played it, or the start of its id."""
    systems: dict[str, str] = {}
    for result in report.run.results:
        for ids in result.trajectories.values():
            for one in ids:
                parts = one.split("/", 2)
                if len(parts) == 3:
                    systems.setdefault(parts[1], result.system)
    known = {p for p, _ in report.facts.tallies} | set(report.prompts)
    out = {}
    for p in sorted(known):
        name = name_of(p, report.facts)
        # In an evaluation of several systems "seed" would name only one of them.
        out[p] = systems[p[:8]] if p[:8] in systems and systems[p[:8]] not in ("seed", "best") else name
    return out


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
    words = (
        f"{share.k} of {share.n}, 95 % interval {100 * (share.low or 0):.0f}–{100 * (share.high or 0):.0f} %"
    )
    return _card(title, f"{100 * share.mean:.0f} %", words)


def cards(report: Report) -> Markup:
    """The numbers of the headline at a glance: the sealed comparison, or what was played so far."""
    facts, found = report.facts, report.sealed
    out = []
    if found is not None:
        pair = found.paired
        span = "interval unknown"
        if pair.low is not None and pair.high is not None:
            span = f"95 % interval {100 * pair.low:+.0f} to {100 * pair.high:+.0f}"
        out += [
            _share_card(found.first_name.strip(", "), found.first_success),
            _share_card(found.second_name.strip(", "), found.second_success),
            _card("difference, points", f"{100 * pair.difference:+.0f}", span),
            _card(
                "won – lost – same",
                f"{pair.wins} – {pair.losses} – {pair.ties}",
                f"p = {pair.p:.3f}, {pair.test}",
            ),
        ]
    else:
        names = labels(report)
        for (prompt_set, split), tally in list(facts.tallies.items())[:4]:
            out.append(_share_card(f"{names[prompt_set]}, {WORDS.get(split, split)}", tally.success))
    episodes = sum(len(t.won) for t in facts.tallies.values())
    if episodes:
        calls = sum(s.calls for s in facts.spend)
        out.append(_card("episodes", f"{episodes:,}", f"{calls:,} model calls"))
    return tag("dl", *out, class_="cards") if out else Markup("")


def _ordered(report: Report, split: str) -> list[Tally]:
    order = {"seed": 0, "seed (kept)": 0, "final": 1}
    names = labels(report)
    found = [t for (_, s), t in report.facts.tallies.items() if s == split]
    return sorted(found, key=lambda t: (order.get(names[t.prompt_set], 2), t.first_round, t.prompt_set))


def systems_table(report: Report, splits: tuple[str, ...] = ("test", "dev", "train")) -> Markup:
    """Each prompt set on each split, with 95 % Wilson intervals; errors shown left out and as 0."""
    names = labels(report)
    rows = []
    for split in splits:
        for t in _ordered(report, split):
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


def type_tables(report: Report) -> Markup:
    """By split and task type, one column a prompt; a split with one type is left out."""
    names = labels(report)
    out = []
    for split, words in SPLITS:
        tallies = _ordered(report, split)[:8]
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


def overview(report: Report) -> Markup:
    """The first page: what came out, the sealed tasks, and the two plots that matter most."""
    splits = ("test",) if any(s == "test" for _, s in report.facts.tallies) else ("dev", "train")
    plots = [p for p in (learning_plot(report), cost_plot(report)) if p]
    return join(
        [
            cards(report),
            headline(report),
            systems_table(report, splits),
            tag("div", *plots, class_="plots") if plots else "",
        ]
    )


def results(report: Report) -> Markup:
    """All tables on success."""
    found = [
        results_table(report),
        systems_table(report),
        type_tables(report),
        outcome_table(report),
        moves_table(report),
        arms_table(report),
        remarks(report),
    ]
    return join(found) if any(found) else paragraphs(["No episode has been played yet."])
