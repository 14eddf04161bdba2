"""The sets of a run: as large as asked for, disjoint, and never an empty split."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roleagent_lite.errors import ConfigError
from roleagent_lite.evolve.tasks import check_disjoint, one_split, task_sets
from roleagent_lite.types import Task


def write(path: Path, splits: dict[str, int]) -> str:
    rows = [
        {"id": f"{split}{n}", "env": "toy", "goal": f"goal {split} {n}", "split": split}
        for split, count in splits.items()
        for n in range(count)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return str(path)


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
