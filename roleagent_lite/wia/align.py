"""How well a foretold observation matches the one that came (paper Eq. 4).

Owns the scorers and the rule that says which part of a long page is compared. Leaves out what a match is
worth (reward) and what trivial predictors would have scored (fidelity).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.types import Step

try:
    from cydifflib import SequenceMatcher
except ImportError:  # no wheel for this interpreter: the same number, 6 to 16 times as slow
    from difflib import SequenceMatcher

LONG = 400  # characters; a longer observation is compared by what is new in it
WORDS = 60  # words kept of that, and of the prediction beside it
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\s*\n\s*")

Scorer = Callable[[str, str], float]
"""(prediction, actual) -> agreement in 0..1."""


def lms(prediction: str, actual: str) -> float:
    """2M/(|a|+|b|) over characters, M the length of the Ratcliff/Obershelp matching blocks, in 0..1.

    The argument order matters and is fixed: (prediction, actual). `autojunk` is off, since with it on two
    changed words in a long text cost a third of the score. Two empty texts agree (1.0). Paper Eq. 4, GiGPO.
    """
    return float(SequenceMatcher(None, prediction, actual, False).ratio())


def tokens(prediction: str, actual: str) -> float:
    """The same ratio over words (split at white space, case kept), in 0..1."""
    return float(SequenceMatcher(None, prediction.split(), actual.split(), False).ratio())


SCORERS: dict[str, Scorer] = {"lms": lms, "tokens": tokens}


def scorer(name: str) -> Scorer:
    """The scorer of that name. Raises ConfigError with the nearest name."""
    if name not in SCORERS:
        raise ConfigError(f"no scorer '{name}'{nearest(name, SCORERS)}")
    return SCORERS[name]


@dataclass(frozen=True, slots=True)
class Target:
    """What a prediction is compared with; `cut`: it is the new part of a long page, not the whole page."""

    text: str
    cut: bool = False


def sentences(text: str) -> list[str]:
    """Sentences in order: split after . ! ? before white space, and at line ends."""
    return [part for piece in _SENTENCE_END.split(text) if (part := piece.strip())]


def first_words(text: str, count: int = WORDS) -> str:
    return " ".join(text.split()[:count])


def target(state: str, later: str) -> Target | None:
    """What of observation `later` (s_{t+h}) is compared, given `state` (s_t) in which it was foretold.

    The whole text up to 400 characters; over that, its sentences that `state` does not hold, first 60 words.
    None where nothing is left to compare.
    """
    found = Target(later)
    if len(later) > LONG:
        known = set(sentences(state))
        found = Target(first_words(" ".join(s for s in sentences(later) if s not in known)), cut=True)
    return found if found.text.strip() else None


def agreement(prediction: str, goal: Target, score: Scorer) -> float:
    """`score` of a prediction against a target; where the target was cut, the prediction is cut alike."""
    return score(first_words(prediction) if goal.cut else prediction, goal.text)


def prediction_of(step: Step, h: int) -> str | None:
    """What the agent foretold `h` steps on (h from 1); None where it is missing or blank."""
    text = step.predictions[h - 1] if h <= len(step.predictions) else None
    return text if text and text.strip() else None


def target_of(steps: Sequence[Step], t: int, h: int) -> Target | None:
    """The target of step index `t` (from 0) `h` steps on; None beyond the terminal observation, or empty."""
    if t + h > len(steps):
        return None
    return target(steps[t].observation, steps[t + h - 1].outcome)


def align(
    steps: Sequence[Step], horizon: int, score: Scorer
) -> tuple[tuple[tuple[float | None, ...], ...], tuple[int, ...]]:
    """The alignment matrix r~[t][h-1] (T x horizon, each 0..1 or None) and how often each step was cut (T).

    None: no prediction, no target, or nothing left of the target. Predictions beyond `horizon` are ignored.
    A cut is a comparison made on the new part of a long page. Paper Eq. 4.
    """
    matrix: list[tuple[float | None, ...]] = []
    cuts: list[int] = []
    for t, step in enumerate(steps):
        row: list[float | None] = []
        cut = 0
        for h in range(1, horizon + 1):
            said, goal = prediction_of(step, h), target_of(steps, t, h)
            if said is None or goal is None:
                row.append(None)
            else:
                row.append(agreement(said, goal, score))
                cut += goal.cut
        matrix.append(tuple(row))
        cuts.append(cut)
    return tuple(matrix), tuple(cuts)
