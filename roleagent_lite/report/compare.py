"""Two prompt sets on the same sealed tasks: numbers, and what they say in words.

Owns the choice of the pair and the wording of a verdict. Leaves out the tests themselves (stats).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from roleagent_lite.report.gather import Facts, Share, Tally, share
from roleagent_lite.stats import Paired, detectable_effect, paired_difference, points, verdict


@dataclass(frozen=True, slots=True)
class Comparison:
    """`second` against `first` on tasks that were scored for both, and their success there; `sees` is for the
    same two-sided test."""

    split: str
    first: str
    second: str
    first_name: str
    second_name: str
    first_success: Share
    second_success: Share
    paired: Paired
    sees: str
    words: str

    def as_data(self) -> dict[str, Any]:
        """Plain values; those of the pair (n, wins, losses, ties, difference, p, ...) lie among them."""
        data = asdict(self)
        pair = data.pop("paired")
        return {**data, **pair}


def task_scores(tally: Tally) -> dict[str, float | None]:
    """Mean success per task over its scored rollouts, 0..1; None where none was scored."""
    by_task: dict[str, list[bool]] = {}
    for key, won in tally.won.items():
        scored = by_task.setdefault(key.rsplit("#", 1)[0], [])
        if won is not None:
            scored.append(won)
    return {task: sum(w) / len(w) if w else None for task, w in by_task.items()}


def on(tally: Tally, tasks: Collection[str]) -> Share:
    """Success over the scored rollouts of these tasks alone."""
    won = [w for key, w in tally.won.items() if w is not None and key.rsplit("#", 1)[0] in tasks]
    return share(sum(won), len(won))


def compare(first: Tally, second: Tally, first_name: str, second_name: str) -> Comparison | None:
    """None where the two have no scored task in common."""
    before, after = task_scores(first), task_scores(second)
    paired = paired_difference(before, after)
    if paired is None:
        return None
    common = {t for t, s in before.items() if s is not None and after.get(t) is not None}
    one, two = on(first, common), on(second, common)
    # Two-sided like the verdict: what a laxer test would see is no answer to "what could this one see".
    sees = detectable_effect(paired.n, one.mean or 0.0, alternative="two-sided").words
    span = "unknown"
    if paired.low is not None and paired.high is not None:
        span = f"{100 * paired.low:+.0f} to {100 * paired.high:+.0f}"
    seal = "sealed " if first.split == "test" else ""
    words = (
        f"On the {paired.n} {seal}{first.split} tasks that both played, "
        f"the {first_name} solved {one.k} of {one.n} and the {second_name} "
        f"{two.k} of {two.n}: {points(paired.difference)} "
        f"(95 % interval {span}). The {second_name} did better on {paired.wins} of them, worse on "
        f"{paired.losses}, and the same on {paired.ties}. "
        + verdict(paired, f"the {first_name}", f"the {second_name}")
        + f" What this many tasks can see: {sees}."
    )
    return Comparison(
        first.split,
        first.prompt_set,
        second.prompt_set,
        first_name,
        second_name,
        one,
        two,
        paired,
        sees,
        words,
    )


def seed_id(facts: Facts) -> str | None:
    """The prompt set the run started with, or None where the run does not say."""
    found = facts.final.get("seed") or facts.start.get("seed_set")
    return str(found) if found else None


def final_id(facts: Facts) -> str | None:
    found = facts.final.get("final") or facts.final.get("best")
    return str(found) if found else None


def sealed(facts: Facts) -> Comparison | None:
    """Seed against final prompt on the test split; against the best candidate where the seed stayed.

    None before the end of a run, or where only one prompt set has played the sealed tasks.
    """
    seed, final = seed_id(facts), final_id(facts)
    best = facts.final.get("best")
    if seed is None:
        return None
    refused = (best, "test") in facts.tallies and (best, "dev") not in facts.tallies
    rejected = "last candidate, refused in training," if refused else "best candidate, not adopted,"
    for other, name in ((final, "final prompt"), (best, rejected)):
        if other is None or other == seed:
            continue
        first, second = facts.tallies.get((seed, "test")), facts.tallies.get((str(other), "test"))
        if first is not None and second is not None:
            return compare(first, second, "seed prompt", name)
    return None
