"""AIW's curriculum as a sampler: which rows of a data set a trainer takes next, by what it failed at.

Owns the order of indices and what becomes of outcomes. The formulas are aiw's (spec section 3, rule 6).
Leaves out playing. Imports no torch: torch's DataLoader takes any iterable with a length for its sampler.

The rules. A round draws distinct tasks, each in proportion to its p. Then its outcomes count: what stands of
earlier counts fades, a task that was solved every time is halved, a task that failed counts once, and so do
up to `TAKE` others that share its failure: those on which the failure's mode was seen before, where the mode
is known (told by the caller, or by the diagnoses of a run), else those of its family, drawn evenly. A trainer
fetches a batch ahead, so a round may be drawn before the outcomes of the one before it are in: they count
from the next draw on. One process: several would learn different things and part.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from roleagent_lite.aiw.atlas import Atlas
from roleagent_lite.aiw.curriculum import Curriculum
from roleagent_lite.aiw.retrieve import TAKE
from roleagent_lite.distill.worlds import pick, training
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from roleagent_lite.tasksets import family_of
from roleagent_lite.types import Task


class CurriculumSampler:
    """Indices of rows; each row is of one of `tasks`, all of split train.

    rows: the task id of each row of the data set; None: one row a task, in their order. Of a drawn task with
    several rows one is drawn evenly. batch: draws a round, of distinct tasks as long as there are any;
    repeat: times each stands in it; passes: times a round comes again (see `for_trl`). rounds: how many an
    iteration has; 0 = as many as go once over the tasks. rho, decay: as in `[aiw]`. modes: failure mode ->
    tasks on which it was seen. Raises RoleAgentError for no tasks, one of another split, one without a row,
    or numbers under 1.
    """

    def __init__(
        self, tasks: Sequence[Task], rows: Sequence[str] | None = None, *, batch: int, repeat: int = 1,
        passes: int = 1, rounds: int = 0, rho: float = 0.3, decay: float = 0.9, seed: int = 0,
        modes: Mapping[str, Iterable[str]] | None = None,
    ) -> None:  # fmt: skip
        if min(batch, repeat, passes) < 1 or rounds < 0:
            raise RoleAgentError("batch, repeat and passes of a sampler are whole numbers from 1 on")
        self._tasks = training(tasks)
        self._places: dict[str, list[int]] = {}
        for place, id in enumerate(rows if rows is not None else self._tasks):
            self._places.setdefault(pick(self._tasks, id).id, []).append(place)
        bare = [id for id in self._tasks if id not in self._places]
        if bare:
            raise RoleAgentError(f"no row is of the task '{bare[0]}'")
        self.curriculum = Curriculum.start(self._tasks, rho, decay, seed)
        self.batch, self.repeat, self.passes = batch, repeat, passes
        self.rounds = rounds or -(-len(self._tasks) // batch)
        self.draws = 0  # of distinct tasks, so far
        self.learned = 0  # calls of `learn` so far
        self._modes = {name: set(ids) & set(self._tasks) for name, ids in (modes or {}).items()}

    @classmethod
    def of(
        cls, run: Run, tasks: Sequence[Task], rows: Sequence[str] | None = None, **numbers: int
    ) -> CurriculumSampler:
        """Goes on from the counts and the failure modes of a run of `evolve`, where `tasks` are in it.

        numbers: batch, repeat, passes, rounds.
        """
        aiw, seed, atlas = run.config.aiw, run.config.seed, Atlas.from_run(run)
        seen = {mode.name: atlas.tasks_of(mode.name) for mode in atlas.modes()}
        made = cls(
            tasks, rows, rho=aiw.rho, decay=aiw.decay, seed=seed, modes=seen,
            batch=numbers.pop("batch"), **numbers,
        )  # fmt: skip
        rounds = [event.data for event in run.events if event.kind == "curriculum"]
        if rounds:
            counts = max(rounds, key=lambda data: int(data["round"]))["counts"]
            kept = tuple(float(counts.get(id, 0.0)) for id in made.curriculum.task_ids)
            made.curriculum = replace(made.curriculum, counts=kept)
        return made

    def state_dict(self) -> dict[str, Any]:
        """What it has learned and drawn, as plain data; whoever saves the trainer saves this beside it."""
        counts = dict(zip(self.curriculum.task_ids, self.curriculum.counts, strict=True))
        modes = {name: sorted(ids) for name, ids in self._modes.items()}
        return {"counts": counts, "draws": self.draws, "learned": self.learned, "modes": modes}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state_dict` of a sampler over the same tasks. Raises KeyError for another's."""
        counts = tuple(float(state["counts"][id]) for id in self.curriculum.task_ids)
        self.curriculum = replace(self.curriculum, counts=counts)
        self.draws, self.learned = int(state["draws"]), int(state["learned"])
        self._modes = {name: set(ids) for name, ids in state["modes"].items()}

    def __len__(self) -> int:
        return self.rounds * self.batch * self.repeat * self.passes

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.rounds):
            drawn = self._drawn()
            for _ in range(self.passes):
                for place in drawn:
                    yield from [place] * self.repeat

    def _drawn(self) -> list[int]:
        places: list[int] = []
        while len(places) < self.batch:
            self.draws += 1
            drawer = random.Random(f"{self.curriculum.seed}/{self.draws}/rows")
            ids = self.curriculum.draw(self.batch - len(places), self.draws)
            places += [drawer.choice(self._places[id]) for id in ids]
        return places

    def learn(
        self, tasks: Sequence[str], solved: Sequence[bool], modes: Sequence[str | None] | None = None
    ) -> None:
        """The outcomes of a round: one entry an episode. modes: what each failure was, where that is known.

        Raises RoleAgentError for a task that is unknown.
        """
        every: dict[str, bool] = {}
        named: dict[str, set[str]] = {}
        for id, won, mode in zip(tasks, solved, modes or [None] * len(tasks), strict=True):
            task = pick(self._tasks, id).id
            every[task] = every.get(task, True) and bool(won)
            if mode and not won:
                named.setdefault(task, set()).add(mode)
                self._modes.setdefault(mode, set()).add(task)
        self.learned += 1
        failed = sorted(task for task, won in every.items() if not won)
        chosen = [*failed, *self._alike(failed, named)]
        self.curriculum = self.curriculum.update(chosen, [task for task, won in every.items() if won])

    def _alike(self, failed: Sequence[str], named: Mapping[str, set[str]]) -> list[str]:
        """Up to TAKE tasks a failure mode; a family's where no mode of a failure leads to another task."""
        pools: dict[str, list[str]] = {}
        for task in failed:
            modes = named.get(task) or {name for name, ids in self._modes.items() if task in ids}
            found = {f"mode {mode}": sorted(self._modes[mode] - set(failed)) for mode in modes}
            if not any(found.values()):
                family = family_of(self._tasks[task])
                others = [i for i, t in self._tasks.items() if family_of(t) == family and i not in failed]
                found = {f"family {family}": others}
            pools |= found
        out: list[str] = []
        for name, ids in sorted(pools.items()):
            drawer = random.Random(f"{self.curriculum.seed}/{self.learned}/{name}")
            out += drawer.sample(ids, min(TAKE, len(ids)))
        return out


class Numbers(TypedDict):
    """How a trainer takes its rows; see `CurriculumSampler`."""

    batch: int
    repeat: int
    passes: int


def for_trl(arguments: Any) -> Numbers:
    """batch, repeat and passes as a GRPOConfig of TRL 1.14 wants them: whole groups, in TRL's order."""
    return {
        "batch": arguments.generation_batch_size // arguments.num_generations,
        "repeat": arguments.num_generations,
        "passes": arguments.num_iterations * arguments.steps_per_generation,
    }


class Learning:
    """A TRL reward function that gives what `reward` gives, and tells `sampler` how each batch went.

    Its rows have the column `task`. With `worlds` an episode counts as solved where its world says so;
    without them a completion counts as solved that earned more than 0. One without a reward says nothing.
    """

    def __init__(self, reward: Callable[..., list[float | None]], sampler: CurriculumSampler) -> None:
        self.reward, self.sampler = reward, sampler
        self.__name__ = getattr(reward, "__name__", type(reward).__name__)

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], *, task: Sequence[str], **row: Any
    ) -> list[float | None]:
        earned = self.reward(prompts, completions, task=task, **row)
        played = row.get("environments") or [None] * len(earned)
        counted = [
            (name, world.solved if world is not None else reward > 0)
            for name, reward, world in zip(task, earned, played, strict=True)
            if reward is not None
        ]
        if counted:
            self.sampler.learn([name for name, _ in counted], [solved for _, solved in counted])
        return earned
