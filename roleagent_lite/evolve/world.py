"""Agent-In-World inside the loop: the draw, what the failures of a round teach, and the next curriculum.

Owns the state that passes from round to round: curriculum, atlas, diagnoses, what retrieval chose. Leaves
out every rule of it (aiw).
"""

from __future__ import annotations

from collections.abc import Sequence

from roleagent_lite.aiw.atlas import Atlas
from roleagent_lite.aiw.curriculum import Curriculum
from roleagent_lite.aiw.diagnose import DIAGNOSERS
from roleagent_lite.aiw.retrieve import RETRIEVERS
from roleagent_lite.aiw.round import aiw_round, note_fixed
from roleagent_lite.aiw.vocabulary import GENERAL, Vocabulary, load_vocabulary, make_vocabulary
from roleagent_lite.ask import Asker
from roleagent_lite.config import Aiw, RunConfig
from roleagent_lite.content import room
from roleagent_lite.embed import make_embedder
from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.evolve.played import Played
from roleagent_lite.memory import Memory
from roleagent_lite.store import Run
from roleagent_lite.types import Diagnosis, Embedder, Listener, PromptSet, Task, Trajectory


def vocabulary_of(env: str) -> Vocabulary:
    """The failure modes of an environment: its own, else those shipped under its name, else the general ones.

    Raises ConfigError for an unknown environment, or one whose own are wrong.
    """
    own = registry.spec(env).failure_modes
    if own:
        return make_vocabulary(env, own, f"environment {env}, failure_modes")
    name = env.partition(":")[0]
    shipped = room("tasks") / "vocabularies" / f"{name}.toml"
    return load_vocabulary(name if shipped.is_file() else GENERAL)


SEARCHING = ("llm", "vector", "task_text")  # retrievers that search the catalogue


def _embedder(aiw: Aiw, run: Run, listener: Listener | None) -> Embedder | None:
    """The embedder of the config, none where nothing is searched; `auto` stays what it was at the start."""
    name = aiw.embedder if aiw.retrieve in SEARCHING and aiw.diagnose != "none" else "none"
    before = run.events.get("embedder")
    if before is not None:
        return make_embedder(before.data["name"], listener)
    made = make_embedder(name, listener)
    if name == "auto":
        name = "none" if made is None else made.name.partition("@")[0]
    run.record("embedder", "embedder", {"name": name})
    return made


class World:
    """The world's half of one run. `diagnoses` by trajectory id; `related`: what the last round retrieved.

    Raises ConfigError for an unknown name of `aiw.diagnose` or `aiw.retrieve`.
    """

    def __init__(
        self, config: RunConfig, run: Run, asker: Asker, train: Sequence[Task], listener: Listener | None
    ) -> None:
        for setting, name, names in (
            ("diagnose", config.aiw.diagnose, sorted(DIAGNOSERS)),
            ("retrieve", config.aiw.retrieve, sorted(RETRIEVERS)),
        ):
            if name not in names:
                raise ConfigError(f"setting aiw.{setting} is '{name}'{nearest(name, names)}")
        self._config = config
        self._run = run
        self._asker = asker
        self._listener = listener
        self._tasks = {task.id: task for task in train}
        self._vocabularies = {env: vocabulary_of(env) for env in {task.env for task in train}}
        self._atlas = Atlas(Memory(run.dir / "memory", _embedder(config.aiw, run, listener)))
        self._curriculum = Curriculum.start(self._tasks, config.aiw.rho, config.aiw.decay, config.seed)
        self._played: list[Trajectory] = []
        self.diagnoses: dict[str, Diagnosis] = {}
        self.related: tuple[str, ...] = ()

    def task(self, id: str) -> Task:
        return self._tasks[id]

    def draw(self, round: int) -> list[str]:
        """Ids of the tasks of a round, and the event `round/K` with the probabilities they were drawn by."""
        drawn = self._curriculum.draw(self._config.evolve.tasks_per_round, round)
        counts = dict(zip(self._curriculum.task_ids, self._curriculum.counts, strict=True))
        data = {
            "round": round,
            "drawn": drawn,
            "p": self._curriculum.probabilities(),
            "counts": {id: count for id, count in counts.items() if count},
        }
        self._run.record(f"round/{round}", "round", data)
        return drawn

    async def learn(self, played: Sequence[Played], round: int) -> None:
        """Diagnose the failures just played. Raises RoleAgentError for an episode of dev or test."""
        trajectories = [t for group in played for t in group.trajectories]
        self._played += trajectories
        found = await DIAGNOSERS[self._config.aiw.diagnose](
            self._asker,
            None,
            trajectories,
            self._tasks,
            self._vocabularies,
            run=self._run,
            workers=self._config.workers,
            round=round,
            listener=self._listener,
        )
        self.diagnoses |= {diagnosis.trajectory: diagnosis for diagnosis in found}

    async def end_round(self, round: int, accepted: PromptSet | None) -> None:
        """The atlas takes the round's failures, retrieval chooses what shares them, the curriculum turns."""
        played, self._played = self._played, []
        done = await aiw_round(
            round,
            played,
            tasks=list(self._tasks.values()),
            atlas=self._atlas,
            curriculum=self._curriculum,
            asker=self._asker,
            prompt_set=None,
            vocabularies=self._vocabularies,
            run=self._run,
            listener=self._listener,
        )
        self._curriculum = done.curriculum
        self.related = tuple(dict.fromkeys(c.task_id for c in done.chosen if not c.own))
        if accepted is not None:
            note_fixed(round, played, accepted.id, atlas=self._atlas, run=self._run)
