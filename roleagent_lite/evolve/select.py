"""Which prompt set a run ends with: the best on dev, if it beats the seed by more than noise.

Owns the choice and its words. Leaves out the statistics (stats) and what the sealed test then says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roleagent_lite.stats import sign_test
from roleagent_lite.types import PromptSet

NOISE = 0.1  # one-sided p above which a lead on dev is taken for noise

Scores = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Selection:
    """`best`: the best candidate that entered, else the last that was refused, else the seed; `final` is
    `best` or `seed`. `p`: one-sided, None where nothing was compared. Counts are dev tasks."""

    seed: PromptSet
    best: PromptSet
    final: PromptSet
    accepted: bool
    p: float | None
    wins: int
    losses: int
    reason: str


def mean(scores: Scores) -> float:
    """Mean of the known scores; -1 where none is known, so that such a candidate is never the best."""
    known = [s for s in scores.values() if s is not None]
    return sum(known) / len(known) if known else -1.0


def select(
    candidates: Sequence[PromptSet], scores: Mapping[str, Scores], refused: Sequence[PromptSet] = ()
) -> Selection:
    """`candidates[0]` is the seed; `scores[prompt set id][dev task id]` in 0..1, None = could not be scored.

    The best is the candidate with the highest mean on dev, the earliest among equals. It replaces the seed
    only if that mean is above the seed's and the paired one-sided sign test over the dev tasks (exact, ties
    left out) gives p < 0.1. The best of several candidates is chosen by the same scores that test it, so p
    flatters it: the sealed test decides. Where none entered, the last of `refused` meets the seed on the
    sealed tasks all the same: the run then still measures what its proposals were worth.
    """
    seed = candidates[0]
    scored = [c for c in candidates[1:] if mean(scores.get(c.id, {})) >= 0]
    if not scored:
        words = "no candidate could be scored on dev" if len(candidates) > 1 else "no candidate entered"
        if not refused:
            return Selection(seed, seed, seed, False, None, 0, 0, words)
        words += "; the last that was refused in training meets the seed on the sealed tasks"
        return Selection(seed, refused[-1], seed, False, None, 0, 0, words)
    best = max(scored, key=lambda c: mean(scores[c.id]))  # max keeps the first of equals
    before, after = scores.get(seed.id, {}), scores[best.id]
    gains = [
        new - old for task, new in after.items() if new is not None and (old := before.get(task)) is not None
    ]
    wins, losses = sum(g > 0 for g in gains), sum(g < 0 for g in gains)
    p = sign_test(wins, losses)
    ahead = mean(after) > mean(before)
    accepted = ahead and p < NOISE
    verdict = "better than the seed on dev" if accepted else "not beyond noise: the seed stays"
    if not ahead:
        verdict = "no candidate was better than the seed on dev: the seed stays"
    words = (
        f"{verdict} ({wins} dev tasks won, {losses} lost, {len(gains) - wins - losses} equal, p = {p:.3f})"
    )
    if ahead and len(scored) > 1:
        words += f"; it was picked as the best of {len(scored)} by these same tasks, which flatters its p"
    return Selection(seed, best, best if accepted else seed, accepted, p, wins, losses, words)
