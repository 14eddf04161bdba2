"""The curriculum as GEPA's batch sampler, and the clock that says which round it is.

Owns the map between task ids and GEPA's integer ids. Leaves out the probabilities (aiw.curriculum).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roleagent_lite.types import Task


class Clock:
    """The round now being played: 0 before the first draw, then GEPA's iteration, counted from 1."""

    def __init__(self) -> None:
        self.round = 0


class CurriculumSampler:
    """GEPA asks for a minibatch; the curriculum answers with task ids, the loader wants their positions.

    `draw(round)` returns the ids of the tasks to play in that round; it must not depend on anything but the
    round and what was learned before it.
    """

    def __init__(self, train: Sequence[Task], draw: Callable[[int], Sequence[str]], clock: Clock) -> None:
        self._position = {task.id: i for i, task in enumerate(train)}
        self._draw = draw
        self._clock = clock

    def next_minibatch_ids(self, loader: Any, state: Any) -> list[int]:
        """Positions in the training list of this round's tasks. Raises KeyError for an unknown id."""
        self._clock.round = state.i + 1
        return [self._position[id] for id in self._draw(self._clock.round)]
