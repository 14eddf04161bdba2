"""The light household engine against the original ALFWorld engine: steps per CPU second on the same games.

Both play the same random commands on the same games, drawn here; what they say must be equal, step for
step. Loading a game is timed apart. Prints one line a game and the ratio of steps per CPU second over all
games (the goal is at least 50). Needs the extra `alfworld`.

    python benchmarks/household_speed.py [--games 6] [--steps 25] [--seed 3]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from roleagent_lite.envs.household.engine import Engine
from roleagent_lite.envs.household.game import TASK_TYPES, game_from_row
from roleagent_lite.envs.household.generator import draw_row
from roleagent_lite.envs.household.original import OriginalEngine, logic_texts
from roleagent_lite.envs.household.problem import load_game
from roleagent_lite.envs.household.writer import write_game_file
from roleagent_lite.errors import MissingExtra

REPEATS = 20  # the light engine plays each episode this often: one alone is too short to time


@dataclass
class Times:
    steps: int = 0
    light: float = 0.0
    original: float = 0.0
    light_load: float = 0.0
    original_load: float = 0.0


def play(engine: Engine | OriginalEngine, commands: list[str]) -> list[tuple[str, list[str], bool]]:
    """What a rollout asks of each step: observation, admissible commands, won."""
    seen = []
    for command in commands:
        said, _ = engine.step(command)
        seen.append((said, engine.admissible(), engine.won))
    return seen


def draw_commands(engine: Engine, steps: int, rng: random.Random) -> list[str]:
    commands = []
    for _ in range(steps):
        commands.append(rng.choice(engine.admissible()))
        engine.step(commands[-1])
    return commands


def measure(path: Path, steps: int, rng: random.Random) -> Times:
    """CPU seconds of both engines on one game file. Raises SystemExit where they differ."""
    start = time.process_time()
    game = load_game(path)
    light_load = time.process_time() - start
    commands = draw_commands(Engine(game), steps, rng)
    engines = [Engine(game) for _ in range(REPEATS)]
    start = time.process_time()
    for engine in engines:
        ours = play(engine, commands)
    light = (time.process_time() - start) / REPEATS
    start = time.process_time()
    original_engine = OriginalEngine(path)
    original_load = time.process_time() - start
    start = time.process_time()
    theirs = play(original_engine, commands)
    original = time.process_time() - start
    if ours != theirs:
        raise SystemExit(f"the engines differ on {path}")
    return Times(steps, light, original, light_load, original_load)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--games", type=int, default=6)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    try:
        domain, grammar = logic_texts()
    except MissingExtra as error:
        print(f"skipped: {error}")
        return 0
    rng = random.Random(options.seed)
    kinds = list(TASK_TYPES)
    total = Times()
    for number in range(options.games):
        row = draw_row("full", "train", kinds[number % len(kinds)], rng)
        game = game_from_row(row["goal"], row["params"])
        with tempfile.TemporaryDirectory() as folder:
            times = measure(write_game_file(game, folder, domain, grammar), options.steps, rng)
        print(
            f"{row['params']['type']:32} {len(game.receptacles):3} receptacles {len(game.things):3} things  "
            f"light {times.steps / times.light:8.0f}  original {times.steps / times.original:6.1f} "
            "steps/CPU-s"
        )
        for name in ("steps", "light", "original", "light_load", "original_load"):
            setattr(total, name, getattr(total, name) + getattr(times, name))
    light, original = total.steps / total.light, total.steps / total.original
    print(
        f"all {options.games} games, {total.steps} steps, all answers equal: light {light:.0f}, original "
        f"{original:.1f} steps per CPU second; ratio {light / original:.0f} (goal: 50)"
    )
    loads = (total.light_load / options.games, total.original_load / options.games)
    print(f"loading a game file: light {loads[0] * 1000:.1f} ms, original {loads[1] * 1000:.0f} ms of CPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
