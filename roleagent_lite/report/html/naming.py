"""What prompt sets are called in the page, and the order in which they stand.

Owns both. Leaves out every number.
"""

from __future__ import annotations

from roleagent_lite.report.gather import Tally
from roleagent_lite.report.results import name_of
from roleagent_lite.report.write import Report


def labels(report: Report) -> dict[str, str]:
    """What each prompt set is called: seed, final, the system that played it, or the start of its id."""
    known = {p for p, _ in report.facts.tallies} | set(report.prompts)
    return {p: name_of(p, report.facts) for p in sorted(known)}


def ordered(report: Report, split: str) -> list[Tally]:
    """The tallies of a split: seed, final, then by the round in which a prompt was first played."""
    order = {"seed": 0, "seed (kept)": 0, "final": 1}
    names = labels(report)
    found = [t for (_, s), t in report.facts.tallies.items() if s == split]
    return sorted(found, key=lambda t: (order.get(names[t.prompt_set], 2), t.first_round, t.prompt_set))
