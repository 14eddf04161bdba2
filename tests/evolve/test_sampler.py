"""The sampler: ids drawn become positions in the training list, and the clock follows GEPA's iteration."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from roleagent_lite.evolve.sampler import Clock, CurriculumSampler
from tests.evolve.make import task

TRAIN = [task("a"), task("b"), task("c")]


def test_positions_follow_the_draw_and_the_clock_follows_the_iteration() -> None:
    asked: list[int] = []
    clock = Clock()

    def draw(round: int) -> list[str]:
        asked.append(round)
        return ["c", "a"] if round == 1 else ["b"]

    sampler = CurriculumSampler(TRAIN, draw, clock)
    assert clock.round == 0
    assert sampler.next_minibatch_ids(TRAIN, SimpleNamespace(i=0)) == [2, 0]
    assert clock.round == 1
    assert sampler.next_minibatch_ids(TRAIN, SimpleNamespace(i=1)) == [1]
    assert asked == [1, 2]


def test_an_id_that_is_no_training_task_is_an_error() -> None:
    sampler = CurriculumSampler(TRAIN, lambda round: ["z"], Clock())
    with pytest.raises(KeyError):
        sampler.next_minibatch_ids(TRAIN, SimpleNamespace(i=0))
