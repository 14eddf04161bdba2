"""All numbers of one system's Result: success over episodes and by task type, errors both ways, costs.

Owns which mean is which. Leaves out tables and words (report, cli). No data is None, never nan or 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import stdev

from roleagent_lite.stats.intervals import Rate, Scores, known, success_rate
from roleagent_lite.stats.samples import PassK, passes
from roleagent_lite.types import Result, Usage

KS = (1, 2, 4, 8)  # for pass@k, as far as there are repetitions


@dataclass(frozen=True, slots=True)
class Summary:
    """One system on one suite. Shares and scores in 0..1; None = no data or unknown.

    rate: micro mean over scored episodes with its interval. macro: mean of the task types' means, each type
    counting once. as_zero: the micro mean with infrastructure errors counted as not solved. score: mean of
    the environment's own score. spread: standard deviation of the repetitions' means, None for one. solved:
    number of solved episodes. calls_a_task: calls over all episodes, errors included. dollars_a_solved and
    tokens_a_solved (input and output): None where nothing was solved or the server did not say.
    """

    suite: str
    system: str
    model: str
    rate: Rate
    macro: float | None
    by_type: Mapping[str, Rate]
    as_zero: float | None
    errors: int
    score: float | None
    spread: float | None
    repetition_means: tuple[float | None, ...]
    solved: int
    episodes: int
    calls: int | None
    calls_a_task: float | None
    usage: Usage
    tokens_a_solved: float | None
    dollars_a_solved: float | None
    seconds: float | None
    budget: str
    temperature: float | None
    passes: tuple[PassK, ...]


def repetition_means(scores: Scores) -> tuple[float | None, ...]:
    """Mean over tasks of each repetition, in order; None where a repetition has no scored episode."""
    longest = max((len(row) for row in scores.values()), default=0)
    out: list[float | None] = []
    for i in range(longest):
        column = [row[i] for row in scores.values() if i < len(row)]
        values = [v for v in column if v is not None]
        out.append(math.fsum(values) / len(values) if values else None)
    return tuple(out)


def spread(scores: Scores) -> float | None:
    """Run-to-run spread: standard deviation (n - 1) of the repetitions' means, None for fewer than two."""
    means = [m for m in repetition_means(scores) if m is not None]
    return stdev(means) if len(means) > 1 else None


def by_type(scores: Scores, types: Mapping[str, str]) -> dict[str, Rate]:
    """Success by task type, in order of name; `types` by task id. Types with nothing scored are there."""
    groups: dict[str, dict[str, tuple[float | None, ...]]] = {}
    for task, row in scores.items():
        groups.setdefault(types.get(task, "unknown"), {})[task] = tuple(row)
    return {kind: success_rate(groups[kind]) for kind in sorted(groups)}


def mean(values: Scores) -> float | None:
    """Mean over all entries that are there."""
    flat = [v for row in known(values).values() for v in row]
    return math.fsum(flat) / len(flat) if flat else None


def summarise(result: Result, types: Mapping[str, str]) -> Summary:
    """The numbers of `result`; `types`: task type by task id (`tasksets.family_of`)."""
    rate, kinds = success_rate(result.scores), by_type(result.scores, types)
    typed = [r.mean for r in kinds.values() if r.mean is not None]
    episodes = sum(len(row) for row in result.scores.values())
    solved = sum(v >= 1 for row in known(result.scores).values() for v in row)
    used = result.usage
    tokens = None if used.input is None or used.output is None else used.input + used.output
    repeated = max((len(row) for row in result.scores.values()), default=0)
    return Summary(
        suite=result.suite,
        system=result.system,
        model=result.model,
        rate=rate,
        macro=math.fsum(typed) / len(typed) if typed else None,
        by_type=kinds,
        as_zero=solved / episodes if episodes else None,
        errors=episodes - rate.n,
        score=mean(result.values),
        spread=spread(result.scores),
        repetition_means=repetition_means(result.scores),
        solved=solved,
        episodes=episodes,
        calls=result.calls,
        calls_a_task=None if result.calls is None or not episodes else result.calls / episodes,
        usage=used,
        tokens_a_solved=tokens / solved if tokens is not None and solved else None,
        dollars_a_solved=used.dollars / solved if used.dollars is not None and solved else None,
        seconds=result.seconds,
        budget=result.budget,
        temperature=result.temperature,
        passes=passes(result.scores, result.temperature, [k for k in KS if 1 < k <= repeated]),
    )
