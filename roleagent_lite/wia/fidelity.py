"""Is the predictive reward worth having? The predictions of a run against predictors that know nothing.

Owns that measurement and its warnings in words. Leaves out Credits (credit) and how a report is laid out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import roleagent_lite.wia.align as align
from roleagent_lite.config import Wia
from roleagent_lite.stats import Correlation, point_biserial
from roleagent_lite.types import Credit, Step, Trajectory

MISSING_RULE = (
    "A step without a prediction has no alignment and R_pre = 0: it keeps its plain task return, "
    "is left out of the alignment mean, and is counted here."
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """A trivial predictor on the `n` comparisons it could answer; `model`: the agent on the same ones."""

    name: str
    alignment: float | None
    model: float | None
    n: int


@dataclass(frozen=True, slots=True)
class ActionFidelity:
    """Steps whose action starts with the word `action`; `alignment` over their comparisons, None if none."""

    action: str
    steps: int
    missing: int
    alignment: float | None


@dataclass(frozen=True, slots=True)
class Fidelity:
    """What the predictions of some rollouts are worth; shares and alignments in 0..1, None = no data.

    `alignment`: mean over `comparisons` (step, h) with a prediction and a target, which `compared_steps`
    steps have. `missing`: steps without any prediction. `singletons`: state groups of one step among
    `state_groups`. `nonzero`: steps with a non-zero advantage, among `credited` steps that teach.
    `correlation`: a trajectory's mean R_pre (over its compared steps) with solved.
    """

    steps: int
    missing: int
    compared_steps: int
    comparisons: int
    cut: int
    alignment: float | None
    baselines: tuple[Baseline, ...]
    by_action: tuple[ActionFidelity, ...]
    state_groups: int
    singletons: int
    credited: int
    nonzero: int
    correlation: Correlation | None
    warnings: tuple[str, ...]
    rule: str = MISSING_RULE

    @property
    def missing_share(self) -> float | None:
        return self.missing / self.steps if self.steps else None

    @property
    def singleton_share(self) -> float | None:
        return self.singletons / self.state_groups if self.state_groups else None

    @property
    def nonzero_share(self) -> float | None:
        return self.nonzero / self.credited if self.credited else None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _any(row: Sequence[float | None]) -> bool:
    return any(value is not None for value in row)


def _first_word(action: str) -> str:
    return (action.split() or [""])[0].lower()


def is_missing(step: Step) -> bool:
    """Whether a step carries no prediction at all, for no h."""
    return not any(text and text.strip() for text in step.predictions)


def missing_warning(trajectories: Sequence[Trajectory]) -> str | None:
    """The warning for a run in which no step so far carries a prediction; ask after the first episode."""
    steps = [step for t in trajectories for step in t.steps]
    if not steps or not all(is_missing(s) for s in steps):
        return None
    return (
        f"none of {len(steps)} steps carries a prediction (100 % missing): R_pre is 0 everywhere and rewards "
        "are plain task returns; check that the prompt asks for predictions and the reply has room for them"
    )


# --- the trivial predictors ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Compared:
    """One comparison: step `t` (from 0) of `steps` at `h`, and what the agent scored there."""

    steps: tuple[Step, ...]
    t: int
    h: int
    score: float
    recalled: str | None  # what was seen h steps after the same action, last time in this run


def _comparisons(trajectories: Sequence[Trajectory], credits: Mapping[str, Credit]) -> Iterator[_Compared]:
    """Every entry of the alignment matrices, episode by episode, with what the run had seen before it."""
    last: dict[tuple[str, int], str] = {}
    for trajectory in trajectories:
        steps = trajectory.steps
        ahead = max((len(row) for row in credits[trajectory.id].alignment), default=0)
        for t, row in enumerate(credits[trajectory.id].alignment):
            for h in range(1, ahead + 1):
                if t >= h:  # the outcome h steps after step t - h has just come into view
                    last[(steps[t - h].action, h)] = steps[t - 1].outcome
            for h, score in enumerate(row, 1):
                if score is not None:
                    yield _Compared(steps, t, h, score, last.get((steps[t].action, h)))
        for h in range(1, ahead + 1):
            if len(steps) >= h:
                last[(steps[-h].action, h)] = steps[-1].outcome


def _most_frequent(trajectories: Sequence[Trajectory]) -> str | None:
    """The outcome seen most often in training episodes; of several the first in alphabetical order.

    The episodes being measured count too, so on a handful of steps it is flattered.
    """
    seen = Counter(s.outcome for t in trajectories if t.split == "train" for s in t.steps)
    return min(seen, key=lambda text: (-seen[text], text)) if seen else None


def _baseline(
    name: str, compared: Sequence[_Compared], guess: Callable[[_Compared], str | None], score: align.Scorer
) -> Baseline:
    trivial: list[float] = []
    model: list[float] = []
    for pair in compared:
        goal, text = align.target_of(pair.steps, pair.t, pair.h), guess(pair)
        if goal is not None and text is not None:
            trivial.append(align.agreement(text, goal, score))
            model.append(pair.score)
    return Baseline(name, _mean(trivial), _mean(model), len(trivial))


def _baselines(
    trajectories: Sequence[Trajectory], compared: Sequence[_Compared], score: align.Scorer
) -> tuple[Baseline, ...]:
    common = _most_frequent(trajectories)
    guesses: dict[str, Callable[[_Compared], str | None]] = {
        "the same observation again": lambda pair: pair.steps[pair.t].observation,
        "the most frequent training observation": lambda pair: common,
        "what followed the same action last time": lambda pair: pair.recalled,
    }
    return tuple(_baseline(name, compared, guess, score) for name, guess in guesses.items())


# --- the measurement ----------------------------------------------------------------------------------


def _by_action(
    trajectories: Sequence[Trajectory], credits: Mapping[str, Credit]
) -> tuple[ActionFidelity, ...]:
    rows: dict[str, list[tuple[Step, tuple[float | None, ...]]]] = {}
    for trajectory in trajectories:
        for step, row in zip(trajectory.steps, credits[trajectory.id].alignment, strict=True):
            rows.setdefault(_first_word(step.action), []).append((step, row))
    found = [
        ActionFidelity(
            action,
            len(members),
            sum(is_missing(step) for step, _ in members),
            _mean([v for _, row in members for v in row if v is not None]),
        )
        for action, members in rows.items()
    ]
    return tuple(sorted(found, key=lambda a: (-a.steps, a.action)))


def _correlation(trajectories: Sequence[Trajectory], credits: Mapping[str, Credit]) -> Correlation | None:
    values: list[float] = []
    solved: list[bool] = []
    for trajectory in trajectories:
        credit = credits[trajectory.id]
        pairs = zip(credit.alignment, credit.predictive, strict=True)
        earned = _mean([p for row, p in pairs if _any(row)])
        if earned is not None:
            values.append(earned)
            solved.append(trajectory.solved)
    return point_biserial(values, solved)


def _state_groups(
    trajectories: Sequence[Trajectory], credits: Mapping[str, Credit]
) -> Counter[tuple[str, int]]:
    """How many steps each state group holds, over all groups of rollouts."""
    return Counter(
        (t.group, number) for t in trajectories for number in credits[t.id].state_group if number >= 0
    )


def _warnings(
    trajectories: Sequence[Trajectory],
    wia: Wia,
    baselines: Sequence[Baseline],
    credited: int,
    nonzero: int,
) -> tuple[str, ...]:
    out = [missing_warning(trajectories) if wia.predict != "off" else None]
    if credited and not nonzero:
        out.append(
            f"none of {credited} steps has a non-zero advantage: all rollouts of each task ended alike; "
            "use tasks of fitting difficulty, larger groups or a higher temperature"
        )
    most = max(b.n for b in baselines)
    tried = [
        (b.alignment, b.model, b)
        for b in baselines
        if 2 * b.n >= most and b.alignment is not None and b.model is not None  # others seldom answer
    ]
    if tried:
        trivial, model, best = max(tried, key=lambda x: x[0])
        if model <= trivial:
            out.append(
                f"the predictions ({model:.2f}) are no better than '{best.name}' ({trivial:.2f}, "
                f"n = {best.n}): the predictive reward carries no information of its own here"
            )
    return tuple(text for text in out if text)


def fidelity(trajectories: Sequence[Trajectory], credits: Sequence[Credit], wia: Wia) -> Fidelity:
    """Measures the predictions of the `trajectories` that have a Credit, by the scorer that made the Credits.

    Episodes are read by round, then id, whatever the order given. A prediction that the agent left out is
    not compared, and neither are the trivial predictors there: both stand on the same comparisons.
    """
    own = {c.trajectory: c for c in credits}
    judged = sorted((t for t in trajectories if t.id in own), key=lambda t: (t.round, t.id))
    compared = list(_comparisons(judged, own))
    baselines = _baselines(judged, compared, align.scorer(wia.scorer))
    alignment = _mean([pair.score for pair in compared])
    groups = _state_groups(judged, own)
    teaching = [a for t in judged if t.outcome.teaches for a in own[t.id].advantage]
    nonzero = sum(a != 0.0 for a in teaching)
    return Fidelity(
        steps=sum(len(t.steps) for t in judged),
        missing=sum(is_missing(s) for t in judged for s in t.steps),
        compared_steps=sum(_any(row) for t in judged for row in own[t.id].alignment),
        comparisons=len(compared),
        cut=sum(n for t in judged for n in own[t.id].cut),
        alignment=alignment,
        baselines=baselines,
        by_action=_by_action(judged, own),
        state_groups=len(groups),
        singletons=sum(n == 1 for n in groups.values()),
        credited=len(teaching),
        nonzero=nonzero,
        correlation=_correlation(judged, own),
        warnings=_warnings(judged, wia, baselines, len(teaching), nonzero),
    )
