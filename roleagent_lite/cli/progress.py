"""Progress of a running job on standard error: a live line on a terminal, plain lines elsewhere.

Owns how `types.Progress` is shown and the estimate of the time left. Leaves out everything on standard
output. The listener may be called from any thread.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from roleagent_lite.cli.output import dollars, percent, seconds
from roleagent_lite.redact import scrub
from roleagent_lite.types import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_PLAYED = ("train", "dev", "test")
EVERY = 15.0  # seconds between two plain lines of one stage
_WORDS = {
    "train": "playing training tasks",
    "dev": "scoring on dev tasks",
    "diagnose": "reading failures",
    "reflect": "rewriting the prompt",
    "test": "playing the sealed tasks",
    "load": "loading the model",
    "download": "fetching the model, MB",
}


class Clock:
    """How long the rest will take, from the pace so far. `planned`: episodes of the whole job, if known."""

    def __init__(self, planned: int | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.planned = planned
        self._now = now
        self._start = now()
        self._finished = 0
        self._first: dict[str, tuple[float, int]] = {}
        self._seen: dict[str, int] = {}

    def left(self, event: Progress) -> float | None:
        """Seconds left: of the whole job where its size is known, else of this stage; None = no pace yet."""
        now = self._now()
        before = self._seen.get(event.stage, 0)
        if event.done < before or event.stage not in self._first:  # a new round of this stage
            self._first[event.stage] = (now, event.done)
            before = event.done
        self._finished += event.done - before
        self._seen[event.stage] = event.done
        if self.planned is not None and self._finished:
            return (now - self._start) / self._finished * max(0, self.planned - self._finished)
        began, at = self._first[event.stage]
        if event.done <= at:
            return None
        return (now - began) / (event.done - at) * max(0, event.total - event.done)


def line(event: Progress, left: float | None) -> str:
    """One line: stage, episodes, success so far, dollars, time left, note; unknown parts are left out."""
    parts = [_WORDS.get(event.stage, event.stage)]
    if event.total:
        parts.append(f"{event.done}/{event.total}")
    if event.done and event.stage in _PLAYED:
        parts.append(f"solved {percent(event.solved / event.done)}")
    if event.dollars is not None:
        parts.append(dollars(event.dollars))
    if left is not None and event.done < event.total:
        parts.append(f"about {seconds(left)} left")
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

    def __enter__(self) -> Screen:
        if self._out.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                BarColumn(bar_width=24),
                TextColumn("{task.description}", markup=False),
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
            if event.stage == "estimate":  # the plan stays on the screen, above what moves
                self._say(scrub(event.note))
                return
            text = scrub(line(event, self._clock.left(event)))
            if self._bar is not None:
                # A description is shown as plain text: a model's words must not become markup.
                self._bar.update(
                    self._task, description=text, completed=event.done, total=event.total or None
                )
                return
            stage, at = self._last
            news = event.stage != stage or event.note not in ("", self._note)
            whole = bool(event.total) and event.done == event.total
            if news or whole or self._now() - at >= EVERY:
                self._say(text)
                self._last = (event.stage, self._now())
                self._note = event.note or self._note
