"""Runs one target on mutated texts for a while; a crash or a hang is saved and ends it.

`ROLEAGENT_LITE_FUZZ_SECONDS` (default 600) is shared by the targets of a run; `ROLEAGENT_LITE_FUZZ_SEED`
(default 0) makes another one.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fuzz.mutate import mutated

SECONDS = float(os.environ.get("ROLEAGENT_LITE_FUZZ_SECONDS", "600"))
SEED = int(os.environ.get("ROLEAGENT_LITE_FUZZ_SEED", "0"))
HANGS = 5.0  # seconds of CPU after which a text is given up
SLOW = 1.0  # seconds of CPU for at most 100,000 characters


class Hang(Exception):
    """A target that had to be stopped."""


def _stop(*_: object) -> None:
    raise Hang(f"stopped after {HANGS:g} s")


def watch(target: Callable[[str], None], seeds: Sequence[str], seconds: float, saved: Path) -> int:
    """How many texts were tried. AssertionError names the saved text on a crash or a hang."""
    signal.signal(signal.SIGVTALRM, _stop)
    draw = random.Random(f"{SEED}/{target.__name__}")
    end, tried = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        text = mutated(draw, seeds)
        start = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, HANGS)
        try:
            target(text)
        except Exception as error:
            saved.write_bytes(text.encode("utf-8", "surrogatepass"))
            raise AssertionError(
                f"{target.__name__}: {type(error).__name__}: {str(error)[:200]}; {saved}"
            ) from error
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        took = time.process_time() - start
        if took > SLOW:
            saved.write_bytes(text.encode("utf-8", "surrogatepass"))
            raise AssertionError(f"{target.__name__}: {took:.1f} s for {len(text)} characters; {saved}")
        tried += 1
    print(f"\n{target.__name__}: {tried:,} texts in {seconds:.0f} s")
    return tried
