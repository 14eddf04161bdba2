"""Progress of a running job on standard error: a live line on a terminal, plain lines elsewhere.

Owns how `types.Progress` is shown and the estimate of the time left. Leaves out everything on standard
output. The listener may be called from any thread.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from roleagent_lite.cli.output import dollars, percent, seconds
from roleagent_lite.redact import scrub, visible
from roleagent_lite.types import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

LEARN = "learn"  # the stage whose counts are optimiser steps
_BETWEEN = ("diagnose", "reflect")  # stages between two episodes, as often in what is left as so far
SYSTEM = "system "  # how the stage begins in which a suite's system plays
_WINDOW = 32  # events from which the pace is taken
EVERY = 15.0  # seconds between two plain lines of one stage
_WORDS = {
    "train": "playing training tasks",
    "dev": "scoring on dev tasks",
    "diagnose": "reading failures",
    "reflect": "rewriting the prompt",
    "report": "writing the report",
    "test": "playing the sealed tasks",
    "load": "loading the model",
    "download": "fetching the model, MB",
    LEARN: "training",
    "update": "updated",
    "rehearse": "a first pass, to see whether it fits",
}


def played(stage: str) -> bool:
    """Whether a stage's counts are episodes."""
    return stage in ("train", "dev", "test") or stage.startswith(SYSTEM)


class _Pace:
    """Seconds a unit (an episode, an optimiser step), over the last events that told of such units."""

    def __init__(self, begun: Progress | None = None) -> None:
        self.finished = 0
        self._busy = 0.0  # seconds that went into them
        self._at = (begun.stage, begun.done, begun.total) if begun is not None else ("", 0, 0)
        self._recent: deque[tuple[float, int]] = deque([(0.0, 0)], maxlen=_WINDOW)

    def goes_on(self, event: Progress) -> bool:
        """Whether `event` is of the same stage and later than the last one heard."""
        stage, done, total = self._at
        return (stage, total) == (event.stage, event.total) and event.done >= max(done, 2)

    def hear(self, event: Progress, passed: float) -> None:
        """`passed`: seconds since the event before, all of them this pace's."""
        stage, done, total = self._at
        same = stage == event.stage and total == event.total and event.done >= done
        news = event.done - done if same else event.done
        self._at = (event.stage, event.done, event.total)
        self._busy += passed
        if news or not same:
            self.finished += news
            self._recent.append((self._busy, self.finished))

    def wait(self, passed: float) -> None:
        """Seconds that the units need beside their own, such as a failure read between two episodes."""
        self._busy += passed

    def seconds(self, units: int) -> float | None:
        """How long so many more take; None = no pace yet."""
        (begun, before), (latest, after) = self._recent[0], self._recent[-1]
        return (latest - begun) / (after - before) * units if after > before else None


class Clock:
    """How long the rest will take, from the pace of the last episodes (a resume's first ones cost no time).

    Optimiser steps have a pace of their own in each stage of training, and cost the episodes no time.
    `planned`: episodes of the whole job at most, None = unknown; then only the present stage is foretold.
    """

    def __init__(self, planned: int | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.planned = planned
        self._now = now
        self._heard = now()
        self._playing = _Pace()
        self._learning: _Pace | None = None

    def left(self, event: Progress) -> float | None:
        """Seconds left: of the job (at most) if its size is known, else of this stage; None = no pace yet."""
        now = self._now()
        passed, self._heard = now - self._heard, now
        rest = event.total - event.done
        if event.stage == LEARN:
            if self._learning is None or not self._learning.goes_on(event):
                self._learning = _Pace(event)  # not from before its first step, a resume's too
            else:
                self._learning.hear(event, passed)
            return self._learning.seconds(rest)
        if not played(event.stage):
            if event.stage in _BETWEEN:
                self._playing.wait(passed)
            return None
        self._playing.hear(event, passed)
        if self.planned is not None:
            rest = max(rest, self.planned - self._playing.finished)
        return self._playing.seconds(rest)


def line(event: Progress, left: float | None, bound: bool = False) -> str:
    """One line: stage, episodes, success so far, dollars, time left, note; unknown parts are left out.

    `bound`: the time left is one at most."""
    playing = f"playing {event.stage.removeprefix(SYSTEM)}" if event.stage.startswith(SYSTEM) else event.stage
    parts = [_WORDS.get(event.stage, playing)]
    if event.total:
        parts.append(f"{event.done}/{event.total}")
    if event.done and played(event.stage):
        parts.append(f"solved {percent(event.solved / event.done)}")
    if event.dollars is not None:
        parts.append(dollars(event.dollars))
    if left:
        parts.append(f"{'at most' if bound else 'about'} {seconds(left)} left")
    if event.note:
        parts.append(event.note)
    return " · ".join(parts)


class Screen:
    """A context manager whose `listen` is the job's Listener."""

    def __init__(
        self,
        planned: int | None = None,
        out: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = out if out is not None else sys.stderr
        self._clock = Clock(planned, now)
        self._now = now
        self._lock = threading.Lock()
        self._last: tuple[str, float] = ("", 0.0)
        self._note = ""
        self._bar: Bar | None = None
        self._task: Any = None
        self.first: Callable[[], None] | None = None  # called once, when the job lets hear of itself

    def __enter__(self) -> Screen:
        if self._out.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar
            from rich.table import Column

            column = Column(no_wrap=True, overflow="ellipsis")
            self._bar = Bar(
                BarColumn(bar_width=24),
                TextColumn("{task.description}", markup=False, table_column=column),
                console=Console(file=self._out),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("starting", total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def plan(self, episodes: int) -> None:
        """Tell how many episodes the whole job plans, once that is known."""
        self._clock.planned = episodes

    def _say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self._out, flush=True)

    def listen(self, event: Progress) -> None:
        with self._lock:
            if self.first is not None:
                self.first()
                self.first = None
            if event.stage == "estimate":  # the plan stays on the screen, above what moves
                self._say(visible(scrub(event.note)))
                return
            text = line(event, self._clock.left(event), self._clock.planned is not None)
            text = visible(scrub(" ".join(text.splitlines())))
            if self._bar is not None:
                # A description is shown as plain text: a model's words must not become markup.
                self._bar.update(
                    self._task, description=text, completed=event.done, total=event.total or None
                )
                return
            stage, at = self._last
            noted = event.stage != LEARN and event.note not in ("", self._note)  # each step's loss is no news
            news = event.stage != stage or noted
            whole = bool(event.total) and event.done == event.total
            if news or whole or self._now() - at >= EVERY:
                self._say(text)
                self._last = (event.stage, self._now())
                self._note = event.note or self._note
