"""worlds: episodes as TRL plays them (reset, calls of the tool, the reward function), driven here by hand;
TRL itself drives them in test_trl_worlds.py."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any

import pytest

from roleagent_lite.config import Wia
from roleagent_lite.distill import worlds
from roleagent_lite.distill.worlds import OVER, EpisodeReward, SilentWorld, World, spread, task_rows
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.types import Observation, Task
from roleagent_lite.wia import credit_group
from tests import toy

SEEN = "You are in a hall. There is a key and a door."


class Shut(toy.Toy):
    """Does not begin."""

    def observe(self) -> Observation:
        raise OSError("no hall")


def called(*moves: str | dict[str, Any] | None) -> list[dict[str, Any]]:
    """The messages of an episode, one turn a move: its call and the tool's answer; None: a turn without."""
    messages: list[dict[str, Any]] = []
    for move in moves:
        asked = {"action": move} if isinstance(move, str) else move
        calls = [{"type": "function", "function": {"name": "act", "arguments": asked}}] if asked else []
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        messages += [{"role": "tool", "name": "act", "content": "..."}] * bool(calls)
    return messages


def played(world: SilentWorld, *moves: str | dict[str, Any] | None, task: str = "t1") -> list[dict[str, Any]]:
    """An episode by these moves; its messages."""
    world.reset(task=task, prompt=[], extra=1)
    for move in moves:
        if move is not None:
            world.act(**({"action": move} if isinstance(move, str) else move))
    return called(*moves)


def judged(reward: EpisodeReward, *ways: Sequence[Any]) -> tuple[list[float | None], list[World]]:
    made = worlds.worlds([toy.task()])
    own = [made() for _ in ways]
    completions = [played(world, *way) for world, way in zip(own, ways, strict=True)]
    return reward([[]] * len(ways), completions, environments=own), own  # type: ignore[return-value]


def test_the_tool_is_all_that_trl_finds() -> None:
    """TRL takes every public method but reset and get_reward for a tool, and its docstring for the schema."""
    for kind, names in ((World, {"action", "predictions"}), (SilentWorld, {"action"})):
        world = kind({"t1": toy.task()}, Wia())
        public = [n for n, _ in inspect.getmembers(world, inspect.ismethod) if not n.startswith("_")]
        assert public == ["act", "reset"]
        taken = inspect.signature(world.act).parameters
        assert set(taken) == names and all(f"{name}:" in (kind.act.__doc__ or "") for name in names)


def test_an_episode_as_the_model_sees_it() -> None:
    world = worlds.worlds([toy.task()])()
    shown = world.reset(task="t1", prompt=[])
    assert shown.startswith(SEEN) and shown.endswith("Admissible actions:\n" + "\n".join(toy.ACTIONS))
    assert world.act("take key").startswith("You take the key.\n\nAdmissible actions:")
    assert "'sing' is not admissible" in world.act("sing")
    assert world.act("open door") == f"The door opens. You are free.\n\n{OVER}" and world.solved
    assert world.act("look around") == OVER
    assert world.steps == [True, True, True, False]
    assert world.reset(task="t1") == shown and not world.solved and world.steps == []


def test_an_episode_earns_the_mean_of_its_steps_advantages() -> None:
    """By the house's own credit of the same episodes."""
    ways: list[list[Any]] = [
        [{"action": "take key", "predictions": ["You take the key."]}, "open door"],
        ["look around", "take key", {"action": "open door", "predictions": "It opens."}],
        ["open door", None],
        ["say hello.", "look around", "take key"],
    ]
    reward = EpisodeReward()
    earned, own = judged(reward, *ways)
    episodes = [world._played(k) for k, world in enumerate(own)]
    assert [e.outcome.kind for e in episodes] == ["solved", "solved", "failed", "failed"]
    assert episodes[2].outcome.reason == "gave_up"
    credits = credit_group(episodes, Wia())
    assert earned == [pytest.approx(sum(c.advantage) / len(c.advantage)) for c in credits]
    assert (
        credits[0].advantage[0] > credits[2].advantage[0]
        and credits[0].predictive[0] == 1.0
        and credits[1].predictive[2] > 0
    )
    assert own[2].elsewhere == pytest.approx(credits[2].episode_advantage) and own[2].elsewhere < 0
    assert own[0].advantages == credits[0].advantage


def test_tasks_are_groups_of_their_own() -> None:
    made = worlds.worlds([toy.task("a"), toy.task("b")])
    own = [made() for _ in range(4)]
    plays: list[tuple[str, list[str | None]]] = [
        ("a", ["take key", "open door"]),
        ("b", ["look around"]),
        ("a", ["look around"]),
        ("b", [None]),
    ]
    completions = [played(w, *moves, task=task) for w, (task, moves) in zip(own, plays, strict=True)]
    earned = EpisodeReward()([[]] * 4, completions, environments=own)
    assert earned[1] == earned[3] == 0.0, "alike: no advantage; the last has no step"
    assert earned[0] is not None and earned[2] is not None and earned[0] > 0 > earned[2]


def test_rollouts_that_did_not_start_alike_are_alone() -> None:
    task = Task("d", "tests.toy:Dice", "Roll.")
    own = [worlds.worlds([task])() for _ in range(2)]
    completions = [played(w, "take key", "open door", task="d") for w in own]
    assert EpisodeReward()([[]] * 2, completions, environments=own) == [0.0, 0.0]


def test_a_world_that_fails_is_left_out_and_the_next_episode_begins() -> None:
    task = Task("f", "tests.toy:Faulty", "Get out.", params={"raise": True})
    made = worlds.worlds([task])
    own = [made(), made()]
    completions = [
        played(own[0], "look around", "look around", "take key", "take key", task="f"),
        played(own[1], "take key", "open door", task="f"),
    ]
    assert own[0].steps == [True, True, False, False]
    told: dict[str, float] = {}
    earned = EpisodeReward()([[]] * 2, completions, environments=own, log_metric=told.__setitem__)
    assert earned == [None, 0.0] and told["wia/solved"] == 1.0, "alone in its group"
    assert SEEN in own[0].reset(task="f")
    shut = worlds.worlds([Task("x", "tests.distill.test_worlds:Shut", "")])()
    assert shut.reset(task="x") == OVER and shut.act("look around") == OVER


def test_each_turn_has_the_advantage_of_its_own_steps() -> None:
    """Two calls in one turn are two steps; what TRL answered itself, and what came too late, is none."""
    world = World({"t1": toy.task()}, Wia())
    world.reset(task="t1")
    for action in ("look around", "take key", "open door", "look around"):
        world.act(action)
    completion = called("look around", "take key", {"door": 1}, "open door", "look around", None)
    two = completion[0]["tool_calls"] + completion[2]["tool_calls"]
    completion = [{"role": "assistant", "content": "", "tool_calls": two}, *completion[4:]]
    completion += [{"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "function": {"name": "other", "arguments": {"action": "x"}}},
        {"type": "function", "function": {"name": "act"}}, {"type": "odd"},
    ]}]  # fmt: skip
    EpisodeReward()([[]], [completion], environments=[world])
    assert world.calls == [2, 0, 1, 1, 0, 0] and world.steps == [True, True, True, False]
    world.advantages, world.elsewhere = (1.0, 2.0, 4.0), -0.5
    assert world._turn_values() == [1.5, -0.5, 4.0, -0.5, -0.5, -0.5]


def test_values_are_spread_over_the_tokens_of_their_turns() -> None:
    assert spread([1, 1, 0, 0, 1, 0, 1], [0.5, -1.0]) == [0.5, 0.5, 0.0, 0.0, -1.0, 0.0, 0.0]
    assert spread([0, 1, 1], [2.0]) == [0.0, 2.0, 2.0] and spread([], [1.0]) == []


def test_per_step_replaces_the_one_number_an_episode() -> None:
    torch = pytest.importorskip("torch", reason="needs the distill extra", exc_type=ImportError)

    class Trainer:
        """As much of GRPOTrainer as `per_step` stands on."""

        def __init__(self) -> None:
            _, self.environments = judged(EpisodeReward(), ["take key", "open door"], ["look around", None])

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            return {
                "advantages": torch.tensor([1.0, -1.0]),
                "completion_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]]),
                "tool_mask": torch.tensor([[1, 1, 0, 1, 1], [1, 0, 1, 1, 1]]),
            }

    trainer = worlds.per_step(Trainer)()
    got = trainer._generate_and_score_completions([])["advantages"].tolist()
    good, bad = trainer.environments
    first, second = good.advantages
    assert got[0] == pytest.approx([first, first, 0, second, second])
    assert got[1] == pytest.approx([bad.advantages[0], 0, bad.elsewhere, bad.elsewhere, 0])
    assert first > 0 > bad.elsewhere


def test_rows_show_goal_and_texts() -> None:
    (row,) = task_rows([toy.task()], {"act.instructions": "Be quick.", "act.playbook": "Keys first."})
    assert row["task"] == "t1" and [m["role"] for m in row["prompt"]] == ["system", "user"]
    assert row["prompt"][0]["content"].startswith("Be quick.\n\nKeys first.\n\nAct by calling the tool")
    assert "`predictions`" in row["prompt"][0]["content"]
    assert row["prompt"][1]["content"] == "Goal: Get out of the hall.\n\nYou see:\n"
    (plain,) = task_rows([toy.task()], predict=False)
    assert "`predictions`" not in plain["prompt"][0]["content"] and "text world" in str(plain)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(RoleAgentError, match="'x' is not of split train"):
        worlds.worlds([Task("x", "tests.toy:Toy", "", split="test")])
    world = worlds.worlds([toy.task()], predict=False)()
    assert type(world) is SilentWorld and world.act("look around") == OVER
    with pytest.raises(RoleAgentError, match="'q', which is unknown"):
        world.reset(task="q")
    with pytest.raises(RoleAgentError, match=r"TRL calls reset\(\) before"):
        EpisodeReward()([[]], [[]], environments=[world])


def test_a_notebook_may_call_it() -> None:
    async def cell() -> str:
        return worlds.worlds([toy.task()])().reset(task="t1")

    assert asyncio.run(cell()).startswith(SEEN)


def test_no_action_is_no_step() -> None:
    world = worlds.worlds([toy.task(env="FreeToy")])()
    world.reset(task="t1")
    assert world.act("  ") == "the agent gave no action" and world.steps == [False]
    assert "Admissible" not in world.act("take key")
