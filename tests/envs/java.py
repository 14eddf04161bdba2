"""What tests of worlds in Java share: whether the machine has what they need, and traces of episodes."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.envs.jvm import Engine, jar_of, java
from roleagent_lite.errors import MissingExtra
from roleagent_lite.types import Environment, Task, Transition


def needs(engine: Engine) -> pytest.MarkDecorator:
    """Skips with the product's own words where the package or Java is missing."""
    try:
        jar_of(engine)
        java()
    except MissingExtra as error:
        return pytest.mark.skipif(True, reason=str(error))
    return pytest.mark.skipif(False, reason="")


@lru_cache(maxsize=2)
def recorded(name: str) -> dict[str, Any]:
    """A file of recordings of the original engine."""
    path = Path(__file__).parent / "data" / f"{name}.json.gz"
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def line(moved: Transition) -> tuple[Any, ...]:
    seen = moved.observation
    return (seen.text, seen.admissible, seen.state_key, moved.reward, moved.done, moved.valid)


def moves(env: Environment, actions: Iterator[str] | None, seed: int, steps: int) -> Iterator[Any]:
    """What an episode shows, move by move: of a plan, or of random listed actions."""
    rng = random.Random(seed)
    for _ in range(steps):
        action = next(actions, None) if actions is not None else rng.choice(env.observe().admissible)
        if action is None:
            return
        moved = env.step(action)
        yield (action, *line(moved))
        if moved.done:
            return


def trace(task: Task, seed: int = 0, steps: int = 20) -> list[Any]:
    """The moves of one episode with random listed actions."""
    env = registry.make(task)
    try:
        return [env.observe(), *moves(env, None, seed, steps), env.score()]
    finally:
        env.close()
