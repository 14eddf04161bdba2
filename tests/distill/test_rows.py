"""rows: RL-03, rewards that are missing, infinite or no numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.distill.rows import read
from roleagent_lite.errors import RoleAgentError
from tests.distill import make


def test_rl_03_missing_rewards_drop_the_row_and_are_counted(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r")
    make.group(run, "a", [True, True, False, False])
    make.rewrite(run, 1, score=math.nan)
    make.rewrite(run, 3, score=None)
    kept, dropped = read(make.again(run))
    assert [t.rollout for t in kept] == [0, 2]
    assert [(d.id, d.reason) for d in dropped] == [
        ("1/seed0000/a#1", "score is missing or not a number"),
        ("1/seed0000/a#3", "score is missing or not a number"),
    ]
    assert {d.group for d in dropped} == {kept[0].group}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"score": math.inf}, "score is inf"),
        ({"score": -math.inf}, "score is -inf"),
        ({"score": "0.5"}, "score is '0.5'"),
        ({"score": True}, "score is True"),
        ({"score": ...}, "score is absent"),
        ({"score": 1.5}, "score is 1.5"),
        ({"steps": [{"reward": "1"}]}, "the reward of step 1 is '1'"),
        ({"steps": [{}]}, "the reward of step 1 is absent"),
        ({"outcome": {"kind": "won"}}, "not of this version's shape"),
    ],
)
def test_rl_03_rubbish_is_rejected_with_the_trajectory(
    tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    run = make.new_run(tmp_path / "r")
    make.group(run, "a", [True, False])
    make.rewrite(run, 1, **fields)
    with pytest.raises(RoleAgentError) as refused:
        read(make.again(run))
    assert "trajectory 1/seed0000/a#1" in str(refused.value) and words in str(refused.value)


def test_a_steps_reward_that_is_no_number_drops_the_episode(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r")
    make.group(run, "a", [True, False])
    record = run.trajectories.path.read_text(encoding="utf-8")
    run.trajectories.path.write_text(record.replace('"reward":1.0', '"reward":NaN'), encoding="utf-8")
    kept, dropped = read(make.again(run))
    assert [t.rollout for t in kept] == [1] and "the reward of step 1" in dropped[0].reason


def test_a_torn_last_line_and_an_empty_run(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r")
    assert read(run) == ([], [])
    make.group(run, "a", [True, False])
    with run.trajectories.path.open("ab") as file:
        file.write(b'{"v":1,"key":"1/seed0000/a#2","row":{"id":"1/se')
    kept, dropped = read(make.again(run))
    assert len(kept) == 2 and not dropped
