"""Task sets: chosen by id and not by place, disjoint, and never an empty split."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from roleagent_lite.errors import ConfigError
from roleagent_lite.evolve.tasks import check_disjoint, choose, one_split, task_sets
from roleagent_lite.types import Task
from tests.evolve.make import task


def write(path: Path, splits: dict[str, int]) -> str:
    rows = [
        {"id": f"{split}{n}", "env": "toy", "goal": f"goal {split} {n}", "split": split}
        for split, count in splits.items()
        for n in range(count)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return str(path)


def test_choose_keeps_file_order_and_does_not_depend_on_it() -> None:
    tasks = [task(f"t{n}") for n in range(40)]
    chosen = choose(tasks, 10)
    assert len(chosen) == 10
    assert list(chosen) == [t for t in tasks if t in chosen]
    assert {t.id for t in choose(tasks[::-1], 10)} == {t.id for t in chosen}
    assert choose(tasks, None) == choose(tasks, 99) == tuple(tasks)


def test_every_family_is_chosen_as_often_as_every_other() -> None:
    tasks = [
        Task(f"{family}{n}", "toy", "g", params={"type": family}) for family in "abcdef" for n in range(10)
    ]
    assert Counter(t.id[0] for t in choose(tasks, 12)) == dict.fromkeys("abcdef", 2)
    few = [t for t in tasks if t.id[0] != "a" or t.id == "a0"]
    counts = Counter(t.id[0] for t in choose(few, 13))
    assert counts["a"] == 1 and sorted(counts.values()) == [1, 2, 2, 2, 3, 3]


def test_sets_have_the_sizes_asked_for(tmp_path: Path) -> None:
    sets = task_sets(write(tmp_path / "t.jsonl", {"train": 7, "dev": 5, "test": 6}), dev=3, test=50)
    assert sets.counts == {"train": 7, "dev": 3, "test": 6}
    assert {t.split for t in sets.of("dev")} == {"dev"}
    ids = [t.id for split in ("train", "dev", "test") for t in sets.of(split)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("empty", ["train", "dev", "test"])
def test_an_empty_split_is_refused(tmp_path: Path, empty: str) -> None:
    splits = {name: 2 for name in ("train", "dev", "test") if name != empty}
    with pytest.raises(ConfigError, match=f"no tasks of split '{empty}'"):
        task_sets(write(tmp_path / "t.jsonl", splits), dev=1, test=1)


def test_the_same_task_in_two_splits_is_refused_and_both_rows_named() -> None:
    a = Task("a", "toy", "same", seed=3, split="train")
    with pytest.raises(ConfigError, match=r"'a' \(train\) and 'b' \(test\)"):
        check_disjoint([a, Task("b", "toy", "same", seed=3, split="test")])
    check_disjoint([a, Task("b", "toy", "same", seed=4, split="test")])
    check_disjoint([a, Task("b", "toy", "same", seed=3, split="train")])


def test_a_file_with_one_task_in_two_splits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "leak.jsonl"
    name = write(path, {"train": 2, "dev": 1, "test": 2})
    task_sets(name, dev=1, test=1)
    path.write_text(path.read_text(encoding="utf-8").replace("goal test 1", "goal train 0"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"'train0' \(train\) and 'test1' \(test\) are the same task"):
        task_sets(name, dev=1, test=1)


def test_the_hash_is_the_files(tmp_path: Path) -> None:
    first = task_sets(write(tmp_path / "a.jsonl", {"train": 2, "dev": 1, "test": 1}), dev=1, test=1)
    second = task_sets(write(tmp_path / "b.jsonl", {"train": 3, "dev": 1, "test": 1}), dev=1, test=1)
    assert first.hash != second.hash


def test_one_split(tmp_path: Path) -> None:
    name = write(tmp_path / "t.jsonl", {"dev": 5})
    assert one_split(name, "dev", 2).counts == {"train": 0, "dev": 2, "test": 0}
    with pytest.raises(ConfigError, match="'test'"):
        one_split(name, "test")
