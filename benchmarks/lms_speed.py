"""The `lms` scorer against difflib: the same number, and how many times as fast.

    python benchmarks/lms_speed.py [--seconds 2] [--json]

Pairs of texts as a run compares them (a household observation and a foretelling of it with some words
changed), at three lengths. Both sides score the same pairs in turns, in this one process; the figure is the
ratio of CPU seconds. Exits with 1 if any number differs.
"""

from __future__ import annotations

import argparse
import difflib
import json
import random
import sys
import time
from collections.abc import Callable

from roleagent_lite.wia import align

LENGTHS = (150, 500, 2000)  # characters
GOAL = 8.0  # times, at 500 characters
PAIRS = 12
THINGS = (
    "drawer",
    "shelf",
    "cabinet",
    "mug",
    "apple",
    "knife",
    "safe",
    "fridge",
    "microwave",
    "sofa",
    "lamp",
)

Pair = tuple[str, str]


def plain(prediction: str, actual: str) -> float:
    return difflib.SequenceMatcher(None, prediction, actual, False).ratio()


def make_pair(rng: random.Random, length: int) -> Pair:
    """(prediction, actual) of about `length` characters each; one word in eight is foretold wrongly."""
    actual = ""
    while len(actual) < length:
        seen = ", ".join(f"a {rng.choice(THINGS)} {rng.randint(1, 9)}" for _ in range(4))
        actual += f"You arrive at {rng.choice(THINGS)} {rng.randint(1, 9)}. On it, you see {seen}. "
    actual = actual[:length]
    words = [rng.choice(THINGS) if rng.random() < 0.125 else word for word in actual.split(" ")]
    return " ".join(words), actual


def seconds(score: Callable[[str, str], float], pairs: list[Pair]) -> float:
    start = time.process_time()
    for prediction, actual in pairs:
        score(prediction, actual)
    return time.process_time() - start


def compare(length: int, budget: float) -> dict[str, float | int]:
    """Medians over rounds in which both sides score the same pairs, one after the other."""
    rng = random.Random(length)
    pairs = [make_pair(rng, length) for _ in range(PAIRS)]
    differing = sum(align.lms(a, b) != plain(a, b) for a, b in pairs)
    ours: list[float] = []
    theirs: list[float] = []
    while not ours or sum(ours) + sum(theirs) < budget:
        theirs.append(seconds(plain, pairs))
        ours.append(seconds(align.lms, pairs))
    ratios = sorted(b / a for a, b in zip(ours, theirs, strict=True))
    return {
        "length": length,
        "pairs": PAIRS,
        "differing": differing,
        "rounds": len(ratios),
        "lms_us": 1e6 * sorted(ours)[len(ours) // 2] / PAIRS,
        "difflib_us": 1e6 * sorted(theirs)[len(theirs) // 2] / PAIRS,
        "ratio": ratios[len(ratios) // 2],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU seconds for each length")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [compare(length, options.seconds) for length in LENGTHS]
    if options.json:
        print(json.dumps(rows))
    else:
        engine = "cydifflib" if "cydifflib" in sys.modules else "difflib"
        print(f"lms by {engine}, against difflib; goal at 500 characters: {GOAL:g} times")
        for row in rows:
            print(
                f"{row['length']:>5} characters: {row['difflib_us']:8.0f} us -> {row['lms_us']:6.0f} us "
                f"a pair, {row['ratio']:4.1f} times as fast ({row['rounds']} rounds of {row['pairs']} pairs, "
                f"{row['differing']} numbers differ)"
            )
    return 1 if any(row["differing"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
