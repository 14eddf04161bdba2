"""The report's section on an evaluation of several systems: a table, their pairs, types, repetitions.

Owns which numbers stand in it and their words, read from the Result rows. Leaves out the arithmetic (stats)
and published numbers' file (reference).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

from roleagent_lite.report.markdown import UNKNOWN, dollars, duration, number, percent, plain, table
from roleagent_lite.report.reference import Reference, known, references, warning
from roleagent_lite.stats import (
    Paired,
    Rate,
    Summary,
    holm,
    p_words,
    paired_difference,
    summarise,
    task_means,
    verdict,
)
from roleagent_lite.store import Run
from roleagent_lite.types import Result

TESTS = (
    "pairs are compared by task, by the exact McNemar test where each task is solved or not, else by a "
    "permutation test with bootstrap intervals; p is two-sided and corrected over all pairs (Holm)"
)

USED = (
    "All that a system did counts, trials included; replies that were paid for and not usable (lost) stand "
    "under what it cost alone, and in no budget of a task. Unknown = the server or the price list did not "
    "say."
)


@dataclass(frozen=True, slots=True)
class Against:
    """`second` against `first` on their common tasks, by success and by score; p corrected over all pairs."""

    first: str
    second: str
    success: Paired
    score: Paired | None
    p: float
    words: str


@dataclass(frozen=True, slots=True)
class Standings:
    """What an evaluation found. `suite`: as the run keeps it; `unfinished`: systems without a result yet, and
    no pair is compared before the last has one; `about`: by system, what it says of itself (paper, keeps,
    leaves_out, sees_score), as far as it does."""

    suite: Mapping[str, Any]
    summaries: tuple[Summary, ...]
    pairs: tuple[Against, ...]
    unfinished: tuple[str, ...]
    references: tuple[Reference, ...]
    about: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Plain values; unknown is None."""
        return {
            "suite": dict(self.suite),
            "systems": [asdict(one) for one in self.summaries],
            "pairs": [
                {**asdict(pair), "within_noise": pair.success.within_noise(pair.p)} for pair in self.pairs
            ],
            "unfinished": list(self.unfinished),
            "about": {name: dict(facts) for name, facts in self.about.items()},
            "published": {"about": warning(), "tables": [asdict(one) for one in self.references]}
            if self.references
            else None,
        }


def standings(run: Run, types: Mapping[str, str]) -> Standings | None:
    """None for a run that is no evaluation of a suite. `types`: task type by task id."""
    event = run.events.get("suite")
    if event is None:
        return None
    results = list(run.results)
    made = [str(e.data.get("system")) for e in run.events if e.kind == "system"]
    named = made or [str(name) for name in event.data.get("systems", ())]
    scored = {result.system for result in results}
    order = {name: i for i, name in enumerate(named)}
    results.sort(key=lambda r: order.get(r.system, len(order)))
    unfinished = tuple(name for name in named if name not in scored)
    return Standings(
        suite=event.data,
        summaries=tuple(summarise(result, types) for result in results),
        # Who interrupts a run waits for its partial report, and the tests' library takes seconds to import.
        pairs=() if unfinished else tuple(_pairs(results)),
        unfinished=unfinished,
        references=tuple(references([n for n in event.data.get("reference", ()) if n in known()])),
        about={str(e.data.get("system")): e.data for e in run.events if e.kind == "system"},
    )


def _pairs(results: Sequence[Result]) -> list[Against]:
    found = []
    for a, b in combinations(results, 2):
        success = paired_difference(task_means(a.scores), task_means(b.scores))
        if success is not None:
            score = paired_difference(task_means(a.values), task_means(b.values))
            found.append((a.system, b.system, success, score))
    corrected = holm([success.p for _, _, success, _ in found])
    return [
        Against(a, b, success, score, p, verdict(success, a, b, p))
        for (a, b, success, score), p in zip(found, corrected, strict=True)
    ]


def headline(found: Standings) -> str:
    """What came out, in a few sentences; no winner inside the noise."""
    parts = []
    if found.summaries:
        listed = ", ".join(f"{one.system} {one.solved} of {one.rate.n}" for one in found.summaries)
        parts.append(f"Suite {found.suite.get('name', '')}, solved: {listed}.")
    if found.unfinished:
        parts.append(f"Not finished: {', '.join(found.unfinished)}.")
    apart = [pair for pair in found.pairs if not pair.success.within_noise(pair.p)]
    for pair in apart:
        low, high = (pair.first, pair.second) if pair.success.difference > 0 else (pair.second, pair.first)
        parts.append(f"More than noise: {high} over {low} (corrected p {p_words(pair.p)}).")
    within = len(found.pairs) - len(apart)
    if within:
        all_of = "all" if within == len(found.pairs) else f"the other {within} of {len(found.pairs)}"
        parts.append(f"Within noise: {all_of} pairs.")
    return " ".join(parts)


def rate_words(rate: Rate) -> str:
    """`5 of 12: 42 % (19-68)`; no number without n and interval."""
    if rate.mean is None or rate.low is None or rate.high is None:
        return rate.how
    solved = round(rate.mean * rate.n)
    return f"{solved} of {rate.n}: {100 * rate.mean:.0f} % ({100 * rate.low:.0f}-{100 * rate.high:.0f})"


def tokens(summary: Summary) -> str:
    """Input and output tokens, or that the server did not say."""
    used = summary.usage
    if used.input is None or used.output is None:
        return UNKNOWN
    return f"{used.input:,} in, {used.output:,} out"


def money(value: float | None) -> str:
    return UNKNOWN if value is None else dollars(value, 0, 1)


def systems_table(found: Standings) -> str:
    """One row a system: success, macro mean, score, errors, calls, tokens, dollars, time."""
    rows = [
        [
            plain(one.system),
            rate_words(one.rate),
            percent(one.macro),
            number(one.score, 2),
            f"{one.errors}" + (f" ({percent(one.as_zero)} as 0)" if one.errors else ""),
            number(one.calls, 0),
            number(one.calls_a_task),
            tokens(one),
            money(one.usage.dollars),
            duration(one.seconds),
        ]
        for one in found.summaries
    ]
    head = ["system", "solved (95 % interval)", "mean of types", "mean score", "errors", "calls",
            "calls a task", "tokens", "dollars", "time, summed"]  # fmt: skip
    return table(head, rows)


def conditions_words(found: Standings) -> str:
    """Under which conditions all of it was played."""
    suite = found.suite
    seeds = list(suite.get("seeds", ()))
    budget = suite.get("budget", {})
    amount = budget.get("amount")
    rule = "unlimited" if amount is None else f"{amount:g} {budget.get('rule')} a task"
    sets = "; ".join(
        f"{one.get('tasks')}, {one.get('split')}"
        + (f", {one['limit']} tasks" if one.get("limit") else "")
        + (f", {one['max_steps']} steps at most" if one.get("max_steps") else "")
        + f" (hash {one.get('hash') or UNKNOWN})"
        for one in suite.get("sets", ())
    )
    times = int(suite.get("repetitions", 1)) * max(1, len(seeds))
    how_often = "once" if times == 1 else f"{times} times (seeds {', '.join(map(str, seeds))})"
    return (
        f"{suite.get('about', '')} Task sets: {sets}. Every task was played {how_often} at temperature "
        f"{suite.get('temperature', UNKNOWN)}. Budget of a task: {rule}. {told_words(found)}"
    ).strip()


def told_words(found: Standings) -> str:
    """Which systems know more than the others: how their tries were scored; "" for none."""
    told = [name for name, facts in found.about.items() if facts.get("sees_score")]
    if not told:
        return ""
    return f"Told between their tries how these were scored, the best one counting: {', '.join(told)}."


def about_table(found: Standings) -> str:
    """After which paper each system is, what it keeps of it and what it leaves out; "" where none says."""
    rows = [
        [
            plain(name),
            f"arXiv {facts['paper']}" if facts.get("paper") else "none",
            plain(str(facts.get("keeps", "")), 400),
            plain(str(facts.get("leaves_out") or "nothing"), 400),
        ]
        for name, facts in found.about.items()
        if facts.get("keeps")
    ]
    return table(["system", "after", "keeps", "leaves out"], rows) if rows else ""


def conditions(found: Standings) -> str:
    """`conditions_words` as Markdown."""
    return plain(conditions_words(found), 2000)


def pairs_table(found: Standings) -> str:
    """Each system against each other on the same tasks; p is Holm's over all of them."""
    rows = [
        [
            plain(f"{pair.second} against {pair.first}"),
            f"{pair.success.wins} / {pair.success.losses} / {pair.success.ties}",
            f"{100 * pair.success.win_rate:.0f} %",
            signed(pair.success),
            signed(pair.score, 2) if pair.score is not None else "no score",
            p_words(pair.p).removeprefix("= "),
            "within noise" if pair.success.within_noise(pair.p) else "more than noise",
        ]
        for pair in found.pairs
    ]
    head = ["pair", "won / lost / tied", "share, ties as half", "difference in points (95 %)",
            "difference in score (95 %)", "p, corrected", "verdict"]  # fmt: skip
    return table(head, rows)


def signed(paired: Paired, digits: int = 0) -> str:
    """A difference with its interval; in percentage points where `digits` is 0."""
    scale = 100 if digits == 0 else 1
    text = f"{scale * paired.difference:+.{digits}f}"
    if paired.low is None or paired.high is None:
        return f"{text} (no interval)"
    return f"{text} ({scale * paired.low:+.{digits}f} to {scale * paired.high:+.{digits}f})"


def types_table(found: Standings) -> str:
    """Success by task type, a column a system; "" with fewer than two types."""
    kinds = sorted({kind for one in found.summaries for kind in one.by_type})
    if len(kinds) < 2:
        return ""
    rows = [
        [
            plain(kind),
            *(rate_words(one.by_type[kind]) if kind in one.by_type else "none" for one in found.summaries),
        ]
        for kind in kinds
    ]
    return table(["task type", *(plain(one.system) for one in found.summaries)], rows)


def repetitions_words(found: Standings) -> str:
    """Run-to-run spread and pass@k; "" where nothing was repeated."""
    lines = []
    for one in found.summaries:
        if one.spread is not None:
            means = ", ".join(percent(mean) for mean in one.repetition_means)
            lines.append(
                f"- {plain(one.system)}: {means} in the single repetitions, standard deviation "
                f"{100 * one.spread:.1f} points"
            )
        lines += [f"- {plain(one.system)}, pass@{p.k} and pass^{p.k}: {p.words}" for p in one.passes]
    return "\n".join(lines)


def costs_table(found: Standings) -> str:
    """What one solved task cost; "" where nothing was asked of a model."""
    asked = [one for one in found.summaries if one.calls]
    rows = [
        [
            plain(one.system),
            number(one.tokens_a_solved, 0) if one.solved else "none solved",
            money(one.dollars_a_solved) if one.solved else "none solved",
        ]
        for one in asked
    ]
    return table(["system", "tokens a solved task", "dollars a solved task"], rows)


def published(found: Standings) -> str:
    """The published tables, under the warning that they are no comparison; "" where the suite names none."""
    out = []
    for one in found.references:
        rows = [
            [
                plain(row.method),
                plain(row.model),
                *(["" if row.score is None else f"{row.score:.1f}"] if _has_scores(one) else []),
                "" if row.success is None else f"{row.success:.1f}",
                plain(row.note),
            ]
            for row in one.rows
        ]
        head = ["method", "model", *(["score"] if _has_scores(one) else []), "success", "note"]
        out.append(
            f"### {plain(one.title)}\n\n{plain(one.protocol)}. Source: {plain(one.source)}.\n\n"
            + table(head, rows)
        )
    return "\n\n".join([plain(warning(), 1000), *out]) if out else ""


def _has_scores(one: Reference) -> bool:
    return any(row.score is not None for row in one.rows)


def sections(found: Standings) -> list[tuple[str, list[str]]]:
    """Title and blocks of the sections that an evaluation adds to a report."""
    return [
        ("Systems", [conditions(found), systems_table(found), costs_table(found), USED, about_table(found)]),
        ("Systems against one another", [pairs_table(found)]),
        ("Systems by task type", [types_table(found)]),
        ("Repetitions", [repetitions_words(found)]),
        ("Published numbers, for orientation", [published(found)]),
    ]
