"""The three task sets of a run: which tasks are played for training, dev and the sealed test.

Owns that the three are disjoint and none is empty. Leaves out reading and choosing (tasksets).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import choose, content_id, file_hash, load_tasks, split_of
from roleagent_lite.types import Split, Task


@dataclass(frozen=True, slots=True)
class TaskSets:
    """`hash` is the task file's, so that a resumed run can tell that the file has changed."""

    train: tuple[Task, ...]
    dev: tuple[Task, ...]
    test: tuple[Task, ...]
    hash: str

    def of(self, split: Split) -> tuple[Task, ...]:
        return {"train": self.train, "dev": self.dev, "test": self.test}[split]

    @property
    def counts(self) -> dict[str, int]:
        return {"train": len(self.train), "dev": len(self.dev), "test": len(self.test)}


def check_disjoint(tasks: Sequence[Task]) -> None:
    """Raises ConfigError where two splits hold one task under two ids (equal env, goal, seed, params)."""
    seen: dict[str, Task] = {}
    for task in tasks:
        content = content_id(
            {"env": task.env, "goal": task.goal, "seed": task.seed, "params": dict(task.params)}
        )
        other = seen.setdefault(content, task)
        if other.split != task.split:
            raise ConfigError(
                f"tasks '{other.id}' ({other.split}) and '{task.id}' ({task.split}) are the same task; "
                "train, dev and test must be disjoint: remove one of the two rows"
            )


def task_sets(name: str, *, dev: int, test: int) -> TaskSets:
    """All training tasks, `dev` dev tasks and `test` test tasks of a task file (fewer where it has fewer).

    Raises ConfigError for a file that cannot be used, an empty split, or a task in two splits.
    """
    tasks = load_tasks(name, check=registry.check)
    check_disjoint(tasks)
    for split in ("train", "dev", "test"):
        if not any(task.split == split for task in tasks):
            raise ConfigError(
                f"task file '{name}' has no tasks of split '{split}'; evolving needs train, dev and test"
            )
    return TaskSets(
        tuple(split_of(tasks, "train")),
        choose(split_of(tasks, "dev"), dev),
        choose(split_of(tasks, "test"), test),
        file_hash(name),
    )


def one_split(name: str, split: Split, limit: int | None = None) -> TaskSets:
    """The tasks of one split only, at most `limit`. Raises ConfigError where there are none."""
    tasks = choose(load_tasks(name, split, check=registry.check), limit)
    if not tasks:
        raise ConfigError(f"task file '{name}' has no tasks of split '{split}'")
    none: tuple[Task, ...] = ()
    by_split = {"train": none, "dev": none, "test": none, split: tasks}
    return TaskSets(by_split["train"], by_split["dev"], by_split["test"], file_hash(name))
