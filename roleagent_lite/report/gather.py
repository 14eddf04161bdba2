"""Counts what a run directory holds: success, outcomes, moves, spending, modes, curriculum, candidates.

Owns every number of the report that is a plain count of facts. One pass over each table; only small tallies
stay in memory, never steps or calls. Leaves out comparison in words (compare), fidelity (foresight), the
layout (markdown) and files (write).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from roleagent_lite.lm.ledger import Ledger
from roleagent_lite.lm.price import FREE
from roleagent_lite.report.shapes import checked
from roleagent_lite.stats import wilson
from roleagent_lite.store import Event, Run
from roleagent_lite.tasksets import family_of
from roleagent_lite.types import ROLES, Trajectory

_EPISODE = re.compile(r"-?\d+/[0-9a-f]{8}/.+?#\d+(?=/|$)")  # the id at the head of a call's sample


@dataclass(frozen=True, slots=True)
class Share:
    """k of n with its 95 % Wilson interval; all None where n is 0."""

    k: int
    n: int
    mean: float | None
    low: float | None
    high: float | None


def share(k: int, n: int) -> Share:
    """Raises ValueError for k outside 0..n (from `stats.wilson`)."""
    if n == 0:
        return Share(0, 0, None, None, None)
    low, high = wilson(k, n)
    return Share(k, n, k / n, low, high)


@dataclass(slots=True)
class Tally:
    """What one prompt set did on one split. `won`: one entry per (task, rollout), None = infrastructure."""

    prompt_set: str
    split: str
    won: dict[str, bool | None] = field(default_factory=dict)
    scores: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    first_round: int = 0

    @property
    def success(self) -> Share:
        """Over scored episodes: infrastructure errors are left out."""
        scored = [w for w in self.won.values() if w is not None]
        return share(sum(scored), len(scored))

    @property
    def errors(self) -> int:
        return sum(w is None for w in self.won.values())

    @property
    def with_errors(self) -> Share:
        """The same with every infrastructure error counted as not solved."""
        return share(self.success.k, len(self.won))

    @property
    def mean_score(self) -> float | None:
        n = self.success.n
        return self.scores / n if n else None

    @property
    def mean_steps(self) -> float | None:
        n = self.success.n
        return self.steps / n if n else None

    def by_type(self, types: Mapping[str, str]) -> dict[str, Share]:
        """Success per task type, in order of name."""
        solved: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for key, won in self.won.items():
            if won is not None:
                kind = types.get(key.rsplit("#", 1)[0], "unknown")
                solved[kind] += won
                total[kind] += 1
        return {k: share(solved[k], total[k]) for k in sorted(total)}

    def macro(self, types: Mapping[str, str]) -> float | None:
        """Mean of the types' success, each type counting once however many tasks it has."""
        means = [s.mean for s in self.by_type(types).values() if s.mean is not None]
        return sum(means) / len(means) if means else None

    def add(self, trajectory: Trajectory) -> None:
        """Count one episode. Outside training a (task, rollout) played again counts once, the first time."""
        key = f"{trajectory.task}#{trajectory.rollout}"
        if trajectory.split == "train":
            key = f"{trajectory.task}#{trajectory.round}.{trajectory.prompt_set}.{trajectory.rollout}"
        if key in self.won:
            return
        if not self.won:
            self.first_round = trajectory.round
        if not trajectory.outcome.scored:
            self.won[key] = None
            return
        self.won[key] = trajectory.solved
        self.scores += trajectory.score
        self.steps += len(trajectory.steps)
        self.seconds += trajectory.seconds


@dataclass(slots=True)
class Moves:
    """Steps of one split: how many were not admissible, and how many carried no prediction."""

    steps: int = 0
    invalid: int = 0
    without_prediction: int = 0

    def add(self, trajectory: Trajectory) -> None:
        for step in trajectory.steps:
            self.steps += 1
            self.invalid += not step.valid
            self.without_prediction += not any(p and p.strip() for p in step.predictions)


@dataclass(frozen=True, slots=True)
class Spend:
    """Calls of one role to one model. An `unknown_*` counts calls for which the server or the price list
    said nothing; they are in no sum. `lost`: paid for and not usable, included in `calls`; `failed`: requests
    that brought no reply; `unread`: those counted in both, which may have been charged or not."""

    role: str
    model: str
    calls: int
    lost: int
    failed: int
    input: int
    output: int
    cached: int
    dollars: float
    seconds: float
    unknown_tokens: int
    unknown_dollars: int
    unread: int = 0


@dataclass(slots=True)
class Facts:
    """All counts of one run, in the order in which the report shows them."""

    finished: bool
    torn: dict[str, int]
    task_types: dict[str, str]
    task_counts: Counter[str]
    tallies: dict[tuple[str, str], Tally]
    outcomes: dict[str, Counter[tuple[str, str]]]
    moves: dict[str, Moves]
    arms: dict[str, Tally]
    train_rounds: dict[int, dict[str, Tally]]
    fixed: dict[str, tuple[str, int]]  # mode -> (prompt set, round) that last got over it
    spend: list[Spend]
    modes: dict[int, Counter[str]]
    rounds: list[dict[str, Any]]
    candidates: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    notes: list[str]
    start: dict[str, Any]
    final: dict[str, Any]
    errors: list[str]
    broken: str = ""  # the first infrastructure error
    in_progress: list[str] = field(default_factory=list)  # episodes that were begun and have no end
    systems: dict[str, str] = field(default_factory=dict)  # of an evaluation: prompt set -> system
    suite: dict[str, Any] = field(default_factory=dict)  # of an evaluation: what is played
    modelless: set[str] = field(default_factory=set)  # prompt sets of what plays without a model
    model_moves: Moves = field(default_factory=Moves)  # over all splits, of a model's episodes alone
    verdict: str = ""  # what an evaluation found, in words


def _events(events: Iterable[Event]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for event in map(checked, events):
        found.setdefault(event.kind, []).append({"key": event.key, **event.data})
    return found


def _spend(run: Run) -> list[Spend]:
    """What the ledger rebuilds from the run's tables, so that report and caps can't disagree."""
    seconds: Counter[tuple[str, str]] = Counter()
    paid: dict[str, bool] = {}
    for call in run.calls:
        key = (call.request.role, call.model)
        seconds[key] += call.reply.seconds  # type: ignore[assignment]
        paid[call.model] = paid.get(call.model, False) or call.reply.usage.dollars != 0.0
    for event in run.dispatched:
        checked(event)
    ledger = Ledger(run.config.budget)
    # A model whose every call cost nothing is a free one: a call of it that was lost cost nothing either.
    ledger.rebuild(run, {model: None if costs else FREE for model, costs in paid.items()})
    rows = [
        Spend(r.role, r.model, r.calls, r.lost, r.failed, r.input, r.output, r.cached,
              round(r.known_dollars, 12), float(seconds[(r.role, r.model)]), r.unknown, r.unpriced,
              r.unread)
        for r in ledger.snapshot().rows
    ]  # fmt: skip
    # Rounded above, for calls are added in the order of their replies, which is another with more workers.
    order = {role: i for i, role in enumerate(ROLES)}
    return sorted(rows, key=lambda s: (order.get(s.role, 9), s.model))  # type: ignore[call-overload]


def _in_progress(run: Run) -> list[str]:
    """Ids of episodes that a stop left unfinished, in the order of their first calls."""
    begun: dict[str, None] = {}
    for call in run.calls:
        found = _EPISODE.match(call.request.sample) if call.request.role == "agent" else None
        if found and found[0] not in begun:
            begun[found[0]] = None
    return [name for name in begun if name not in run.trajectories]


def _round_of(trajectory_id: str) -> int:
    head = trajectory_id.split("/", 1)[0]
    return int(head) if head.lstrip("-").isdigit() else 0


def gather(run: Run) -> Facts:
    """Every count of `run`, from its tables alone. Reads each table once."""
    types: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for task in run.tasks:
        types[task.id] = family_of(task)
        counts[task.split] += 1
    tallies: dict[tuple[str, str], Tally] = {}
    outcomes: dict[str, Counter[tuple[str, str]]] = {}
    moves: dict[str, Moves] = {}
    arms: dict[str, Tally] = {}
    by_round: dict[int, dict[str, Tally]] = {}
    errors: list[tuple[int, str, str]] = []
    broken: tuple[int, str, str] | None = None
    modelless: set[str] = set()
    model_moves = Moves()
    for t in run.trajectories:
        if t.model:
            model_moves.add(t)
        else:
            modelless.add(t.prompt_set)
        tallies.setdefault((t.prompt_set, t.split), Tally(t.prompt_set, t.split)).add(t)
        outcomes.setdefault(t.split, Counter())[(t.outcome.kind, t.outcome.reason)] += 1
        moves.setdefault(t.split, Moves()).add(t)
        if t.split == "train":
            of_round = by_round.setdefault(t.round, {})
            of_round.setdefault(t.prompt_set, Tally(t.prompt_set, "train")).add(t)
            arms.setdefault(t.arm, Tally("", "train")).add(t)
        if t.error:  # by round and name, for who ends first is another with more workers
            last = (t.error.strip().splitlines() or [""])[-1]
            errors = sorted([*errors, (t.round, t.id, last)])[:5]
            if not t.outcome.scored:
                broken = min(broken or (t.round, t.id, last), (t.round, t.id, last))
    modes: dict[int, Counter[str]] = {}
    for diagnosis in run.diagnoses:
        modes.setdefault(_round_of(diagnosis.trajectory), Counter())[diagnosis.mode] += 1
    events = _events(run.events)
    return Facts(
        finished=run.status == "finished",
        torn=run.torn,
        task_types=types,
        task_counts=counts,
        tallies=tallies,
        outcomes=outcomes,
        moves=moves,
        arms=arms,
        train_rounds=dict(sorted(by_round.items())),
        fixed={
            str(e.get("mode")): (str(e.get("prompt_set")), int(e.get("round", 0)))
            for e in events.get("fixed", [])
        },
        spend=_spend(run),
        modes=dict(sorted(modes.items())),
        rounds=sorted(events.get("round", []), key=lambda d: int(d.get("round", 0))),
        candidates=events.get("candidate", []),
        sessions=events.get("session", []),
        notes=[str(e.get("text", "")) for e in events.get("note", [])],
        start=(events.get("start") or [{}])[0],
        final=(events.get("final") or [{}])[-1],
        errors=[f"{id}: {last}" for _, id, last in errors],
        broken=broken[2] if broken is not None else "",
        in_progress=[] if run.status == "finished" else _in_progress(run),
        systems={str(e.get("prompt_set")): str(e.get("system")) for e in events.get("system", [])},
        suite=(events.get("suite") or [{}])[0],
        modelless=modelless,
        model_moves=model_moves,
    )
