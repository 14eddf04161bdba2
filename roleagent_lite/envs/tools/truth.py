"""What a user's turn should have come to, and whether it did: BFCL's check, turn by turn.

After each turn the public attributes of every object must equal those that the true calls bring about, and
what the true calls of this turn answered must be among the answers so far. A turn without any call fails
where there was something to do; where there was nothing, it passes unlooked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from roleagent_lite.envs.tools import apis, calls, state
from roleagent_lite.envs.tools.data import Entry, entry, place


@dataclass(frozen=True, slots=True)
class Turn:
    """`states`: public attributes by class after the turn; `answers` to its calls; none: not checked."""

    states: Mapping[str, Mapping[str, Any]]
    answers: tuple[str, ...]


@lru_cache(maxsize=256)
def _turns(root: Path, entry_id: str) -> tuple[Turn, ...]:
    one = entry(entry_id)
    objects = apis.start(one)
    found = apis.owners(objects)
    turns = []
    for true in one.truth:
        answers = [a for text in true for a in apis.run(found, calls.read(text, found))]
        turns.append(Turn({n: state.public(o) for n, o in objects.items()} if true else {}, tuple(answers)))
    return tuple(turns)


def turns(one: Entry) -> tuple[Turn, ...]:
    """What the true calls of an entry bring about, turn by turn. Raises MissingExtra."""
    return _turns(place(), one.id)


def missed(turn: Turn, objects: apis.Instances, answers: Sequence[str], called: bool) -> str:
    """What is wrong after a turn, in words that give no value away; "" where it passes.

    answers: all of the episode so far; called: whether the turn had a call. Raises state.TooDeep.
    """
    if not turn.answers:
        return ""
    if not called:
        return "nothing was called"
    for name, expected in turn.states.items():
        has = state.public(objects[name])
        wrong = [attribute for attribute, value in expected.items() if has.get(attribute) != value]
        if wrong:
            return f"{name} is not as it should be: {', '.join(wrong)}"
    lacking = Counter(turn.answers) - Counter(answers)
    if lacking:
        return f"{lacking.total()} of {len(turn.answers)} answers that were needed never came"
    return ""


def share(checked: Sequence[bool], passed: int) -> float:
    """The score after `passed` turns, 0..1: the share of checked turns among them, 1 only at the very end."""
    if passed == len(checked):
        return 1.0
    return min(sum(checked[:passed]), sum(checked) - 1) / sum(checked)
