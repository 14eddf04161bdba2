"""The atlas: the library of failure modes, and the catalogue of training tasks that it is searched for.

Owns what is known of each mode (spec section 3, paragraph 4) and what a catalogue row says. Everything here
is computed from the run's tables (tasks, trajectories, diagnoses, events), which are the truth; the store
behind `memory` is an index that each round writes afresh, so that the same rows give the same hits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from roleagent_lite.aiw.transcript import clip
from roleagent_lite.errors import RoleAgentError, nearest
from roleagent_lite.memory import Hit, Item, Memory
from roleagent_lite.store import Run
from roleagent_lite.types import Diagnosis, FailureMode, Task, Trajectory

TABLE = "catalogue"
FIXED = "fixed"  # kind of the event that says a mode was got over
REFLECTIONS = 3  # of a task, newest first, in its catalogue row
_WORDS = 40  # of one reflection there


@dataclass(frozen=True, slots=True)
class Entry:
    """One failed episode under its mode."""

    round: int
    trajectory: str
    task: str
    mode: str
    detail: str
    lesson: str
    query: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A prompt set under which every task that a mode was seen on, and that was played, was solved."""

    round: int
    mode: str
    prompt_set: str


class Atlas:
    """memory None: modes only, nothing can be searched (for readers of a finished run)."""

    def __init__(self, memory: Memory | None) -> None:
        self.memory = memory
        self._entries: dict[str, Entry] = {}
        self._fixes: list[Fix] = []

    @classmethod
    def from_run(cls, run: Run, memory: Memory | None = None) -> Atlas:
        """The atlas as all rows of a run tell it. For readers: a resumed loop adds round by round instead,
        or its early rounds would know what only came later."""
        atlas = cls(memory)
        for diagnosis in run.diagnoses:
            trajectory = run.trajectories.get(diagnosis.trajectory)
            task = None if trajectory is None else run.tasks.get(trajectory.task)
            if trajectory is not None and task is not None:
                atlas.add(diagnosis, trajectory, task, trajectory.round)
        for event in run.events:
            if event.kind == FIXED and event.data["mode"] in atlas._names():
                atlas.mark_fixed(event.data["mode"], event.data["prompt_set"], event.data["round"])
        return atlas

    # --- writing ---

    def add(self, diagnosis: Diagnosis, trajectory: Trajectory, task: Task, round: int) -> None:
        """One failed episode goes under its mode; a second time changes nothing.

        Raises RoleAgentError for an episode of another split than train, or of another task.
        """
        if trajectory.split != "train" or task.split != "train":
            raise RoleAgentError(f"episode '{trajectory.id}': episodes of dev and test never enter the atlas")
        if diagnosis.trajectory != trajectory.id or trajectory.task != task.id:
            raise RoleAgentError(
                f"diagnosis of '{diagnosis.trajectory}', episode '{trajectory.id}' and task '{task.id}' "
                "do not belong together"
            )
        self._entries.setdefault(
            trajectory.id,
            Entry(
                round,
                trajectory.id,
                task.id,
                diagnosis.mode,
                diagnosis.detail,
                diagnosis.lesson,
                diagnosis.query,
            ),
        )

    def mark_fixed(self, mode: str, prompt_set: str, round: int) -> None:
        """A candidate got over a mode in this round; a later sighting reopens it."""
        if mode not in self._names():
            raise RoleAgentError(f"the atlas has no failure mode '{mode}'{nearest(mode, self._names())}")
        fix = Fix(round, mode, prompt_set)
        if fix not in self._fixes:
            self._fixes.append(fix)

    # --- reading ---

    def _names(self) -> set[str]:
        return {e.mode for e in self._entries.values()}

    def entries(self, mode: str | None = None) -> list[Entry]:
        """Episodes by round and id, of one mode or of all."""
        found = [e for e in self._entries.values() if mode in (None, e.mode)]
        return sorted(found, key=lambda e: (e.round, e.trajectory))

    def modes(self) -> list[FailureMode]:
        """Every mode, most evidence first, then by name.

        `rule`: the lesson of its newest episode; `fixed_by`: the last prompt set that got over it, unless
        the mode was seen again in a later round.
        """
        found = [self._mode(name) for name in self._names()]
        return sorted(found, key=lambda m: (-len(m.evidence), m.name))

    def _mode(self, name: str) -> FailureMode:
        seen = self.entries(name)
        fixes = [f for f in self._fixes if f.mode == name and f.round >= seen[-1].round]
        return FailureMode(
            name=name,
            rule=seen[-1].lesson,
            evidence=tuple(e.trajectory for e in seen),
            first_seen=seen[0].round,
            last_seen=seen[-1].round,
            fixed_by=fixes[-1].prompt_set if fixes else None,
        )

    def reopened(self, mode: str) -> list[int]:
        """Rounds in which a mode came back after it had been fixed."""
        rounds = sorted({e.round for e in self.entries(mode)})
        back = {next((r for r in rounds if r > f.round), None) for f in self._fixes if f.mode == mode}
        return sorted(r for r in back if r is not None)

    def tasks_of(self, mode: str) -> list[str]:
        """Ids of the tasks on which a mode was seen, by id."""
        return sorted({e.task for e in self.entries(mode)})

    # --- the catalogue ---

    def index_tasks(self, tasks: Iterable[Task], reflections: bool = True) -> None:
        """Write the catalogue: one row a training task, its text the goal and the newest reflections on its
        failures (without `reflections` the goal alone: retrieval by task text). Texts that did not change
        keep their vectors. Raises RoleAgentError on dev or test tasks."""
        if self.memory is None:
            raise RoleAgentError("this atlas was opened for reading only: it has no memory store to index in")
        by_task: dict[str, list[Entry]] = {}
        for entry in self.entries() if reflections else ():
            by_task.setdefault(entry.task, []).append(entry)
        rows = []
        for task in tasks:
            if task.split != "train":
                raise RoleAgentError(
                    f"task '{task.id}' is of split {task.split}: the catalogue holds train only"
                )
            rows.append(_row(task, by_task.get(task.id, [])))
        self.memory.replace(TABLE, rows)

    def search(self, query: str, k: int, exclude: Collection[str] = ()) -> list[Hit]:
        """At most k catalogue rows, best first, without the excluded task ids; hybrid where there is an
        embedder, else by words."""
        return [] if self.memory is None else self.memory.search(TABLE, query, k, exclude=exclude)


def _row(task: Task, failed: Sequence[Entry]) -> Item:
    notes = dict.fromkeys(f"{e.mode}: {clip(e.lesson or e.detail, _WORDS)}" for e in reversed(failed))
    text = "\n".join([task.goal, *list(notes)[:REFLECTIONS]])
    modes = sorted({e.mode for e in failed})
    return Item(
        task.id, text, {"env": task.env, "failures": len(failed)}, {"goal": task.goal, "modes": modes}
    )


def fixed_modes(atlas: Atlas, trajectories: Sequence[Trajectory]) -> list[str]:
    """Modes that these episodes (of one accepted candidate) got over, by name.

    A mode counts where at least one task that it was seen on was played, and every scored episode of such
    tasks was solved.
    """
    played: Mapping[str, list[bool]] = _by_task(trajectories)
    fixed = []
    for mode in atlas.modes():
        results = [solved for task in atlas.tasks_of(mode.name) for solved in played.get(task, [])]
        if results and all(results) and mode.fixed_by is None:
            fixed.append(mode.name)
    return sorted(fixed)


def _by_task(trajectories: Sequence[Trajectory]) -> dict[str, list[bool]]:
    played: dict[str, list[bool]] = {}
    for trajectory in trajectories:
        if trajectory.outcome.scored:
            played.setdefault(trajectory.task, []).append(trajectory.solved)
    return played
