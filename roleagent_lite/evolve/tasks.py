"""The three task sets of a run: which tasks are played for training, dev and the sealed test.

Owns the choice of as many as are asked for, and that the three are disjoint. Leaves out reading (tasksets).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import content_id, family_of, file_hash, load_tasks, split_of
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


def choose(tasks: Sequence[Task], n: int | None) -> tuple[Task, ...]:
    """At most `n` tasks (None: all), in file order, every family as often as every other where it can.

    Within a family they are chosen by the hash of their ids: neither the order of the file nor the order of
    its families decides, and a row added elsewhere changes the choice as little as can be.
    """
    if n is None or n >= len(tasks):
        return tuple(tasks)
    turns: Counter[str] = Counter()
    ranked: list[tuple[int, bytes, str]] = []
    for task in sorted(tasks, key=_digest):
        family = family_of(task)
        ranked.append((turns[family], _digest(task), task.id))
        turns[family] += 1
    kept = {id for _, _, id in sorted(ranked)[:n]}
    return tuple(task for task in tasks if task.id in kept)


def _digest(task: Task) -> bytes:
    return hashlib.sha256(task.id.encode("utf-8", "replace")).digest()


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
    tasks = load_tasks(name)
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
    tasks = choose(load_tasks(name, split), limit)
    if not tasks:
        raise ConfigError(f"task file '{name}' has no tasks of split '{split}'")
    none: tuple[Task, ...] = ()
    by_split = {"train": none, "dev": none, "test": none, split: tasks}
    return TaskSets(by_split["train"], by_split["dev"], by_split["test"], file_hash(name))
