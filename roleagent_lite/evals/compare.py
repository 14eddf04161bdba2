"""Compares systems of the same or of different runs on the tasks that they have in common.

Owns which tasks are common, the pairs, their correction, what differs between the sides and the words. Leaves
out the tests (stats), finding the runs (sides) and layout (cli, report).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import stdev
from typing import Any

from roleagent_lite.errors import ConfigError
from roleagent_lite.evals.play import Evaluation, frame
from roleagent_lite.evals.sides import Side, sides_of
from roleagent_lite.stats import (
    TIE,
    Paired,
    Summary,
    detectable_effect,
    holm,
    paired_difference,
    points,
    summarise,
    task_means,
    verdict,
)
from roleagent_lite.tasksets import content_id, family_of
from roleagent_lite.types import Task


@dataclass(frozen=True, slots=True)
class Differing:
    """A task on which two sides did not do alike: the share of its scored episodes that each solved, and an
    episode of each that shows it ("" = the run does not say)."""

    task: str
    goal: str
    first: float
    second: float
    first_trajectory: str
    second_trajectory: str


@dataclass(frozen=True, slots=True)
class Pair:
    """`second` against `first` by success and by score, None where no task was scored for both.

    p: of success, corrected (Holm) over all pairs of the comparison. gained: tasks on which the second did
    better; lost: worse.
    """

    first: str
    second: str
    success: Paired | None
    score: Paired | None
    p: float | None
    gained: tuple[Differing, ...]
    lost: tuple[Differing, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sides in the order given, on `tasks` (ids in common). `summaries` are over these tasks for success, and
    over all that a side played for calls, tokens and time. `spread`: what repeated runs of one system differ
    by, by its words."""

    sides: tuple[Side, ...]
    tasks: tuple[str, ...]
    summaries: tuple[Summary, ...]
    pairs: tuple[Pair, ...]
    warnings: tuple[str, ...]
    spread: tuple[str, ...]

    @property
    def words(self) -> str:
        """Warnings, then a sentence or two for each pair."""
        return "\n".join([*(f"warning: {w}" for w in self.warnings), *(pair.words for pair in self.pairs)])

    def as_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "sides": [
                {
                    "name": side.name,
                    "run": str(side.run_dir),
                    "system": side.result.system,
                    "prompt_set": side.prompt_set,
                    "played": len(side.result.scores),
                    **asdict(one),
                }
                for side, one in zip(self.sides, self.summaries, strict=True)
            ],
            "tasks": list(self.tasks),
            "pairs": [asdict(pair) for pair in self.pairs],
            "warnings": list(self.warnings),
            "spread": list(self.spread),
        }

    def to_dataframe(self) -> Any:
        """One row a side and common task: name, task, solved share, score, trajectories. Raises
        MissingExtra."""
        return frame(
            [
                {
                    "name": side.name,
                    "task": task,
                    "solved": task_means(side.result.scores).get(task),
                    "score": task_means(side.result.values).get(task),
                    "trajectories": side.result.trajectories.get(task, ()),
                }
                for side in self.sides
                for task in self.tasks
            ]
        )


def compare(*specs: str | Path | Evaluation, runs: str | Path = "runs") -> Comparison:
    """Compare two or more systems on their common tasks.

    specs: RUN or RUN:SYSTEM each (a name under `runs`, or a path), or an Evaluation, which stands for all of
    its systems. A single RUN stands for all of its systems as well. Raises ConfigError where a name is not
    known, fewer than two systems are named, or no task is common to all.
    """
    alone = len(specs) == 1
    sides: list[Side] = []
    for spec in specs:
        whole = isinstance(spec, Evaluation)
        place = spec.run_dir if isinstance(spec, Evaluation) else spec
        sides += sides_of(place, Path(runs), alone=alone or whole)
    return compare_sides(sides)


def compare_sides(sides: Sequence[Side]) -> Comparison:
    """The comparison of sides that are loaded. Raises ConfigError as `compare`."""
    if len(sides) < 2:
        raise ConfigError("a comparison needs at least two systems: RUN:SYSTEM RUN:SYSTEM, or two runs")
    sides = _named(sides)
    common, other = _common(sides)
    if not common:
        raise ConfigError(
            "no task is common to " + ", ".join(side.name for side in sides) + "; they played other task sets"
        )
    summaries = [_on(side, common) for side in sides]
    pairs = [_pair(a, b, common) for a, b in combinations(sides, 2)]
    known = [pair for pair in pairs if pair.success is not None]
    corrected = holm([pair.success.p for pair in known if pair.success is not None])
    by_pair = {(pair.first, pair.second): p for pair, p in zip(known, corrected, strict=True)}
    base = {side.name: one.rate.mean or 0.0 for side, one in zip(sides, summaries, strict=True)}
    pairs = [
        _worded(pair, by_pair.get((pair.first, pair.second)), len(known), base[pair.first]) for pair in pairs
    ]
    return Comparison(
        tuple(sides), tuple(common), tuple(summaries), tuple(pairs),
        tuple(_warnings(sides, common, other)), tuple(_spread(sides, summaries)),
    )  # fmt: skip


def _named(sides: Sequence[Side]) -> list[Side]:
    """Runs of one name in two folders are told apart by their path."""
    names = [side.name for side in sides]
    out = [
        replace(side, name=f"{side.run_dir}:{side.result.system}") if names.count(side.name) > 1 else side
        for side in sides
    ]
    if len({side.name for side in out}) < len(out):
        twice = next(side.name for side in out if [s.name for s in out].count(side.name) > 1)
        raise ConfigError(f"'{twice}' is named twice; a system cannot be compared with itself")
    return out


def _content(task: Task) -> str:
    return content_id({"env": task.env, "goal": task.goal, "seed": task.seed, "params": dict(task.params)})


def _common(sides: Sequence[Side]) -> tuple[list[str], list[str]]:
    """Ids that all sides played, in the first side's order; apart from them those whose content differs."""
    common: list[str] = []
    other: list[str] = []
    for id in sides[0].result.scores:
        if all(id in side.result.scores for side in sides):
            contents = {_content(side.tasks[id]) for side in sides if id in side.tasks}
            (common if len(contents) < 2 else other).append(id)
    return common, other


def _on(side: Side, common: Sequence[str]) -> Summary:
    """All numbers of a side; success and score on the common tasks alone."""
    kept = set(common)
    types = {id: family_of(task) for id, task in side.tasks.items()}
    result = side.result
    whole = summarise(result, types)
    here = summarise(
        replace(
            result,
            scores={id: result.scores[id] for id in common},
            values={id: row for id, row in result.values.items() if id in kept},
        ),
        types,
    )
    return replace(
        here,
        calls_a_task=whole.calls_a_task,
        tokens_a_solved=whole.tokens_a_solved,
        dollars_a_solved=whole.dollars_a_solved,
    )


def _pair(first: Side, second: Side, common: Sequence[str]) -> Pair:
    before, after = (_means(side.result.scores, common) for side in (first, second))
    success = paired_difference(before, after)
    values = [_means(side.result.values, common) for side in (first, second)]
    score = paired_difference(values[0], values[1])
    gained: list[Differing] = []
    lost: list[Differing] = []
    for id in common:
        if id in before and id in after and abs(after[id] - before[id]) >= TIE:
            better = after[id] > before[id]
            task = first.tasks.get(id) or second.tasks.get(id)
            row = Differing(
                id, task.goal if task else "", before[id], after[id],
                _shown(first, id, not better), _shown(second, id, better),
            )  # fmt: skip
            (gained if better else lost).append(row)
    return Pair(first.name, second.name, success, score, None, tuple(gained), tuple(lost), "")


def _means(scores: Mapping[str, Sequence[float | None]], common: Sequence[str]) -> dict[str, float]:
    means = task_means(scores)
    return {id: means[id] for id in common if id in means}


def _shown(side: Side, task: str, solved: bool) -> str:
    """The first episode of the task that was solved, or was not; any that was scored where there is none."""
    ids, scores = side.result.trajectories.get(task, ()), side.result.scores[task]
    rows = [(id, s) for id, s in zip(ids, scores, strict=False) if s is not None]
    fitting = [id for id, s in rows if (s >= 1) == solved]
    return (fitting or [id for id, _ in rows] or [""])[0]


def _worded(pair: Pair, p: float | None, pairs: int, base: float) -> Pair:
    paired = pair.success
    if paired is None or p is None:
        words = f"No task was scored for both {pair.first} and {pair.second}: nothing can be said."
        return replace(pair, words=words)
    span = "no interval"
    if paired.low is not None and paired.high is not None:
        span = f"95 % interval {100 * paired.low:+.0f} to {100 * paired.high:+.0f}"
    words = (
        f"On {paired.n} common tasks {pair.second} against {pair.first}: {paired.wins} won, {paired.losses} "
        f"lost, {paired.ties} tied ({100 * paired.win_rate:.0f} % with ties as half), "
        f"{points(paired.difference)} ({span}; {paired.test}). " + verdict(paired, pair.first, pair.second, p)
    )
    if pairs > 1:
        words += f" Corrected for {pairs} comparisons (Holm)."
    if paired.within_noise(p):
        sees = detectable_effect(paired.n, base, alternative="two-sided").words
        words += f" What this many tasks can see, uncorrected: {sees}."
    return replace(pair, p=p, words=words)


def _warnings(sides: Sequence[Side], common: Sequence[str], other: Sequence[str]) -> list[str]:
    """What makes the sides unequal apart from what is to be compared."""
    out: list[str] = []
    if other:
        some = ", ".join(other[:5]) + (", …" if len(other) > 5 else "")
        out.append(f"{len(other)} tasks have the same id and another content, and are left out: {some}")
    short = [f"{s.name} played {len(s.result.scores)}" for s in sides if len(s.result.scores) > len(common)]
    if short:
        spent = "calls, tokens, dollars and time are over all that each played"
        out.append(f"only {len(common)} tasks are common to all: {', '.join(short)}; {spent}")
    _unequal(out, "task files differ", {s.name: s.tasks_hash or "unknown" for s in sides})
    differing = [id for id in common if len({s.limits[id] for s in sides if id in s.limits}) > 1]
    if differing:
        shown = ", ".join(f"{s.name} {s.limits.get(differing[0], 'unknown')}" for s in sides)
        out.append(f"step limits differ on {len(differing)} tasks (task {differing[0]}: {shown})")
    played = [s for s in sides if s.models or s.result.model]  # random and oracle play without a model
    _unequal(out, "models differ", {s.name: ", ".join(s.models) or s.result.model for s in played})
    _unequal(out, "servers differ", {s.name: s.server or "the provider's own" for s in played})
    _unequal(out, "reply limits differ", {s.name: f"{s.max_tokens} tokens" for s in played})
    _unequal(out, "temperatures differ", {s.name: _plain(s.result.temperature) for s in sides})
    _unequal(out, "budgets differ", {s.name: s.result.budget or "not said" for s in sides})
    repeated = {s.name: str(max(map(len, s.result.scores.values()), default=0)) for s in sides}
    _unequal(out, "repetitions differ", repeated)
    return out


def _plain(value: float | None) -> str:
    return "not said" if value is None else f"{value:g}"


def _unequal(out: list[str], what: str, found: Mapping[str, str]) -> None:
    if len(set(found.values())) > 1:
        out.append(f"{what}: " + ", ".join(f"{name} {value}" for name, value in found.items()))


def _spread(sides: Sequence[Side], summaries: Sequence[Summary]) -> list[str]:
    """Run-to-run spread: of a side's own repetitions, and of sides that are the same system played again."""
    out = []
    for side, one in zip(sides, summaries, strict=True):
        if one.spread is not None:
            runs = len([m for m in one.repetition_means if m is not None])
            out.append(
                f"{side.name}: standard deviation {100 * one.spread:.1f} points over {runs} repetitions"
            )
    groups: dict[tuple[str, str, tuple[str, ...]], list[tuple[str, float]]] = {}
    for side, one in zip(sides, summaries, strict=True):
        if one.rate.mean is not None:
            key = (side.result.system, side.prompt_set, side.models)
            groups.setdefault(key, []).append((side.name, one.rate.mean))
    for (system, _, _), runs_of in groups.items():
        if len(runs_of) > 1:
            means = ", ".join(f"{100 * mean:.0f} %" for _, mean in runs_of)
            out.append(
                f"the same system ({system}) in {len(runs_of)} runs: {means}; "
                f"standard deviation {100 * stdev(m for _, m in runs_of):.1f} points"
            )
    return out
