"""Field cases ENV-* on the worlds in Java, played by the rollout as any world is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from roleagent_lite.config import Wia
from roleagent_lite.envs import jvm, scienceworld, textworld_express
from roleagent_lite.rollout import Episode, irreproducible, play, play_many
from roleagent_lite.stage import STOP_AFTER, Stage, completed
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Decision, PromptSet, Task, Trajectory, View
from tests.envs.java import needs

GAMES = load_tasks("textworld-express")
COOKING = next(t for t in GAMES if t.params["game"] == "cookingworld")
COIN = next(t for t in GAMES if t.params["game"] == "coin")
SORTING = next(t for t in GAMES if t.params["game"] == "sorting")
BOIL = Task("boil", "scienceworld", "boil water", params={"task": "boil", "variation": 2})
pytestmark = [needs(textworld_express.ENGINE), needs(scienceworld.ENGINE)]


class Reader:
    """An agent that reads out a script, over and over."""

    prompt_set = PromptSet("p" * 12, {})

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    async def act(self, view: View) -> Decision:
        return Decision(action=self._lines[(view.step - 1) % len(self._lines)])


async def played(lines: Sequence[str], task: Task, steps: int = 0) -> Trajectory:
    return await play(Reader(lines), Episode(task, 0, 0, 0.0, max_steps=steps), model_name="reader")


@pytest.mark.parametrize("task", [COOKING, BOIL], ids=lambda t: t.env)
async def test_env_01_the_same_without_effect_ends_as_a_loop(task: Task) -> None:
    for action in ("look around", "sing a song"):
        came = await played([action], task)
        assert (came.outcome.kind, came.outcome.reason, len(came.steps)) == ("failed", "loop", STOP_AFTER)


async def test_env_01_waiting_is_no_loop_while_the_world_changes() -> None:
    came = await played(["activate stove", "wait1"], BOIL, steps=9)
    assert (came.outcome.reason, len(came.steps)) == ("step_limit", 9)


@pytest.mark.parametrize(
    "said", ["`open fridge`", "> open fridge.", "Action: Open Fridge", "<action>open fridge</action>"]
)
async def test_env_03_an_action_in_other_clothes_is_played_bare(said: str) -> None:
    came = await played([said], COOKING, steps=1)
    assert came.steps[0].action == "open fridge" and came.steps[0].valid
    came = await played([said.lower()], BOIL, steps=1)
    assert came.steps[0].outcome == "The fridge is now open."


async def test_env_05_a_java_that_dies_ends_its_episodes_and_no_later_one() -> None:
    stage = Stage(completed(Episode(COIN, 0, 0, 0.0), Wia()), "s")
    await stage.open()
    for pid in jvm.processes():
        machine = next(m for m in jvm._machines.values() if m.process.pid == pid)
        machine.process.kill()
        machine.process.wait()
    came = await played(["look around"], COIN, steps=1)
    assert came.outcome.reason == "step_limit"
    with pytest.raises(Exception, match="has ended with -9"):
        await stage.move(Decision(action="inventory"))
    await stage.close()


async def test_env_06_what_is_not_understood_counts_as_a_step() -> None:
    came = await played(["dance", "sing", "jump", "fly", "swim"], COOKING, steps=7)
    assert (came.outcome.reason, len(came.steps), came.score) == ("step_limit", 7, 0.0)
    assert not any(step.valid for step in came.steps)


async def test_env_08_many_rollouts_of_a_task_begin_alike() -> None:
    tasks = (COOKING, SORTING, COIN)
    episodes = [Episode(task, 0, k, 0.0, max_steps=5) for k in range(3) for task in tasks]
    came = await play_many(Reader(["look around", "inventory"]), episodes, workers=6, model_name="reader")
    assert irreproducible(came) == set()
    for task in tasks:
        own = [[s.outcome for s in t.steps] for t in came if t.task == task.id]
        assert own[0] == own[1] == own[2]


@pytest.mark.parametrize(
    ("task", "there", "away"),
    [
        (COIN, "look around", "inventory"),
        (SORTING, "inventory", "look around"),
        (BOIL, "open cupboard", "wait1"),
    ],
    ids=["coin", "sorting", "boil"],
)
async def test_a_search_can_go_back(task: Task, there: str, away: str) -> None:
    stage = Stage(completed(Episode(task, 0, 0, 0.0), Wia()), "s")
    await stage.open()
    await stage.move(Decision(action=there))
    mark, seen = await stage.mark(), stage.seen
    for action in (away, there):
        await stage.move(Decision(action=action))
    await stage.back(mark)
    assert stage.seen == seen and [s.action for s in stage.steps] == [there]
    await stage.close()
