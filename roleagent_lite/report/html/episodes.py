"""The episodes of a run inside the page: a list of all, and the steps of as many as fit.

Owns the order in which episodes are kept, the cap, and the compact records that the page's script reads.
Blocks are JSON, packed by gzip, in base64: nothing in them can end a script element, and a block is unpacked
only when one of its episodes is opened. Rows are read one by one; what stays in memory is one short entry an
episode and one block. Leaves out the page (page) and the drawing (episode.js).
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import roleagent_lite.wia.align as align
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.redact import harmless, visible
from roleagent_lite.report.html.piece import shown
from roleagent_lite.report.markdown import cut
from roleagent_lite.store import Run
from roleagent_lite.tasksets import family_of
from roleagent_lite.types import Credit, Diagnosis, Step, Trajectory

MOST_BYTES = 16_000_000  # of base64 in the page; 20,000 household episodes of 8 steps take 7
BLOCK = 300_000  # characters of JSON in one block, before packing
LONG = 20_000  # characters kept of one text
ACTIONS = 500  # admissible actions kept of one step
_ESCAPES = re.compile(r"\\[bfru]")  # how JSON writes control characters, and backslashes before such letters
SPLITS = ("test", "dev", "train")
RULE = (
    "failures on the sealed test tasks first, then the other sealed episodes, then dev and training, "
    "failures first and the newest training rounds first"
)


def safe_json(data: Any) -> str:
    """JSON of plain data with every text in it as `shown` gives it.

    Looks at the whole first: a run's texts are many and seldom hold anything to change.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if harmless(text) and visible(text) == text and not _ESCAPES.search(text):
        return text
    return json.dumps(_shown(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {key: _shown(v) for key, v in value.items()}  # the keys are this file's own
    return [_shown(v) for v in value] if isinstance(value, list | tuple) else value


def pack(text: str) -> str:
    """`text` gzipped, in base64; the same text gives the same result."""
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 6, mtime=0)).decode("ascii")


def block(name: str, text: str) -> str:
    """A script element that is data, never run."""
    return f'<script type="application/octet-stream" id="{name}">{pack(text)}</script>\n'


def _text(text: str) -> str:
    return text if len(text) <= LONG else f"{text[:LONG]}… [{len(text) - LONG:,} more characters]"


def step_record(steps: tuple[Step, ...], t: int, credit: Credit | None) -> dict[str, Any]:
    """Step `t` (from 0). Missing keys: the observation is what the step before brought, valid, nothing said.

    o observation, a action, y thought, w the reply as written, m admissible actions, n how many more,
    x not admissible, r reward of the environment, z what came, p predictions (null = none), q alignment by
    h, g the part of a long page that a prediction was compared with (by h), c [modulated reward, R_pre,
    R_task, advantage, state advantage].
    """
    step = steps[t]
    out: dict[str, Any] = {"a": _text(step.action), "z": _text(step.outcome)}
    if t == 0 or step.observation != steps[t - 1].outcome:
        out["o"] = _text(step.observation)
    if step.thought.strip():
        out["y"] = _text(step.thought)
    if step.said.strip() not in ("", step.action.strip()):
        out["w"] = _text(step.said)
    if step.admissible:
        out["m"] = [_text(a) for a in step.admissible[:ACTIONS]]
        if len(step.admissible) > ACTIONS:
            out["n"] = len(step.admissible) - ACTIONS
    if not step.valid:
        out["x"] = 1
    if step.reward:
        out["r"] = step.reward
    if any(p and p.strip() for p in step.predictions):
        out["p"] = [_text(p) if p and p.strip() else None for p in step.predictions]
        goals = {h: align.target_of(steps, t, h) for h in range(1, len(step.predictions) + 1)}
        parts = {str(h): _text(goal.text) for h, goal in goals.items() if goal is not None and goal.cut}
        if parts:
            out["g"] = parts
    if credit is not None and t < len(credit.reward):
        if any(v is not None for v in credit.alignment[t]):
            out["q"] = [None if v is None else round(v, 3) for v in credit.alignment[t]]
        of_step = (
            credit.reward,
            credit.predictive,
            credit.task_return,
            credit.advantage,
            credit.state_advantage,
        )
        out["c"] = [round(row[t], 4) for row in of_step]
    return out


def record(trajectory: Trajectory, credit: Credit | None, diagnosis: Diagnosis | None) -> dict[str, Any]:
    """One episode for the page; see `step_record` for its steps."""
    out: dict[str, Any] = {
        "id": trajectory.id,
        "model": trajectory.model,
        "arm": trajectory.arm,
        "max": trajectory.max_steps,
        "seconds": round(trajectory.seconds, 1),
        "steps": [step_record(trajectory.steps, t, credit) for t in range(len(trajectory.steps))],
    }
    if trajectory.error:
        out["error"] = _text(trajectory.error)
    if credit is not None:
        out["advantage"] = round(credit.episode_advantage, 4)
    if diagnosis is not None:
        texts = (diagnosis.mode, diagnosis.detail, diagnosis.lesson, diagnosis.query)
        out["diagnosis"] = [*(_text(x) for x in texts), diagnosis.critical_step]
        if diagnosis.shared_from:
            out["shared"] = diagnosis.shared_from
    return out


def order(trajectory: Trajectory) -> tuple[int, int, bool]:
    """What is kept first sorts first; see RULE."""
    rank = SPLITS.index(trajectory.split) if trajectory.split in SPLITS else len(SPLITS)
    return rank, -trajectory.round if rank == 2 else 0, trajectory.solved


def by_round(id: str) -> tuple[int, str]:
    """Sorts ids of trajectories (`round/promptset8/task#rollout`), rounds as numbers."""
    round = id.partition("/")[0]
    return int(round) if round.isdecimal() else 0, id


@dataclass(slots=True)
class _Names:
    """Texts by number, in order of appearance."""

    of: dict[Any, int] = field(default_factory=dict)

    def number(self, name: Any) -> int:
        return self.of.setdefault(name, len(self.of))


@dataclass(slots=True)
class Kept:
    """How many episodes there are, and how many have their steps in the page, by (split, solved)."""

    total: Counter[tuple[str, bool]] = field(default_factory=Counter)
    inside: Counter[tuple[str, bool]] = field(default_factory=Counter)

    def words(self, run: str) -> str:
        """One or two sentences; says what was left out, by which rule, and how to see it."""
        total, inside = sum(self.total.values()), sum(self.inside.values())
        if total == inside:
            return f"The steps of all {total:,} episodes are in this page." if total else ""
        out = ", ".join(
            f"{self.total[key] - self.inside[key]:,} {key[0]} ({'solved' if key[1] else 'not solved'})"
            for key in sorted(self.total, key=lambda k: (SPLITS.index(k[0]) if k[0] in SPLITS else 9, k[1]))
            if self.total[key] > self.inside[key]
        )
        return (
            f"All {total:,} episodes are listed; the steps of {inside:,} are in this page, chosen in this "
            f"order: {RULE}. "
            f"Left out: {out}. See one with: roleagent-lite show {shlex.quote(run)} EPISODE"
        )


class Episodes:
    """Writes the blocks of one run, then the list. One use: `blocks()`, after it `listing()`.

    names: what prompt sets are called; `word`: what they are called all together (prompt, system).
    """

    def __init__(
        self, run: Run, names: Mapping[str, str], most: int = MOST_BYTES, word: str = "prompt"
    ) -> None:
        self.kept = Kept()
        self._run, self._called, self._most, self._word = run, names, most, word
        self._tasks, self._prompts, self._ends, self._modes = _Names(), _Names(), _Names(), _Names()
        self._keys = sorted(run.trajectories.keys(), key=by_round)
        self._rows: list[list[Any]] = []
        self._place: dict[int, tuple[int, int]] = {}
        self._order: list[tuple[tuple[int, int, bool], int]] = []

    def _read(self) -> None:
        """The row of each trajectory in the list, by id, and the order in which they are kept."""
        run = self._run
        for task in run.tasks:
            self._tasks.number(task.id)
        for i, t in enumerate(map(self._trajectory, self._keys)):
            diagnosis = run.diagnoses.get(t.id)
            end = (t.outcome.kind, cut(t.outcome.reason, 120))
            self._rows.append(
                [
                    t.id, self._tasks.number(t.task), SPLITS.index(t.split) if t.split in SPLITS else 2,
                    self._prompts.number(t.prompt_set), t.round, t.rollout, self._ends.number(end),
                    len(t.steps), round(t.score, 4), self._foresight(t),
                    sum(not s.valid for s in t.steps),
                    -1 if diagnosis is None else self._modes.number(diagnosis.mode),
                ]
            )  # fmt: skip
            self._order.append((order(t), i))
            self.kept.total[t.split, t.solved] += 1
        self._order.sort()

    def _trajectory(self, key: str) -> Trajectory:
        found = self._run.trajectories.get(key)
        if found is None:
            raise RoleAgentError(f"{self._run.trajectories.path} changed while the report was written")
        return found

    def _foresight(self, trajectory: Trajectory) -> float | None:
        credit = self._run.credits.get(trajectory.id)
        values = [v for row in credit.alignment for v in row if v is not None] if credit is not None else []
        return round(sum(values) / len(values), 3) if values else None

    def blocks(self) -> Iterator[str]:
        """Script elements `c0`, `c1`, ... until everything or `most` bytes are in the page."""
        self._read()
        run = self._run
        waiting: list[tuple[int, tuple[str, bool], str]] = []
        size = written = number = 0
        for position, (_, i) in enumerate(self._order, 1):
            trajectory = self._trajectory(self._keys[i])
            data = record(trajectory, run.credits.get(trajectory.id), run.diagnoses.get(trajectory.id))
            text = safe_json(data)
            waiting.append((i, (trajectory.split, trajectory.solved), text))
            size += len(text)
            if size < BLOCK and position < len(self._order):
                continue
            whole = block(f"c{number}", f"[{','.join(text for _, _, text in waiting)}]")
            if written + len(whole) > self._most:
                return
            for place, (j, kind, _) in enumerate(waiting):
                self._place[j] = (number, place)
                self.kept.inside[kind] += 1
            waiting.clear()
            size, written, number = 0, written + len(whole), number + 1
            yield whole

    def listing(self) -> str:
        """The script element `list`: columns of all episodes, and the names that they point to by number."""
        run = self._run
        tasks: list[list[Any]] = []
        for name in self._tasks.of:
            task = run.tasks.get(name)
            goal = cut(task.goal, 240) if task is not None else ""
            split = task.split if task is not None and task.split in SPLITS else "train"
            kind = family_of(task) if task is not None else "unknown"
            tasks.append([name, kind, SPLITS.index(split), goal])
        rows = [[*row, *self._place.get(i, (-1, -1))] for i, row in enumerate(self._rows)]
        return block(
            "list",
            safe_json(
                {
                    "run": run.name,
                    "words": self.kept.words(run.name),
                    "word": self._word,
                    "tasks": tasks,
                    "prompts": [[p, self._called.get(p, p[:8])] for p in self._prompts.of],
                    "ends": [[kind, reason] for kind, reason in self._ends.of],
                    "modes": list(self._modes.of),
                    "rows": rows,
                }
            ),
        )
