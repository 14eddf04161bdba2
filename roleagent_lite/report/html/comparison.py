"""A page of its own for a comparison of systems of one or several runs.

Owns the page's sections and the links to each side's own report. Leaves out the comparison (evals.compare),
which it knows by its fields alone: the two rooms meet where both are called.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from roleagent_lite.report.html.page import Section, end, frame, head
from roleagent_lite.report.html.piece import (
    Cell,
    Markup,
    code_cell,
    join,
    paragraphs,
    table,
    tag,
    text_cell,
)
from roleagent_lite.report.html.systems import (
    P_NOTE,
    PAIR_HEAD,
    cost_plot,
    pair_row,
    repetitions,
    summary_table,
    types_table,
    used_table,
)
from roleagent_lite.report.html.write import save
from roleagent_lite.stats import Paired, Summary


class SideLike(Protocol):
    """One system of one run."""

    @property
    def name(self) -> str: ...
    @property
    def run_dir(self) -> Path: ...
    @property
    def tasks(self) -> Mapping[str, Any]: ...
    @property
    def limits(self) -> Mapping[str, int]: ...
    @property
    def models(self) -> Sequence[str]: ...
    @property
    def prompt_set(self) -> str: ...
    @property
    def tasks_hash(self) -> str: ...


class DifferingLike(Protocol):
    """A task on which two sides did not do alike, with an episode of each ("" = not known)."""

    @property
    def task(self) -> str: ...
    @property
    def goal(self) -> str: ...
    @property
    def first(self) -> float: ...
    @property
    def second(self) -> float: ...
    @property
    def first_trajectory(self) -> str: ...
    @property
    def second_trajectory(self) -> str: ...


class PairLike(Protocol):
    """`second` against `first`."""

    @property
    def first(self) -> str: ...
    @property
    def second(self) -> str: ...
    @property
    def success(self) -> Paired | None: ...
    @property
    def score(self) -> Paired | None: ...
    @property
    def p(self) -> float | None: ...
    @property
    def gained(self) -> Sequence[DifferingLike]: ...
    @property
    def lost(self) -> Sequence[DifferingLike]: ...
    @property
    def words(self) -> str: ...


class ComparisonLike(Protocol):
    """What `evals.compare` gives."""

    @property
    def sides(self) -> Sequence[SideLike]: ...
    @property
    def tasks(self) -> Sequence[str]: ...
    @property
    def summaries(self) -> Sequence[Summary]: ...
    @property
    def pairs(self) -> Sequence[PairLike]: ...
    @property
    def warnings(self) -> Sequence[str]: ...
    @property
    def spread(self) -> Sequence[str]: ...


def _verdicts(pairs: Sequence[PairLike]) -> list[str]:
    """The pairs in words: all of a few; of many those that are more than noise, and how many are not."""
    if len(pairs) <= 3:
        return [pair.words for pair in pairs]
    apart = [pair for pair in pairs if pair.success is not None and not pair.success.within_noise(pair.p)]
    rest = len(pairs) - len(apart)
    within = f"Within noise, or without a task in common: {rest} of {len(pairs)} pairs."
    return [pair.words for pair in apart[:12]] + ([within] if rest else [])


def _overview(found: ComparisonLike) -> Markup:
    names = [side.name for side in found.sides]
    rows = [pair_row(p.first, p.second, p.success, p.score, p.p) for p in found.pairs]
    plot = cost_plot(found.summaries, names)
    note = P_NOTE
    about = (
        f"Success and score are over the {len(found.tasks)} tasks in common; calls, tokens and time over all "
        "that a side played."
    )
    return join(
        [
            *(tag("p", tag("strong", "Not alike:"), " ", w, class_="warn") for w in found.warnings),
            tag("div", paragraphs(_verdicts(found.pairs)), class_="headline"),
            summary_table("Success", found.summaries, names),
            used_table(found.summaries, names),
            tag("p", about, class_="note"),
            table("Pairs", PAIR_HEAD, rows, note=note, filterable=len(rows) > 10),
            tag("div", plot, class_="plots") if plot else "",
            types_table(found.summaries, names),
            repetitions(found.summaries, names),
            tag("ul", *(tag("li", one) for one in found.spread)) if found.spread else "",
        ]
    )


def address(folder: Path, run_dir: Path, trajectory: str) -> str:
    """The link from a page in `folder` to one episode in a run's own report; a path, never another scheme."""
    path = os.path.relpath(run_dir.resolve() / "report.html", folder.resolve())
    return f"./{quote(path)}#t={quote(trajectory, safe='')}"


def _share(value: float, trajectory: str, run_dir: Path, folder: Path) -> Cell:
    words = f"{100 * value:.0f} %"
    if not trajectory:
        return Cell(words, value)
    return Cell(tag("a", words, href=address(folder, run_dir, trajectory), title=trajectory), value)


def _differing(found: ComparisonLike, folder: Path) -> Markup:
    """Tasks that two sides did not do alike, with a link to an episode of each."""
    dirs = {side.name: side.run_dir for side in found.sides}
    out: list[object] = []
    for pair in found.pairs:
        rows = [
            [
                text_cell(one.goal or one.task, 200),
                code_cell(one.task),
                text_cell(better),
                _share(one.first, one.first_trajectory, dirs[pair.first], folder),
                _share(one.second, one.second_trajectory, dirs[pair.second], folder),
            ]
            for better, tasks in ((pair.second, pair.gained), (pair.first, pair.lost))
            for one in tasks
        ]
        head = ["goal", "task", "better", pair.first, pair.second]
        title = f"{pair.second} against {pair.first}"
        out.append(
            table(title, head, rows, filterable=len(rows) > 10) or tag("p", f"{title}: alike on every task.")
        )
    note = (
        "A percentage is the share of the task's scored episodes that were solved; it links to one of them."
    )
    return join([tag("p", note, class_="note"), *out])


def _sides(found: ComparisonLike) -> Markup:
    rows = [
        [
            text_cell(side.name),
            code_cell(str(side.run_dir), 200),
            text_cell(", ".join(side.models) or "none"),
            code_cell(side.prompt_set[:12]),
            text_cell(", ".join(str(n) for n in sorted(set(side.limits.values()))) or "unknown"),
            code_cell(side.tasks_hash or "unknown"),
        ]
        for side in found.sides
    ]
    return table(
        "What was compared", ["system", "run", "models", "prompt", "step limits", "task files"], rows
    )


def comparison_page(found: ComparisonLike, folder: Path) -> Iterator[str]:
    """The page in pieces; links start from `folder`, where it will lie."""
    names = [side.name for side in found.sides]
    title = " against ".join(names) if len(names) == 2 else f"{len(names)} systems"
    yield head(f"{title} – roleagent-lite")
    sections = [
        Section("overview", "Overview", _overview(found)),
        Section("differing", "Where they differ", _differing(found, folder)),
        Section("sides", "What was compared", _sides(found)),
    ]
    yield frame(title, "Comparison", "", sections)
    yield end()


def write_comparison(found: ComparisonLike, path: str | Path) -> Path:
    """Write the page of a comparison to `path` (a file); the path.

    Opens without any network; its links lead to `report.html` in each side's run. Raises RoleAgentError where
    the file cannot be written.
    """
    path = Path(path)
    return save(path, comparison_page(found, path.parent))
