"""Rollouts: the five outcomes, near misses, notes and loops, many at once, and what ends a run."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.agents import make_agent
from roleagent_lite.ask import Asker, load_prompts
from roleagent_lite.config import RunConfig, Wia
from roleagent_lite.errors import (
    BudgetStop,
    ConfigError,
    ContentFiltered,
    ContextTooLong,
    FatalModelError,
    TransientModelError,
)
from roleagent_lite.lm.retry import Breaker, Retried
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.rollout import (
    Episode,
    admitted,
    completed,
    irreproducible,
    note_on,
    outline,
    play,
    play_many,
    repeats,
    trajectory_id,
)
from roleagent_lite.stage import NOTE_AFTER, STOP_AFTER
from roleagent_lite.store import Run
from roleagent_lite.types import (
    Agent,
    Decision,
    Model,
    Outcome,
    Progress,
    PromptSet,
    Reply,
    Request,
    Role,
    Step,
    Task,
    Trajectory,
    View,
)
from roleagent_lite.wia.horizon import horizon
from tests.toy import ACTIONS, LOG, task

V1 = load_prompts("v1")
SEED = V1.seed_set()


def say(action: str, **more: Any) -> str:
    return json.dumps({"thought": "t", "action": action, **more})


def winning(request: Request) -> str:
    """Takes the key, then opens the door."""
    return say("open door" if "You take the key." in request.messages[-1].content else "take key")


def agent_of(model: Any) -> Agent:
    """The prompted agent on a model, or on a rule."""
    models: dict[Role, Model] = {"agent": model if hasattr(model, "complete") else ScriptedModel(model)}
    return make_agent("generate", Asker(models, V1), SEED)


def episode(t: Task, rollout: int = 0, **changes: Any) -> Episode:
    return Episode(t, 0, rollout, 0.0, **changes)


async def played(model: Any, t: Task, **changes: Any) -> Trajectory:
    return await play(agent_of(model), episode(t, **changes), model_name="scripted")


def moves(name: str) -> list[str]:
    """What the last environment made for a task received."""
    return LOG[name][-1]


# --- one episode --------------------------------------------------------------------------------------


async def test_a_solved_episode_holds_what_was_seen_said_and_done() -> None:
    t = task("solved")
    trajectory = await played(lambda r: winning(r), t)
    assert trajectory.outcome == Outcome("solved") and trajectory.score == 1.0
    assert trajectory.id == f"0/{SEED.id[:8]}/solved#0"
    assert [s.action for s in trajectory.steps] == ["take key", "open door"]
    first = trajectory.steps[0]
    assert (first.state_key, first.outcome, first.thought) == ("no key, shut", "You take the key.", "t")
    assert json.loads(first.said)["action"] == "take key" and first.valid
    assert trajectory.steps[1].reward == 1.0
    assert trajectory.final_state_key == "key, open"
    assert (trajectory.max_steps, trajectory.prompt_set, trajectory.split) == (6, SEED.id, "train")
    assert trajectory.error is None


@pytest.mark.parametrize(
    "said",
    [
        '"take key"',
        "Take key.",
        "`take key`",
        "Action: take key",
        "> take key",
        "take key\nObservation: you hold it",
    ],
)
async def test_env_03_the_environment_receives_exactly_the_admissible_text(said: str) -> None:
    for reply in (said, say(said)):
        trajectory = await played(lambda _, r=reply: r, task("near"), max_steps=1)
        assert moves("near") == ["take key"]
        assert trajectory.steps[0].valid


async def test_env_03_a_listed_text_passes_unchanged() -> None:
    await played(lambda _: say("say hello."), task("hello"), max_steps=1)
    assert moves("hello") == ["say hello."]


async def test_env_03_without_a_list_only_marks_around_the_action_go() -> None:
    await played(lambda _: "Action: `take key`", task("free", "FreeToy"), max_steps=1)
    assert moves("free") == ["take key"]


async def test_env_01_repeating_without_effect_is_told_and_ends_as_a_loop() -> None:
    seen: list[str] = []

    def rule(request: Request) -> str:
        seen.append(request.messages[-1].content)
        return say("look around")

    trajectory = await played(rule, task("loop"), max_steps=20)
    assert trajectory.outcome == Outcome("failed", "loop")
    assert len(trajectory.steps) == len(seen) == STOP_AFTER
    told = ["without effect" in text for text in seen]
    assert told == [n >= NOTE_AFTER for n in range(STOP_AFTER)]
    within = await played(rule, task("loop2"), max_steps=4)
    assert within.outcome == Outcome("failed", "step_limit") and len(within.steps) == 4


async def test_a_loop_behind_a_reached_goal_is_solved() -> None:
    plan = iter(["take key", "open door", *["look around"] * 18])
    trajectory = await played(lambda _: say(next(plan)), task("open", "Open"), max_steps=20)
    assert len(trajectory.steps) == 2 + STOP_AFTER
    assert (trajectory.outcome, trajectory.score) == (Outcome("solved"), 1.0)


async def test_env_01_an_invalid_action_is_counted_and_told() -> None:
    seen: list[str] = []

    def rule(request: Request) -> str:
        seen.append(request.messages[-1].content)
        return say("fly away") if len(seen) == 1 else winning(request)

    trajectory = await played(rule, task("invalid"))
    assert [s.valid for s in trajectory.steps] == [False, True, True]
    assert "'fly away' is not admissible here and changed nothing" in seen[1]
    assert "not admissible here" not in seen[2]
    assert "> fly away  (not admissible)" in seen[1]
    assert trajectory.solved


async def test_env_06_an_environment_that_never_ends_is_cut_at_the_step_limit() -> None:
    model = ScriptedModel(lambda r: say(f"nonsense {len(r.messages[-1].content)}"))
    trajectory = await played(model, task("endless", "Endless"))
    assert trajectory.outcome == Outcome("failed", "step_limit")
    assert len(trajectory.steps) == 10 == model.requests
    assert not any(s.valid for s in trajectory.steps)


async def test_an_episode_that_the_environment_ends_unsolved_is_lost() -> None:
    trajectory = await played(lambda _: say("look around"), task("lost", "Lost"))
    assert (trajectory.outcome, trajectory.score) == (Outcome("failed", "lost"), 0.25)
    assert trajectory.final_state_key == "pit"


async def test_rep_05_an_empty_action_never_reaches_the_environment() -> None:
    async def at_once(_: float) -> None:
        return None

    model = ScriptedModel(lambda _: Reply("", finish="stop"))
    trajectory = await played(Retried(model, 2, Breaker(), sleep=at_once), task("empty"))
    assert trajectory.outcome == Outcome("infrastructure_error", "empty reply")
    assert model.requests == 3
    assert moves("empty") == [] and trajectory.steps == ()


async def test_rep_05_an_agent_that_gives_no_action_has_a_bad_format() -> None:
    class Mute:
        prompt_set = SEED

        async def act(self, view: View) -> Decision:
            return Decision("  ")

    trajectory = await play(Mute(), episode(task("mute")), model_name="none")
    assert trajectory.outcome == Outcome("bad_format", "empty action")
    assert moves("mute") == []


@pytest.mark.parametrize(
    ("reply", "outcome", "words", "requests"),
    [
        (
            Reply('{"action": "ta', finish="length"),
            Outcome("cut_off", "max_tokens"),
            "output cut at max tokens 1024",
            1,
        ),
        (Reply("no", finish="refusal"), Outcome("cut_off", "refused"), "refused", 2),
        (Reply("", finish="content_filter"), Outcome("cut_off", "filtered"), "filter", 1),
        (ContentFiltered("the filter refused"), Outcome("cut_off", "filtered"), "filter", 1),
        (ContextTooLong("too long"), Outcome("cut_off", "context"), "too long", 1),
        (Reply("I am not sure."), Outcome("bad_format", "wrong form"), "no JSON object", 2),
        (
            TransientModelError("stream cut: no end"),
            Outcome("infrastructure_error", "stream cut"),
            "no end",
            1,
        ),
        (TransientModelError("answered 503"), Outcome("infrastructure_error", "provider"), "503", 1),
    ],
)
async def test_rep_07_rep_08_net_05_net_09_a_failed_ask_ends_the_episode_by_its_reason(
    reply: Reply | Exception, outcome: Outcome, words: str, requests: int
) -> None:
    asked = 0

    def rule(request: Request) -> str | Reply:
        nonlocal asked
        if "You take the key." not in request.messages[1].content:
            return say("take key")
        asked += 1
        if isinstance(reply, Exception):
            raise reply
        return reply

    trajectory = await played(rule, task("ask"))
    assert trajectory.outcome == outcome
    assert words in (trajectory.error or "")
    assert asked == requests
    assert moves("ask") == ["take key"] and len(trajectory.steps) == 1
    assert trajectory.score == 0.0


@pytest.mark.parametrize(("shape", "kind"), [("four", "failed"), ("dict", "infrastructure_error")])
async def test_env_05_other_shapes_are_read_or_the_expected_one_is_stated(shape: str, kind: str) -> None:
    trajectory = await played(lambda _: say("look around"), task("shape", "Shape", shape=shape))
    assert trajectory.outcome.kind == kind
    if kind == "infrastructure_error":
        assert "must return roleagent_lite.types.Transition(observation, reward, done)" in (
            trajectory.error or ""
        )


async def test_predictions_are_kept_up_to_the_horizon() -> None:
    def rule(request: Request) -> str:
        return say("look around", predictions=["one", "two", "three"])

    two = await played(rule, task(), max_steps=1, horizon=2)
    assert two.steps[0].predictions == ("one", "two")
    none = await played(rule, task(), max_steps=1, predict=False)
    assert none.steps[0].predictions == ()


async def test_the_agent_sees_the_last_steps_only() -> None:
    views: list[View] = []

    class Watcher:
        prompt_set = SEED

        async def act(self, view: View) -> Decision:
            views.append(view)
            return Decision(ACTIONS[view.step % 2])

    await play(Watcher(), Episode(task(), 3, 1, 0.9), model_name="none", wia=Wia(horizon_share=0.5))
    assert [len(v.history) for v in views] == [0, 1, 2, 2, 2, 2]
    last = views[-1]
    assert [s.action for s in last.history] == [ACTIONS[0], ACTIONS[1]]
    assert (last.step, last.max_steps, last.horizon, last.temperature) == (6, 6, 3, 0.9)
    assert last.sample == f"3/{SEED.id[:8]}/t1#1"


async def test_an_unknown_environment_is_a_broken_system_not_a_failed_episode() -> None:
    with pytest.raises(ConfigError, match="no environment 'housold'"):
        await played(winning, Task("x", "housold", "goal"))


async def test_what_is_asked_again_at_a_resume_is_what_was_asked(tmp_path: Path) -> None:
    """A key or half a character in an observation is replaced before it is used, as where it is stored."""
    played = await play(agent_of(winning), episode(task(env="Talker")), model_name="m")
    assert {s.observation for s in played.steps} == {"The note says [key] \ufffd."}
    with Run.create(tmp_path / "r", RunConfig()) as run:
        run.trajectories.put(played)
        assert run.trajectories.get(played.id) == played


async def test_the_environments_key_in_a_traceback_is_scrubbed() -> None:
    t = task("faulty", "Faulty", **{"raise": True})
    trajectory = await played(lambda r: say(ACTIONS[len(moves("faulty")) % 2 * 3]), t)
    assert trajectory.outcome == Outcome("infrastructure_error", "environment")
    assert len(trajectory.steps) == 2 and trajectory.score == 0.0
    assert "KeyError" in (trajectory.error or "") and "toy.py" in (trajectory.error or "")
    assert "sk-abcdef" not in (trajectory.error or "")


# --- pure parts ---------------------------------------------------------------------------------------


def steps_of(*actions: str, keys: str = "") -> list[Step]:
    return [Step("o", a, "Nothing.", state_key=(keys[n] if keys else None)) for n, a in enumerate(actions)]


@pytest.mark.parametrize(
    ("actions", "keys", "times"),
    [
        ("", "", 0),
        ("a", "", 1),
        ("ab", "", 1),
        ("aaa", "", 3),
        ("baa", "", 2),
        ("ababab", "", 3),
        ("abcabc", "", 2),
        ("xabcabc", "", 2),
        ("aaa", "123", 1),
        ("ababab", "121212", 3),
        ("a" * 40, "", 18),
    ],
)
def test_equal_steps_and_cycles_are_counted(actions: str, keys: str, times: int) -> None:
    assert repeats(steps_of(*actions, keys=keys)) == times


def test_an_outcome_that_differs_is_no_repeat() -> None:
    assert repeats([Step("o", "a", "one"), Step("o", "a", "two")]) == 1


def test_notes_name_what_was_wrong() -> None:
    assert note_on([]) == "" == note_on(steps_of("a"))
    both = [dataclasses.replace(s, valid=False) for s in steps_of("a", "a", "a")]
    assert note_on(both).count("\n") == 1 and "'a' is not admissible" in note_on(both)


def test_what_is_not_admissible_is_sent_unwrapped_and_counted() -> None:
    assert admitted("> Fly.", ACTIONS) == ("Fly.", False)
    assert admitted("Say hello", ACTIONS) == ("say hello.", True)
    assert admitted("anything", ()) == ("anything", True)


@pytest.mark.parametrize("share", [0.05, 0.1, 0.29, 0.5, 1.0])
def test_the_horizon_is_the_one_of_wia(share: float) -> None:
    for limit in range(1, 200):
        done = completed(episode(task(), max_steps=limit), Wia(horizon_share=share))
        assert done.horizon == horizon(limit, share)


def test_limits_come_from_the_environment_unless_given() -> None:
    assert completed(episode(task()), Wia()).max_steps == 6
    assert completed(episode(task(), max_steps=3, horizon=2), Wia()) == episode(
        task(), max_steps=3, horizon=2
    )
    assert trajectory_id(episode(task("a/b"), 7), PromptSet("0123456789ab", {})) == "0/01234567/a/b#7"


# --- many at once -------------------------------------------------------------------------------------


async def test_env_05_one_environment_that_raises_leaves_the_others_alone() -> None:
    tasks = [task(f"five{i}", "Faulty", **({"raise": True} if i == 1 else {})) for i in range(5)]

    def rule(request: Request) -> str:
        if "five1" in request.sample:
            return say(ACTIONS[len(moves("five1")) % 2 * 3])
        return winning(request)

    played = await play_many(agent_of(rule), [episode(t) for t in tasks], workers=3, model_name="scripted")
    assert [t.task for t in played] == [t.id for t in tasks]
    assert [t.outcome.kind for t in played] == [
        "solved",
        "infrastructure_error",
        "solved",
        "solved",
        "solved",
    ]
    assert not played[1].outcome.scored and "Traceback" in (played[1].error or "")


async def test_env_08_the_same_seed_and_replies_give_the_same_trajectories() -> None:
    episodes = [episode(task(f"same{i}"), n) for i in range(3) for n in range(4)]
    runs = [await play_many(agent_of(winning), episodes, workers=w, model_name="scripted") for w in (1, 8)]
    one, many = ([dataclasses.replace(t, seconds=0.0) for t in run] for run in runs)
    assert one == many
    assert not irreproducible(one)


async def test_env_08_an_environment_that_ignores_its_seed_is_told_and_noted(tmp_path: Path) -> None:
    told: list[Progress] = []
    with Run.create(tmp_path / "run", RunConfig()) as run:
        for _ in range(2):  # the second time from the record
            dice = await play_many(
                agent_of(winning), [episode(task("dice", "Dice"), n) for n in range(2)],
                run=run, workers=1, model_name="scripted", listener=told.append,
            )  # fmt: skip
        assert irreproducible(dice) == {"dice"}
        assert "environment not reproducible: task 'dice'" in told[-1].note
        assert [e.data["text"] for e in run.events if e.kind == "note"] == [told[-1].note]


async def test_env_08_success_without_reward_is_warned_about_once() -> None:
    told: list[Progress] = []
    await play_many(
        agent_of(winning), [episode(task(f"u{n}", "Unpaid")) for n in range(3)],
        workers=2, model_name="scripted", listener=told.append, stage="dev",
    )  # fmt: skip
    assert sum("success without any reward" in p.note for p in told) == 1
    counted = [(p.done, p.solved) for p in told if not p.note]
    assert counted == [(1, 1), (2, 2), (3, 3)]
    assert told[0].stage == "dev" and told[0].total == 3


async def test_net_09_a_filtered_task_does_not_stop_the_other_nineteen() -> None:
    def rule(request: Request) -> str:
        if "n7#" in request.sample:
            raise ContentFiltered("content_filter")
        return winning(request)

    model = ScriptedModel(rule)
    played = await play_many(
        agent_of(model), [episode(task(f"n{i}")) for i in range(20)], workers=8, model_name="scripted"
    )
    kinds = [t.outcome.kind for t in played]
    assert kinds.count("solved") == 19 and played[7].outcome == Outcome("cut_off", "filtered")
    assert played[7].outcome.scored and not played[7].outcome.teaches
    assert model.requests == 19 * 2 + 1


async def test_no_more_than_the_workers_play_at_once() -> None:
    now = most = 0

    async def rule(request: Request) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.002)
        now -= 1
        return winning(request)

    model = ScriptedModel(rule)
    await play_many(agent_of(model), [episode(task(f"w{i}")) for i in range(12)], workers=3, model_name="m")
    assert most == 3
    assert await play_many(agent_of(model), [], workers=3, model_name="m") == []


async def test_finished_episodes_are_taken_from_the_run(tmp_path: Path) -> None:
    episodes = [episode(task(f"r{i}")) for i in range(4)]
    model = ScriptedModel(winning)
    with Run.create(tmp_path / "run", RunConfig()) as run:
        first = await play_many(agent_of(model), episodes[:2], run=run, workers=2, model_name="m")
        asked = model.requests
        both = await play_many(agent_of(model), episodes, run=run, workers=2, model_name="m")
        assert both[:2] == first and len(run.trajectories) == 4
        assert model.requests == asked + 4
    with Run.open(tmp_path / "run") as run:
        assert {t.id: t for t in run.trajectories} == {t.id: t for t in both}
        assert await play_many(agent_of(model), episodes, run=run, workers=2, model_name="m") == both
    assert model.requests == asked + 4


async def test_an_outline_is_kept_in_place_of_the_whole_and_the_run_has_the_whole(tmp_path: Path) -> None:
    episodes = [episode(task(f"o{i}"), rollout) for i in range(3) for rollout in range(2)]
    heard: list[Progress] = []
    with Run.create(tmp_path / "run", RunConfig()) as run:
        agent = agent_of(ScriptedModel(winning))
        kept = await play_many(
            agent, episodes, run=run, workers=2, model_name="m", keep=outline, listener=heard.append
        )
        assert kept == [outline(t) for t in (run.trajectories.get(one.id) for one in kept) if t is not None]
        assert all(len(t.steps) == 2 for t in run.trajectories)
    assert [(p.done, p.solved) for p in heard] == [(n, n) for n in range(1, 7)]


def test_an_outline_has_what_an_episode_is_counted_by() -> None:
    step = Step("seen", "go", "came", 0.5, "key", ("go",), "thought", ("foretold",), "said", True, ("a", "b"))
    whole = Trajectory(
        "0/x/t#0", "t", "x", "m", 0, 0, "test", (step, dataclasses.replace(step, call_ids=("c",))), 0.5,
        Outcome("failed", "lost"), error="a long trace", seconds=2.0, other_calls=("d",),
    )  # fmt: skip
    short = outline(whole)
    assert short.other_calls == ("a", "b", "c", "d")
    assert [(s.observation, s.state_key, s.admissible, s.call_ids) for s in short.steps] == [
        ("seen", "key", (), ())
    ]
    same = ("id", "task", "prompt_set", "rollout", "split", "score", "outcome", "seconds")
    assert all(getattr(short, name) == getattr(whole, name) for name in same)
    assert outline(short) == short
    assert irreproducible([short, dataclasses.replace(short, steps=())]) == set()
    other = dataclasses.replace(whole, steps=(dataclasses.replace(step, observation="else"),))
    assert irreproducible([short, outline(other)]) == {"t"}


async def test_net_07_a_fatal_error_cancels_all_workers_and_keeps_what_is_finished(tmp_path: Path) -> None:
    async def rule(request: Request) -> str:
        if "stop6#" in request.sample:
            raise FatalModelError("bad key")
        if request.sample.split("#")[0].endswith(("stop4", "stop5", "stop7")):
            await asyncio.sleep(30)  # cancelled, never waited for
        return winning(request)

    model = ScriptedModel(rule)
    episodes = [episode(task(f"stop{i}")) for i in range(50)]
    with Run.create(tmp_path / "run", RunConfig()) as run:
        with pytest.raises(FatalModelError, match="bad key"):
            await play_many(agent_of(model), episodes, run=run, workers=4, model_name="m")
        assert {t.task for t in run.trajectories} == {"stop0", "stop1", "stop2", "stop3"}
    asked = model.requests
    await asyncio.sleep(0.01)
    assert model.requests == asked
    assert len(asyncio.all_tasks()) == 1


async def test_acc_03_a_spent_budget_lets_calls_in_flight_come_in_and_starts_no_episode(
    tmp_path: Path,
) -> None:
    begun = answered = 0

    async def rule(request: Request) -> str:
        nonlocal begun, answered
        begun += 1
        if begun > 10:
            raise BudgetStop("cap reached")
        await asyncio.sleep(0.001 * (begun % 4))
        answered += 1
        return winning(request)

    model = ScriptedModel(rule)
    episodes = [episode(task(f"cap{i}")) for i in range(50)]
    with Run.create(tmp_path / "run", RunConfig()) as run:
        with pytest.raises(BudgetStop, match="cap reached"):
            await play_many(agent_of(model), episodes, run=run, workers=4, model_name="m")
        assert answered == 10  # none of the paid calls was cancelled
        assert begun <= 10 + 4  # each worker was refused once at most
        assert all(t.solved for t in run.trajectories)  # an episode in progress is no outcome
        assert 3 <= len(run.trajectories) <= 5
    assert len(asyncio.all_tasks()) == 1


async def test_an_interrupt_cancels_all_and_is_raised(tmp_path: Path) -> None:
    async def rule(request: Request) -> str:
        await asyncio.sleep(30)
        return "{}"

    with Run.create(tmp_path / "run", RunConfig()) as run:
        job = asyncio.ensure_future(
            play_many(
                agent_of(ScriptedModel(rule)), [episode(task(f"i{i}")) for i in range(9)],
                run=run, workers=8, model_name="m",
            )
        )  # fmt: skip
        await asyncio.sleep(0.05)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert len(run.trajectories) == 0
    assert len(asyncio.all_tasks()) == 1
