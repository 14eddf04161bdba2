"""state_reward: WIA's credit of one step taken from a stored state, by hand-worked numbers and by the house's
own credit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.config import Wia, from_mapping
from roleagent_lite.distill import table
from roleagent_lite.distill.recipe import from_mapping as recipe_of
from roleagent_lite.distill.state_reward import StateReward, recorded_values, text_of
from roleagent_lite.envs.household.env import Household
from roleagent_lite.envs.household.generator import make_task_set
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from roleagent_lite.types import Observation, Task
from roleagent_lite.wia import credit_group
from roleagent_lite.wia.align import lms
from tests import toy
from tests.distill import make, toy_run
from tests.distill.test_bake import LONG, played

TAKEN = "You take the key."


def near(value: Any) -> Any:
    return pytest.approx(value, abs=1e-5)


def reply(action: str, *predictions: str) -> str:
    return json.dumps({"thought": "", "action": action, "predictions": list(predictions)})


def said(*texts: str) -> list[list[dict[str, str]]]:
    return [[{"role": "assistant", "content": text}] for text in texts]


def earned(reward: StateReward, texts: Sequence[str], before: Sequence[str] = (), **row: Any) -> list[Any]:
    n = len(texts)
    columns: dict[str, Any] = {name: [value] * n for name, value in row.items()}
    return reward([[]] * n, said(*texts), task=["t1"] * n, actions=[list(before)] * n, **columns)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two solved episodes of t1: one straight, one that looks around first."""
    made = make.new_run(tmp_path / "r")
    ways = [["take key", "open door"], ["look around", "take key", "open door"]]
    toy_run.add(made, toy.task(), ways, lambda step: reply(step.action, TAKEN), TAKEN)
    return made


def test_a_step_earns_r_and_what_the_run_earned_from_there(run: Run) -> None:
    """V: (key, shut) was left twice with 1; (no key, shut) with .95, .9025 and .95: mean .934167."""
    reward = StateReward.of(run)
    value = recorded_values(run)
    assert value("t1", Observation("", (), "key, shut")) == 1.0
    assert value("t1", Observation("", (), "no key, shut")) == near((0.95 + 0.9025 + 0.95) / 3)
    assert (
        value("t1", Observation("", (), "elsewhere")) == 0.0 == value("t2", Observation("", (), "key, shut"))
    )
    take, look, wrong, nothing = earned(
        reward, [reply("take key"), reply("look around"), reply("eat the door"), "I do not know."]
    )
    assert take == near(0.95) and look == near(0.95 * 2.8025 / 3)
    assert wrong == look, "an action that is not admissible changes nothing"
    assert nothing == 0.0
    assert earned(reward, [reply("open door")], ["take key"]) == [1.0], "the end: nothing is expected behind"


@pytest.mark.parametrize("n", [2, 6, 8])
def test_rl_01_equal_rewards_have_no_advantage_in_trls_numbers(run: Run, n: int) -> None:
    """As TRL computes it, in float32: a mean that is an ulp off would become 6e-4 by its 1e-4."""
    import numpy as np

    got = earned(StateReward.of(run), [reply("look around", "Nothing at all.")] * n)
    values = np.array(got, dtype=np.float32)
    assert (
        got[0] > 0
        and float(np.abs((values - values.sum() / np.float32(n)) / (values.std() + 1e-4)).max()) == 0
    )


def test_what_was_foretold_scales_what_was_earned(run: Run) -> None:
    reward = StateReward.of(run)
    right, close, none, failed = earned(
        reward, [reply("take key", TAKEN), reply("take key", "You take it.", "x"), reply("take key"),
                 reply("open door", "Nothing happens.")]
    )  # fmt: skip
    assert right == near(0.95 * 2) and none == near(0.95)
    assert close == near(0.95 * (1 + lms("You take it.", TAKEN)))
    blank = StateReward([toy.task()])
    assert earned(blank, [reply("look around", "Nothing happens.")]) == [0.0], "a product: nothing to scale"
    assert failed > none, "the same with a value: the state is worth something"


def test_the_rows_of_a_run_earn_what_its_credit_says(run: Run) -> None:
    """Where V is what came, R is R_t: the first way's both steps, read from the rows themselves."""
    rows, _ = table.rows(run, recipe_of({"model": "nowhere"}))
    reward = StateReward.of(run)
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    got = reward(columns.pop("prompt"), columns.pop("completion"), **columns)
    credits = credit_group(list(run.trajectories), run.config.wia)
    for row, value in zip(rows, got, strict=True):
        assert row["step_reward"] == credits[row["rollout"]].reward[row["step"] - 1]
        if (row["rollout"], row["step"]) != (1, 1):  # V of the state is a mean over both ways there
            assert value == near(row["step_reward"]), row["id"]
    assert got[2] == near(0.95 * 2.8025 / 3 * (1 + lms(TAKEN, "Nothing happens.")))


def test_a_state_is_entered_once_and_equal_replies_are_taken_once() -> None:
    toy.LOG.pop("t1", None)
    reward = StateReward([toy.task()])
    earned(reward, [reply("look around"), reply("take key"), reply("take key")], ["look around"])
    made = toy.LOG["t1"]
    assert len(made) == 2, "the world has no snapshots: it is played again for the second reply"
    assert [moves[-1] for moves in made] == ["look around", "take key"]


def test_worlds_with_snapshots_go_back_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Household, all but the last move of its plan: the last one earns all there is, another nothing."""
    (task,) = [t for t in make_task_set("easy", 3, {"train": 1}) if t.split == "train"]
    world = Household(task)
    *before, last = world.walkthrough()
    made: list[Task] = []
    monkeypatch.setattr(Household, "__init__", _counted(Household.__init__, made))
    got = StateReward([task])(
        [[]] * 3, said(reply("look"), reply(last), reply("inventory")), task=[task.id] * 3,
        actions=[before] * 3,
    )  # fmt: skip
    assert got == [0.0, 1.0, 0.0] and len(made) == 1


def _counted(inner: Any, made: list[Task]) -> Any:
    def opened(self: Household, task: Task) -> None:
        made.append(task)
        inner(self, task)

    return opened


def test_columns_that_do_not_lead_to_their_state_are_refused(run: Run) -> None:
    reward = StateReward.of(run)
    assert earned(reward, [reply("open door")], ["take key"], state_key="key, shut", max_steps=6) == [1.0]
    with pytest.raises(RoleAgentError, match=r"the 1 moves .* lead to another state"):
        earned(reward, [reply("open door")], ["take key"], state_key="no key, shut")
    with pytest.raises(RoleAgentError, match="goes on behind move 2, which ends"):
        earned(reward, [reply("look around")], ["take key", "open door", "look around"])
    with pytest.raises(RoleAgentError, match="'t2', which is unknown; known: t1"):
        reward([[]], said("x"), task=["t2"], actions=[[]])
    with pytest.raises(RoleAgentError, match="not of split train"):
        StateReward([Task("d", "tests.toy:Toy", "", split="dev")])
    with pytest.raises(RoleAgentError, match="no training tasks"):
        StateReward([])


def test_a_world_that_fails_gives_none_and_verl_gets_0() -> None:
    task = Task("t1", "tests.toy:Faulty", "Get out.", params={"raise": True})
    reward = StateReward([task])
    texts = [reply("look around"), reply("take key")]
    assert earned(reward, texts, ["look around", "look around"]) == [None, None]
    state = json.dumps({"task": "t1", "actions": ["look around", "look around"]})
    assert reward.score("x", texts[0], state, None) == 0.0


def test_verls_signature_reads_its_rows(run: Run) -> None:
    rows, _ = table.rows(run, recipe_of({"model": "nowhere"}), "verl")
    reward = StateReward.of(run)
    got = [
        reward.score(r["data_source"], r["extra_info"]["completion"], r["reward_model"]["ground_truth"],
                     r["extra_info"])
        for r in rows
    ]  # fmt: skip
    assert got[:2] == [near(r["extra_info"]["step_reward"]) for r in rows[:2]]


def test_metrics_are_told_and_thinking_is_left_out(run: Run) -> None:
    told: dict[str, float] = {}
    reward = StateReward.of(run)
    texts = [f"<think>open door?</think>{reply('take key', TAKEN)}", "no", " take key", reply("sing")]
    got = reward(
        [[]] * 4, said(*texts), task=["t1"] * 4, actions=[[]] * 4, log_metric=told.__setitem__, reward=[0] * 4
    )
    assert got[0] == near(1.9) and got[2] == near(0.95), "a bare action is read too"
    assert told["wia/read"] == 0.75 and told["wia/valid"] == 0.5 and told["wia/foresight"] == 0.25


def test_text_of_both_forms() -> None:
    assert text_of("look") == "look"
    assert text_of([{"role": "assistant", "content": "lo"}, {"role": "assistant", "content": None}]) == "lo"


def test_settings_of_wia_count() -> None:
    wia = Wia(gamma=0.5, scorer="tokens")
    reward = StateReward([toy.task()], wia, value=lambda task, state: 2.0)
    assert earned(reward, [reply("take key", "You take nothing.")]) == [near(1.0 * (1 + 4 / 7))]
    assert from_mapping({"model": "openai/x", "tasks": "toy"}).wia == Wia()


def test_the_replies_of_a_played_run_are_read_as_they_were(tmp_path: Path) -> None:
    """A run by `evaluate`, its prompts and replies those of the agent `generate`."""
    run = played(tmp_path, "r", LONG, prompts="v1")
    rows, _ = table.rows(run, recipe_of({"model": "nowhere"}))
    told: dict[str, float] = {}
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    got = StateReward.of(run)(
        columns.pop("prompt"), columns.pop("completion"), log_metric=told.__setitem__, **columns
    )
    assert len(got) > 4 and told["wia/read"] == 1.0 and 0 < told["wia/valid"] < 1
    last = [k for k, row in enumerate(rows) if row["solved"] and k + 1 in (*_starts(rows), len(rows))]
    assert last and all(got[k] == near(rows[k]["step_reward"]) for k in last)


def _starts(rows: list[dict[str, Any]]) -> list[int]:
    return [k for k, row in enumerate(rows) if row["step"] == 1]
