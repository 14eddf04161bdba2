"""table: what a row says in each layout, the same in JSONL and parquet."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.distill import table
from roleagent_lite.distill.recipe import Recipe, from_mapping
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.memory import parquet_rows
from roleagent_lite.store import Run
from roleagent_lite.types import Message, Outcome, Task
from tests.distill import make
from tests.distill.test_bake import LONG, SHORT, played
from tests.distill.test_tokens import SAMPLE


def recipe(**more: Any) -> Recipe:
    return from_mapping({"model": "nowhere", **more})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two rollouts of task `a`, one of two steps and solved, and a group of `b` without signal."""
    made = make.new_run(tmp_path / "r")
    made.tasks.put(Task("a", "tests.toy:Toy", "Get out.", seed=7, params={"type": "halls"}))
    first = make.call(made, "c1", "take key", reasoning="A key opens doors.", logprobs=(-0.5, -0.25))
    second = make.call(made, "c2", "open door", make.chat("You took the key."))
    steps = [
        make.step("take key", first, outcome="You take the key.", predictions=("You have it.", None)),
        make.step("open door", second, reward=1.0),
    ]
    make.episode(made, "a", 0, True, steps=steps)
    make.episode(made, "a", 1, False)
    make.group(made, "b", [False, False])
    return made


def test_a_row_says_what_was_sent_said_and_earned(run: Run) -> None:
    rows, dropped = table.rows(run, recipe())
    assert len(rows) == 5 and dropped == ()
    row = rows[0]
    assert set(row) == set(table.TRL)
    assert row["prompt"] == [
        {"role": "system", "content": make.SYSTEM}, {"role": "user", "content": make.SEEN}
    ]  # fmt: skip
    said = "<think>\nA key opens doors.\n</think>\n\ntake key"
    assert row["completion"] == [{"role": "assistant", "content": said}]
    told = {"task": "a", "env": "tests.toy:Toy", "family": "halls", "seed": 7, "round": 1, "rollout": 0,
            "step": 1, "prompt_set": "seed00000000", "model": "tiny", "reward": 1.0, "solved": True,
            "signal": True, "actions": [], "action": "take key", "outcome": "You take the key.",
            "predictions": ["You have it.", None], "logprobs": [-0.5, -0.25]}  # fmt: skip
    assert {name: row[name] for name in told} == told
    assert rows[1]["actions"] == ["take key"] and rows[1]["logprobs"] is None
    assert rows[3]["env"] == "" and rows[3]["seed"] is None, "a task that the run does not hold"


def test_an_advantage_is_the_sum_of_its_two_parts(run: Run) -> None:
    rows, _ = table.rows(run, recipe())
    for row in rows:
        whole = row["state_advantage"] + run.config.wia.alpha * row["episode_advantage"]
        assert math.isclose(row["advantage"], whole, abs_tol=1e-12)
    good, bad = rows[0], rows[2]
    assert good["episode_advantage"] > 0 > bad["episode_advantage"]
    assert (good["episode_advantage"], bad["episode_advantage"]) == pytest.approx((2**-0.5, -(2**-0.5)), 1e-5)
    assert good["step_reward"] > 0.95 and bad["step_reward"] == 0.0, "R_pre scales what was earned"
    assert [r["signal"] for r in rows] == [True] * 3 + [False] * 2


def test_verls_columns_hold_the_same(run: Run) -> None:
    plain, _ = table.rows(run, recipe())
    rows, _ = table.rows(run, recipe(), "verl")
    for index, (row, same) in enumerate(zip(rows, plain, strict=True)):
        assert set(row) == set(table.VERL) and row["prompt"] == same["prompt"]
        assert row["data_source"] == f"roleagent-lite/{same['env']}" and row["ability"] == same["family"]
        extra = dict(row["extra_info"])
        assert extra.pop("index") == index and extra.pop("split") == "train"
        assert [{"role": "assistant", "content": extra.pop("completion")}] == same["completion"]
        assert extra == {name: same[name] for name in table.SCORED}
    state = json.loads(rows[1]["reward_model"]["ground_truth"])
    assert state == {"task": "a", "actions": ["take key"]} and rows[1]["reward_model"]["style"] == "rule"
    told = {"task": "a", "env": "tests.toy:Toy", "goal": "Get out.", "seed": 7, "actions": ["take key"]}
    assert rows[1]["env_kwargs"] == told


@pytest.mark.parametrize("layout", list(table.LAYOUTS))
def test_both_files_hold_the_same_rows(run: Run, tmp_path: Path, layout: str) -> None:
    rows, _ = table.rows(run, recipe(), layout)
    for name in ("s.jsonl", "deep/s.parquet"):
        assert table.write(run, recipe(), tmp_path / name, layout) == (5, ())
    lines = (tmp_path / "s.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == rows
    assert list(parquet_rows(tmp_path / "deep/s.parquet")) == rows
    assert not list(tmp_path.rglob("*.part"))


def test_the_recipe_chooses_what_is_written(run: Run) -> None:
    make.episode(run, "c", 0, False, outcome=Outcome("cut_off", "max_tokens"))
    solved, dropped = table.rows(run, recipe(method="sft"))
    assert [r["id"] for r in solved] == ["1/seed0000/a#0/1", "1/seed0000/a#0/2"]
    assert {"not solved", "cut_off (max_tokens) teaches nothing"} <= {d.reason for d in dropped}
    with pytest.raises(RoleAgentError, match="no sample"):
        table.write(run, recipe(data={"rounds": [9]}), run.dir / "none.jsonl")
    assert not (run.dir / "none.jsonl").exists()


def test_a_reply_that_was_begun_ends_the_users_message() -> None:
    log = (Message("system", "Act."), Message("user", "Write the log."), Message("assistant", "Goal: x\n>"))
    prompt, reply = table.conversation(replace(SAMPLE, messages=log, text=" take key"))
    assert prompt == [
        {"role": "system", "content": "Act."}, {"role": "user", "content": "Write the log.\n\nGoal: x\n>"}
    ]  # fmt: skip
    assert reply == " take key"
    alone, _ = table.conversation(replace(SAMPLE, messages=log[2:], text=" take key"))
    assert alone == [{"role": "user", "content": "Goal: x\n>"}]


def test_thinking_is_never_doubled() -> None:
    twice = replace(SAMPLE, text="<think>\nhm\n</think>\n\nlook", reasoning="hm")
    assert table.conversation(twice)[1] == "<think>\nhm\n</think>\n\nlook"


def test_what_is_wrong_is_named(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no layout 'tlr'; did you mean 'trl'\?$"):
        table.write(run, recipe(), tmp_path / "s.jsonl", "tlr")
    with pytest.raises(ConfigError, match=r"\*.jsonl or \*.parquet, not '.*s.csv'"):
        table.write(run, recipe(), tmp_path / "s.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(RoleAgentError, match="cannot write the samples"):
        table.write(run, recipe(), tmp_path / "file" / "s.jsonl")


def test_a_short_prompt_stands_in_the_place_of_what_was_sent(tmp_path: Path) -> None:
    long, short = (played(tmp_path, name, texts, prompts="v1") for name, texts in (("l", LONG), ("s", SHORT)))
    baked, dropped = table.rows(long, recipe(method="sft", sft={"bake": str(tmp_path / "s.json")}))
    plain, _ = table.rows(short, recipe(method="sft"))
    assert baked and not dropped
    assert [r["prompt"] for r in baked] == [r["prompt"] for r in plain]
    assert [r["completion"] for r in baked] == [r["completion"] for r in plain]
