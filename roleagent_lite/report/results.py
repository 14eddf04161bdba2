"""The report's sections on success: the verdict, the sealed tasks, the dev tasks, how episodes ended.

Owns their wording and tables. Leaves out counting (gather) and comparing (compare).
"""

from __future__ import annotations

from collections import Counter

from roleagent_lite.report.compare import Comparison, final_id, seed_id
from roleagent_lite.report.gather import Facts, Moves, Tally
from roleagent_lite.report.markdown import UNKNOWN, code, cut, number, percent, plain, success, table

SPLITS = (("test", "sealed test tasks"), ("dev", "dev tasks"), ("train", "training tasks"))
MEANING = {
    "solved": "counts 1",
    "failed": "counts 0",
    "bad_format": "no usable reply after one re-ask: counts 0",
    "cut_off": "reply cut, refused or filtered: counts 0",
    "infrastructure_error": "provider or environment broke: left out of the mean",
}


def name_of(prompt_set: str, facts: Facts) -> str:
    """`seed`, `final`, the system that played with it, or the first 8 characters of the id."""
    if prompt_set in facts.systems:
        return facts.systems[prompt_set]
    seed, final = seed_id(facts), final_id(facts)
    if prompt_set == seed:
        return "seed" + (" (kept)" if final == seed else "")
    return "final" if prompt_set == final else prompt_set[:8]


def headline_parts(facts: Facts, sealed: Comparison | None) -> list[tuple[str, str]]:
    """The first paragraphs, as (what stands out, the rest): what came out, or why nothing can be said yet."""
    parts: list[tuple[str, str]] = []
    if not facts.finished:
        parts.append(
            (
                "Partial: this run is not finished.",
                "What follows is what was done so far; the same command goes on from here.",
            )
        )
    if facts.in_progress:
        parts.append(("", _in_progress(facts)))
    if facts.torn:
        tables = ", ".join(f"{name} ({size} bytes)" for name, size in sorted(facts.torn.items()))
        parts.append(("", f"A half-written last record was left out and will be redone: {tables}."))
    if sealed is not None:
        parts.append(("", sealed.words))
    elif facts.final:
        seed, final = seed_id(facts), final_id(facts)
        if seed == final:
            words = "The seed prompt stays: no other prompt was played against it on the sealed tasks."
            parts.append(("", words))
    if facts.final.get("reason"):
        parts.append(("", f"Choice on the dev tasks: {cut(str(facts.final['reason']), 500)}."))
    if facts.verdict:
        parts.append(("", facts.verdict))
    if not parts:
        tally = next(
            (t for (_, split), t in facts.tallies.items() if split in ("test", "dev", "train")), None
        )
        words = f"Solved {success(tally.success)}." if tally else "No episode has been played yet."
        parts.append(("", words))
    return parts


def _in_progress(facts: Facts) -> str:
    """Which episodes a stop cut short, and why it came."""
    stopped = str(facts.sessions[-1].get("stopped") or "") if facts.sessions else ""
    kind = stopped.partition(":")[0]
    why = {"BudgetStop": "cost cap", "KeyboardInterrupt": "interrupted", "CancelledError": "interrupted"}
    named = ", ".join(facts.in_progress[:5]) + (", …" if len(facts.in_progress) > 5 else "")
    return (
        f"In progress, stopped: {why.get(kind, kind or 'no word of the process')}: {len(facts.in_progress)} "
        f"({named}). They are not scored and go on at a resume."
    )


def headline(facts: Facts, sealed: Comparison | None) -> str:
    """The first paragraphs as Markdown."""
    return "\n\n".join(
        (f"**{lead}** " if lead else "") + plain(words, 3000) for lead, words in headline_parts(facts, sealed)
    )


def _row(tally: Tally, facts: Facts) -> list[str]:
    macro = tally.macro(facts.task_types)
    return [
        plain(name_of(tally.prompt_set, facts)),
        success(tally.success),
        percent(macro),
        number(tally.mean_score, 2),
        str(tally.errors),
        success(tally.with_errors) if tally.errors else "same",
        number(tally.mean_steps),
    ]


def success_tables(facts: Facts) -> str:
    """Success per split and prompt set, with 95 % Wilson intervals; errors shown left out and as 0."""
    out: list[str] = []
    head = [
        "prompt",
        "solved (95 % interval)",
        "mean of types",
        "mean score",
        "errors",
        "errors as 0",
        "steps an episode",
    ]
    for split, words in SPLITS:
        tallies = sorted(
            (t for (_, s), t in facts.tallies.items() if s == split),
            key=lambda t: (t.first_round, t.prompt_set),
        )
        order = {seed_id(facts): 0, final_id(facts): 1}
        tallies.sort(key=lambda t: order.get(t.prompt_set, 2))
        if tallies:
            out.append(
                f"### {words[0].upper()}{words[1:]}\n\n" + table(head, [_row(t, facts) for t in tallies])
            )
    return "\n\n".join(out) if out else "No episode has been played yet."


def type_table(facts: Facts, split: str = "test") -> str:
    """Success per task type, one column for each prompt that played; "" with fewer than 2 types."""
    tallies = [t for (_, s), t in facts.tallies.items() if s == split]
    columns = [t.by_type(facts.task_types) for t in tallies]
    kinds = sorted({k for c in columns for k in c})
    if len(kinds) < 2:
        return ""
    head = ["task type", *(plain(name_of(t.prompt_set, facts)) for t in tallies)]
    return table(head, [[plain(k), *(success(c[k]) if k in c else "none" for c in columns)] for k in kinds])


def outcome_table(facts: Facts) -> str:
    """How episodes ended, by kind and reason, one column a split."""
    splits = [s for s, _ in SPLITS if s in facts.outcomes]
    total: Counter[tuple[str, str]] = Counter()
    for split in splits:
        total.update(facts.outcomes[split])
    order = list(MEANING)
    keys = sorted(total, key=lambda k: (order.index(k[0]) if k[0] in order else 9, -total[k], k[1]))
    rows = [
        [
            kind,
            plain(reason) or "-",
            *(str(facts.outcomes[s][(kind, reason)]) for s in splits),
            MEANING.get(kind, ""),
        ]
        for kind, reason in keys
    ]
    return table(["ended", "reason", *splits, "in the mean"], rows)


def _moves_row(split: str, moves: Moves) -> list[str]:
    def part(k: int) -> str:
        return f"{k} of {moves.steps} ({100 * k / moves.steps:.0f} %)" if moves.steps else "no steps"

    unasked = split != "train" and moves.without_prediction == moves.steps
    return [split, part(moves.invalid), "not asked for" if unasked else part(moves.without_prediction)]


def moves_table(facts: Facts) -> str:
    """Invalid actions and steps without a prediction, per split."""
    rows = [_moves_row(s, facts.moves[s]) for s, _ in SPLITS if s in facts.moves]
    return table(["split", "actions not admissible", "steps without a prediction"], rows)


def arms_table(facts: Facts) -> str:
    """Training success with and without experience in the prompt; "" where there was one arm only."""
    if len(facts.arms) < 2:
        return ""
    rows = [[plain(arm), success(tally.success)] for arm, tally in sorted(facts.arms.items())]
    return table(["experience in the prompt", "training success"], rows)


def error_lines(facts: Facts) -> str:
    """The first infrastructure errors, one a line; "" where there was none."""
    return "\n".join(f"- {code(e, 200)}" for e in facts.errors)


def what_was_run(facts: Facts, rows: list[tuple[str, str]]) -> str:
    """A two-column table of settings; values unknown to the run say so."""
    return table(["setting", "value"], [[plain(k), plain(v) if v else UNKNOWN] for k, v in rows])
