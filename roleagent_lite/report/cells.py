"""The four-cell report: what training gave, what the evolved prompt gave, and whether the one stands for the
other; cells.md and cells.json in the run directory.

Owns which pairs are compared, their correction, and their words. Reads the run directory and nothing else.
Leaves out the tests (stats), playing (evals/cells.py) and the run's own report, which is written beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from roleagent_lite.errors import ConfigError
from roleagent_lite.redact import clean, scrub
from roleagent_lite.report.html.write import save, write_all
from roleagent_lite.report.markdown import number, plain, table
from roleagent_lite.report.systems import money, rate_words, signed
from roleagent_lite.stats import (
    Paired,
    Summary,
    detectable_effect,
    holm,
    p_words,
    paired_difference,
    summarise,
    task_means,
    verdict,
)
from roleagent_lite.store import Run
from roleagent_lite.tasksets import family_of
from roleagent_lite.types import Result

SCHEMA = 1
# Second against first, and what the difference says. Corrected (Holm) over those of them that were played.
PAIRS = (
    ("base+seed", "adapter+seed", "training, under the seed prompt"),
    ("base+evolved", "adapter+evolved", "training, under the evolved prompt"),
    ("base+seed", "base+evolved", "the evolved prompt, for the base"),
    ("adapter+seed", "adapter+evolved", "the evolved prompt, for the adapter"),
    ("base+evolved", "adapter+seed", "training in place of the evolved prompt"),
    ("teacher+evolved", "adapter+seed", "the adapter without the prompt against the teacher with it"),
)
ROWS = ("base", "adapter", "teacher")


@dataclass(frozen=True, slots=True)
class Planned:
    """One of PAIRS. `p`: corrected; `words`: a verdict that names no winner inside the noise."""

    first: str
    second: str
    about: str
    success: Paired
    p: float
    words: str


@dataclass(frozen=True, slots=True)
class Cells:
    """`about`: the models and prompts, as the run keeps them; `missing`: cells that are not played to their
    end; `both`: what training gives under the evolved prompt less what it gives under the seed prompt, by
    task; `teacher`: where its rows come from, or why there are none; `sees`: what so many tasks can see."""

    run: str
    about: Mapping[str, Any]
    tasks: int
    summaries: Mapping[str, Summary]
    pairs: tuple[Planned, ...]
    both: Paired | None
    missing: tuple[str, ...]
    teacher: str
    sees: str

    def as_data(self) -> dict[str, Any]:
        """Plain values; unknown is None."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "status": "partial" if self.missing else "finished",
            "about": dict(self.about),
            "tasks": self.tasks,
            "cells": {
                name: {**asdict(one), "tokens_in_a_call": tokens_in(one)}
                for name, one in self.summaries.items()
            },
            "pairs": [
                {**asdict(pair), "within_noise": pair.success.within_noise(pair.p)} for pair in self.pairs
            ],
            "both": asdict(self.both) if self.both is not None else None,
            "missing": list(self.missing),
            "teacher": self.teacher,
            "sees": self.sees,
        }


def tokens_in(one: Summary) -> float | None:
    """Mean tokens of a request, as the server counted them; None = unknown."""
    return one.usage.input / one.calls if one.calls and one.usage.input is not None else None


def read(run: Run) -> Cells:
    """The four cells of a run. Raises ConfigError where it is no such run."""
    event, suite = run.events.get("cells"), run.events.get("suite")
    if event is None or suite is None:
        raise ConfigError(f"run {run.dir} has no four cells; `roleagent-lite distill RUN --cells` plays them")
    named = [str(name) for name in suite.data.get("systems", ())]
    results = {result.system: result for result in run.results}
    types = {task.id: family_of(task) for task in run.tasks}
    missing = tuple(name for name in named if name not in results)
    order = [*(n for n in named if n in results), *(n for n in results if n not in named)]
    summaries = {name: summarise(results[name], types) for name in order}
    teacher = run.events.get("teacher")
    base = summaries.get("base+seed")
    seen = detectable_effect(len(types), (base.rate.mean if base else None) or 0.0, alternative="two-sided")
    return Cells(
        run=run.name,
        about=event.data,
        tasks=len(types),
        summaries=summaries,
        pairs=() if missing else tuple(_pairs(results)),
        both=None if missing else _both(results),
        missing=missing,
        teacher=str(teacher.data.get("words", "")) if teacher is not None else "",
        sees=seen.words,
    )


def open_cells(run_dir: str | Path) -> Cells:
    """`read` of a run directory. Raises ConfigError as it does."""
    with Run.open(Path(run_dir)) as run:
        return read(run)


def _pairs(results: Mapping[str, Result]) -> list[Planned]:
    found = []
    for first, second, about in PAIRS:
        if first in results and second in results:
            success = paired_difference(task_means(results[first].scores), task_means(results[second].scores))
            if success is not None:
                found.append((first, second, about, success))
    corrected = holm([success.p for *_, success in found])
    return [
        Planned(first, second, about, success, p, verdict(success, first, second, p))
        for (first, second, about, success), p in zip(found, corrected, strict=True)
    ]


def _both(results: Mapping[str, Result]) -> Paired | None:
    def gain(prompt: str) -> dict[str, float]:
        before, after = (task_means(results[f"{who}+{prompt}"].scores) for who in ("base", "adapter"))
        return {task: after[task] - before[task] for task in before.keys() & after.keys()}

    return paired_difference(gain("seed"), gain("evolved"))


def grid(found: Cells) -> list[list[str]]:
    """Rows base, adapter and teacher; success under the seed prompt and under the evolved one."""
    rows = []
    for who in ROWS:
        cells = [found.summaries.get(f"{who}+{prompt}") for prompt in ("seed", "evolved")]
        if who != "teacher" or any(cells):
            rows.append([who, *("not played" if one is None else rate_words(one.rate) for one in cells)])
    return rows


GRID = ("solved (95 % interval)", "seed prompt", "evolved prompt")
COSTS = ("cell", "tokens a call", "calls a task", "tokens a solved task", "dollars a solved task", "errors")
VERDICTS = (
    "what it tells",
    "pair",
    "won / lost / tied",
    "difference in points (95 %)",
    "p, corrected",
    "verdict",
)


def costs(found: Cells) -> list[list[str]]:
    """What a call, a task and a solved task took, by cell."""
    return [
        [
            name,
            number(tokens_in(one), 0),
            number(one.calls_a_task),
            number(one.tokens_a_solved, 0) if one.solved else "none solved",
            money(one.dollars_a_solved) if one.solved else "none solved",
            str(one.errors),
        ]
        for name, one in found.summaries.items()
    ]


def verdicts(found: Cells) -> list[list[str]]:
    """The planned pairs, with what each tells."""
    return [
        [
            pair.about,
            f"{pair.second} against {pair.first}",
            f"{pair.success.wins} / {pair.success.losses} / {pair.success.ties}",
            signed(pair.success),
            p_words(pair.p).removeprefix("= "),
            "within noise" if pair.success.within_noise(pair.p) else "more than noise",
        ]
        for pair in found.pairs
    ]


def kept(found: Cells) -> str:
    """Whether the adapter without the evolved prompt keeps what the prompt gave, and what is saved; "" where
    the cells are not all played."""
    pair = next((p for p in found.pairs if (p.first, p.second) == ("base+evolved", "adapter+seed")), None)
    if pair is None:
        return ""
    long, short = found.summaries["base+evolved"], found.summaries["adapter+seed"]
    words = (
        f"The adapter under the seed prompt solved {short.solved} of {short.rate.n} tasks, the base under "
        f"the evolved prompt {long.solved} of {long.rate.n}: {signed(pair.success)} points."
    )
    sent, now = tokens_in(long), tokens_in(short)
    if sent and now is not None:
        words += f" A call sends {now:,.0f} tokens in place of {sent:,.0f} ({(sent - now) / sent:.0%} saved)."
    return words


def words_of(found: Cells) -> list[str]:
    """What is said around the tables, in sentences."""
    said = [kept(found)]
    if found.both is not None:
        claim = "" if found.both.within_noise() else "not "
        said.append(
            f"What training gives under the evolved prompt, less what it gives under the seed prompt: "
            f"{signed(found.both)} points (two-sided p {p_words(found.both.p)}), {claim}within noise."
        )
    said.append(f"Teacher ({plain(str(found.about.get('teacher', '')))}): {plain(found.teacher)}.")
    if any(pair.success.within_noise(pair.p) for pair in found.pairs):
        said.append(f"What {found.tasks} tasks can see, uncorrected: {found.sees}.")
    if found.missing:
        said.append(f"Not finished: {', '.join(found.missing)}; the same command goes on.")
    return [text for text in said if text]


def render(found: Cells) -> str:
    """cells.md, scrubbed of keys."""
    about = found.about
    parts = [
        f"# Four cells of run {plain(str(about.get('run', '')))}" + (" (partial)" if found.missing else ""),
        f"Base {plain(str(about.get('base')))}, adapter {plain(str(about.get('adapter')))}; seed prompt "
        f"{plain(str(about.get('seed_prompt')))}, evolved prompt {plain(str(about.get('evolved_prompt')))}; "
        f"{found.tasks} sealed tasks, each once at temperature 0.",
        table(GRID, grid(found)),
        table(COSTS, costs(found)),
        table(VERDICTS, [[plain(cell) for cell in row] for row in verdicts(found)]),
        *words_of(found),
        "Intervals are 95 %. Pairs are compared by task; p is two-sided and corrected over the pairs above "
        "(Holm), which were chosen before anything was played. Unknown = the server or the price list did "
        "not say. The same numbers are in `cells.json`.",
    ]
    return scrub("\n\n".join(part for part in parts if part) + "\n")


def write(run_dir: str | Path) -> Path:
    """cells.md and cells.json beside the run's own report, which is written too; the path of cells.md.

    Raises ConfigError where the run has no four cells, RoleAgentError where a table is damaged or the disk is
    full.
    """
    folder = Path(run_dir)
    write_all(folder)
    found = open_cells(folder)
    data = json.dumps(clean(found.as_data()), ensure_ascii=False, indent=1)
    save(folder / "cells.json", [data, "\n"])
    return save(folder / "cells.md", [render(found)])
