"""The stage: an episode that stands open, its ends, and the ways back in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roleagent_lite.config import Wia
from roleagent_lite.errors import EnvironmentFault, EpisodeEnd, ReplyError
from roleagent_lite.rollout import perform
from roleagent_lite.stage import STOP_AFTER, Episode, Stage, completed
from roleagent_lite.types import Decision, Outcome, PromptSet, Task, Trajectory
from tests.systems import make
from tests.toy import LOG, task

SET = PromptSet("abcdef123456", {})


async def opened(t: Task, **changes: int) -> Stage:
    stage = Stage(completed(Episode(t, 0, 0, 0.5, **changes), Wia()), "0/abc/t#0")  # type: ignore[arg-type]
    await stage.open()
    return stage


async def walk(stage: Stage, *actions: str) -> Outcome | None:
    outcome = None
    for action in actions:
        outcome = await stage.move(Decision(action, ("a", "b", "c"), "t", action, ("c1",)))
    return outcome


# --- moving -------------------------------------------------------------------------------------------


async def test_a_view_shows_the_present_and_the_last_steps() -> None:
    stage = await opened(task("view"))
    await walk(stage, "look around", "say hello.", "take key")
    view = stage.view()
    assert [s.action for s in view.history] == ["say hello.", "take key"]  # Toy shows two
    assert (view.step, view.max_steps, view.sample, view.temperature) == (4, 6, "0/abc/t#0", 0.5)
    assert view.observation.text == "You take the key."
    step = stage.steps[-1]
    assert (step.thought, step.call_ids, step.predictions) == ("t", ("c1",), ("a",))  # the horizon is 1


async def test_an_episode_ends_solved_lost_at_its_limit_or_in_a_loop() -> None:
    assert await walk(await opened(task("won")), "take key") is None
    assert await walk(await opened(task("won")), "take key", "open door") == Outcome("solved")
    lost = await opened(task("pit", "Lost"))
    assert await walk(lost, "take key") == Outcome("failed", "lost") and lost.score == 0.25
    assert await walk(await opened(task("short"), max_steps=1), "take key") == Outcome("failed", "step_limit")
    loop = await opened(task("loop"), max_steps=20)
    for _ in range(STOP_AFTER - 1):
        assert await walk(loop, "look around") is None
    assert await walk(loop, "look around") == Outcome("failed", "loop")


async def test_a_decision_without_an_action_is_refused_and_leaves_no_step() -> None:
    stage = await opened(task("mute"))
    with pytest.raises(ReplyError, match="gave no action"):
        await stage.move(Decision("  "))
    assert stage.steps == [] and LOG["mute"][-1] == []


# --- going back ---------------------------------------------------------------------------------------


async def test_going_back_plays_the_same_actions_in_a_fresh_environment() -> None:
    stage = await opened(task("back"))
    start = await stage.mark()
    await walk(stage, "take key")
    keyed = await stage.mark()
    await walk(stage, "look around")
    await stage.back(keyed)
    assert LOG["back"][1:] == [["take key"]]
    assert [s.action for s in stage.steps] == ["take key"] and stage.seen == keyed.seen
    assert await walk(stage, "open door") == Outcome("solved")
    await stage.back(start)
    assert stage.steps == [] and stage.seen == start.seen and stage.score == 0.0
    assert await walk(stage, "open door") is None  # the key is not taken any more


async def test_ahead_of_the_present_only_what_is_missing_is_played() -> None:
    stage = await opened(task("ahead"))
    await walk(stage, "look around")
    near = await stage.mark()
    await walk(stage, "take key")
    far = await stage.mark()
    await stage.back(near)
    made = len(LOG["ahead"])
    await stage.back(far)
    assert len(LOG["ahead"]) == made and LOG["ahead"][-1] == ["look around", "take key"]
    await stage.back(far)  # where one is already, nothing is played
    assert LOG["ahead"][-1] == ["look around", "take key"]


async def test_snapshots_are_used_where_there_are_some() -> None:
    make.SavedMaze.made = 0
    stage = await opened(make.task("SavedMaze"))
    start = await stage.mark()
    await walk(stage, "take left door", "go on")
    await stage.back(start)
    assert make.SavedMaze.made == 1
    assert await walk(stage, "take right door", "climb") == Outcome("solved")


async def test_another_start_or_another_answer_is_a_fault_that_says_where() -> None:
    fickle = await opened(make.task("Fickle"))
    start = await fickle.mark()
    await walk(fickle, "take left door")
    with pytest.raises(EnvironmentFault, match="not deterministic: at the start it showed"):
        await fickle.back(start)
    stage = await opened(task("told"))
    await walk(stage, "look around")
    mark = await stage.mark()
    other = replace(mark, steps=(replace(mark.steps[0], outcome="Something else."),))
    await walk(stage, "look around")
    with pytest.raises(EnvironmentFault, match="after 'look around' it showed"):
        await stage.back(other)


# --- performing ---------------------------------------------------------------------------------------


async def performed(stage_task: Task, *actions: str, end: Exception | None = None) -> Trajectory:
    async def script(stage: Stage) -> Outcome:
        outcome = await walk(stage, *actions)
        if end is not None:
            raise end
        assert outcome is not None
        return outcome

    episode = completed(Episode(stage_task, 0, 0, 0.0), Wia())
    return await perform(script, episode, name="n", prompt_set=SET, model_name="m")


async def test_who_plays_may_end_it_and_it_counts_as_played() -> None:
    end = EpisodeEnd("budget", "all is spent", ("c9",))
    played = await performed(task("end"), "take key", end=end)
    assert played.outcome == Outcome("failed", "budget") and played.score == 0.0
    assert (played.error, played.other_calls, len(played.steps)) == ("all is spent", ("c9",), 1)
    partly = await performed(task("pit", "Lost"), end=EpisodeEnd("gave_up", "no way"))
    assert partly.outcome == Outcome("failed", "gave_up") and partly.score == 0.25
    # Open goes on after its goal is reached: who gives up there has solved it.
    there = await performed(task("there", "Open"), "take key", "open door", end=EpisodeEnd("gave_up", "x"))
    assert there.outcome == Outcome("solved") and there.score == 1.0


async def test_calls_of_a_reply_that_could_not_be_used_are_kept() -> None:
    fault = ReplyError("bad_format", "wrong form", "no action in it", ("c7", "c8"))
    played = await performed(task("bad"), "take key", end=fault)
    assert played.outcome == Outcome("bad_format", "wrong form") and played.other_calls == ("c7", "c8")
