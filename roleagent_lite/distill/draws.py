"""Which training tasks the next update plays: AIW's curriculum, with retrieval by task family.

Owns the counts between updates and the events `round/K` and `curriculum/K`. The formulas are aiw's. Leaves
out playing.

No model reads the failures here: the one in training is too small to, and any other would have to be paid. So
a failed task counts once for itself and brings up to `TAKE` tasks of its own family (`tasksets.family_of`),
drawn evenly. Where a world names no families that is random replay.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict

from roleagent_lite.aiw.curriculum import Curriculum
from roleagent_lite.aiw.diagnose import failures
from roleagent_lite.aiw.retrieve import TAKE, Chosen
from roleagent_lite.aiw.round import mastered
from roleagent_lite.distill.recipe import Online
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from roleagent_lite.tasksets import family_of
from roleagent_lite.types import Task, Trajectory


class Draws:
    """The curriculum of one run over `train`, its training tasks. Raises RoleAgentError for any other."""

    def __init__(self, run: Run, train: Sequence[Task], settings: Online) -> None:
        odd = [t.id for t in train if t.split != "train"]
        if odd:
            raise RoleAgentError(f"task '{odd[0]}' is not of split train: nothing may be learned from it")
        self._run, self._settings = run, settings
        self._tasks = {task.id: task for task in train}
        self._curriculum = Curriculum.start(self._tasks, settings.rho, settings.decay, settings.seed)

    def draw(self, round: int) -> list[Task]:
        """The tasks of `round`, and its event."""
        drawn = self._curriculum.draw(self._settings.tasks, round)
        data = {
            "round": round, "drawn": drawn, "p": self._curriculum.probabilities(), "counts": self._counts(),
        }  # fmt: skip
        self._run.record(f"round/{round}", "round", data)
        return [self._tasks[id] for id in drawn]

    def learn(self, round: int, played: Sequence[Trajectory]) -> None:
        """The counts after `round`, and its event; a round whose event is there is taken from it."""
        saved = self._run.events.get(f"curriculum/{round}")
        if saved is not None:
            self.again(round)
            return
        chosen, solved = self._chosen(round, played), mastered(played)
        self._curriculum = self._curriculum.update([c.task_id for c in chosen], solved)
        data = {
            "round": round, "counts": self._counts(), "p": self._curriculum.probabilities(),
            "chosen": [asdict(c) for c in chosen], "solved": solved, "modes": [],
            "failures": len(failures(played)), "diagnosed": 0, "shared": 0, "dropped": {},
            "notes": ["retrieval by task family, without a model"],
        }  # fmt: skip
        self._run.record(f"curriculum/{round}", "curriculum", data)

    def again(self, round: int) -> None:
        """The counts after a recorded round. Raises RoleAgentError where it is not recorded."""
        saved = self._run.events.get(f"curriculum/{round}")
        if saved is None:
            raise RoleAgentError(
                f"run {self._run.dir} lacks the event curriculum/{round} of an update that its checkpoint has"
            )
        chosen = [row["task_id"] for row in saved.data["chosen"]]
        self._curriculum = self._curriculum.update(chosen, saved.data["solved"])

    def _chosen(self, round: int, played: Sequence[Trajectory]) -> list[Chosen]:
        failed = sorted({t.task for t in failures(played)})
        out = [Chosen(id, "failed", own=True) for id in failed]
        for name in sorted({family_of(self._tasks[id]) for id in failed}):
            others = [t.id for t in self._tasks.values() if family_of(t) == name and t.id not in failed]
            drawer = random.Random(f"{self._settings.seed}/{round}/{name}")
            taken = drawer.sample(others, min(TAKE, len(others)))
            out += [Chosen(id, f"of the family '{name}' of a failed task") for id in taken]
        return out

    def _counts(self) -> dict[str, float]:
        pairs = zip(self._curriculum.task_ids, self._curriculum.counts, strict=True)
        return {id: count for id, count in pairs if count}
