"""ChooseAgent: the rules, the draw, the log that is shown, foretelling, and that nothing is asked twice."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from roleagent_lite.agents.choose import (
    ChooseAgent,
    draw,
    mean_rule,
    nearest_demonstrations,
    pmi_rule,
    segments,
)
from roleagent_lite.ask import Asker, load_prompts, make_prompt_set
from roleagent_lite.errors import ConfigError, ReplyError, TransientModelError
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.types import Observation, Reply, Request
from tests.agents.make import step, view

SMALL = load_prompts("embedded")
SEED = make_prompt_set({**SMALL.seed_set().texts, "act.demonstrations": ""})


class Scorer:
    """A model that prefers some actions: `likes[action]` is added to each token's log-probability."""

    def __init__(self, likes: dict[str, float] | None = None, foretold: str = "\nYou take the key.") -> None:
        self.likes = likes or {}
        self.foretold = foretold
        self.requests: list[Request] = []
        self.asker = Asker({"agent": ScriptedModel(self.answer, can_score=True)}, SMALL)

    def answer(self, request: Request) -> str | Reply:
        self.requests.append(request)
        if request.choices is None:
            return self.foretold
        scores = [
            tuple(-2.0 + self.likes.get(choice.strip(), 0.0) for _ in choice.split())
            for choice in request.choices
        ]
        return Reply("", scores=tuple(scores))

    def modules(self) -> Counter[str]:
        return Counter(request.module for request in self.requests)


# --- rules and draws ----------------------------------------------------------------------------------


def test_the_mean_rule_does_not_punish_long_actions() -> None:
    scores = [(-1.0,), (-1.0, -1.0, -1.0), (-0.5, -1.0)]
    assert mean_rule(scores, ()) == pytest.approx([-2.0, -2.0, -1.5])


def test_the_mean_rule_is_in_nats_of_a_whole_action() -> None:
    """Between two actions of equal length, differences are those of their log-probabilities."""
    first, second = mean_rule([(-1.0, -2.0), (-1.0, -4.0)], ())
    assert first - second == pytest.approx(2.0)


def test_the_pmi_rule_takes_off_what_the_text_is_worth_anywhere() -> None:
    assert pmi_rule([(-1.0, -1.0), (-4.0,)], [-1.0, -9.0]) == [-1.0, 5.0]
    with pytest.raises(ValueError, match="zip"):
        pmi_rule([(-1.0,)], [])


def test_at_zero_the_first_best_is_taken() -> None:
    assert draw([-2.0, -1.0, -1.0], 0.0, "any") == 1


def test_a_draw_depends_on_its_seed_alone_and_follows_the_softmax() -> None:
    values = [0.0, math.log(3.0)]
    drawn = [draw(values, 1.0, str(n)) for n in range(4000)]
    assert drawn == [draw(values, 1.0, str(n)) for n in range(4000)]
    assert sum(drawn) / len(drawn) == pytest.approx(0.75, abs=0.03)
    cool = [draw(values, 0.5, str(n)) for n in range(4000)]
    assert sum(cool) / len(cool) == pytest.approx(0.9, abs=0.03)


def test_very_unlikely_actions_do_not_overflow() -> None:
    assert draw([-1e6, 0.0], 0.01, "s") == 1


@pytest.mark.parametrize("values", [[], [float("nan")], [0.0, float("inf")]])
def test_scores_that_are_no_numbers_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="cannot choose"):
        draw(values, 0.0, "s")


# --- acting -------------------------------------------------------------------------------------------


async def test_the_best_admissible_action_is_taken_and_foretold() -> None:
    model = Scorer({"take key": 1.5})
    decision = await ChooseAgent(model.asker, SEED).act(view(temperature=0.0, horizon=1))
    assert (decision.action, decision.said) == ("take key", "take key")
    assert decision.predictions == ("You take the key.",)
    assert decision.thought == ""
    assert model.modules() == {"choose": 1, "foretell": 1}


async def test_the_log_stands_open_where_the_action_belongs() -> None:
    model = Scorer()
    past = (step("look around", "A hall."), step("take key", "You take the key."))
    shown = view(history=past, observation=Observation("You take the key.", ("open door",)), step=3)
    await ChooseAgent(model.asker, SEED).act(shown)
    choose, foretell = model.requests
    log = f"Goal: {shown.task.goal}\nbefore\n> look around\nA hall.\n> take key\nYou take the key.\n>"
    assert choose.messages[-1].role == "assistant"
    assert choose.messages[-1].content == log
    assert choose.choices == (" open door",)
    assert foretell.messages[-1].content == f"{log} open door"
    assert choose.messages[:-1] == foretell.messages[:-1]


async def test_evolved_texts_reach_both_requests() -> None:
    texts = {"act.instructions": "I", "act.playbook": "P", "act.demonstrations": "Goal: x\n> y\nz"}
    model = Scorer()
    await ChooseAgent(model.asker, make_prompt_set(texts)).act(view())
    for request in model.requests:
        assert request.messages[0].content == "I\n\nP"
        assert request.messages[-1].content.startswith("Goal: x\n> y\nz\n\nGoal: ")


@pytest.mark.parametrize("shown", [1, 3, None])
async def test_of_many_demonstrations_those_most_like_the_goal_are_shown(shown: int | None) -> None:
    """As many as the module `choose` says; all, where there is none (no agent that chooses, then)."""
    model = Scorer()
    goal = view().task.goal
    text = "\n\n".join(
        f"Goal: {g}\n> go" for g in (goal, "dance", f"{goal} {goal} soon", "sing", f"{goal} now")
    )
    prompt_set = make_prompt_set({**SEED.texts, "act.demonstrations": text})
    likest = [f"{goal} now", f"{goal} {goal} soon", goal]
    if shown is None:
        others = replace(SMALL, modules={k: v for k, v in SMALL.modules.items() if k != "choose"})
        assert nearest_demonstrations(others, prompt_set, goal) is prompt_set
        return
    model.asker.prompts = replace(
        SMALL, modules={**SMALL.modules, "choose": replace(SMALL.module("choose"), shown=shown)}
    )
    await ChooseAgent(model.asker, prompt_set).act(view())
    for request in model.requests:
        log = request.messages[-1].content
        found = [block.splitlines()[0].removeprefix("Goal: ") for block in log.split("\n\n")]
        assert found == [*likest[-shown:], goal]
        assert "dance" not in log and "sing" not in log


async def test_a_warm_draw_is_seeded_by_episode_and_step() -> None:
    model = Scorer()
    agent = ChooseAgent(model.asker, SEED)
    actions = [(await agent.act(view(temperature=5.0, sample=f"e#{n}"))).action for n in range(40)]
    assert actions == [(await agent.act(view(temperature=5.0, sample=f"e#{n}"))).action for n in range(40)]
    assert len(set(actions)) > 1


async def test_a_move_costs_more_each_time_it_is_made_again_in_an_episode() -> None:
    agent = ChooseAgent(Scorer({"take key": 1.0, "open door": 0.9}).asker, SEED)

    async def move(step: int, sample: str = "e#0") -> str:
        return (await agent.act(view(temperature=0.0, step=step, sample=sample))).action

    assert [await move(n) for n in (1, 2)] == ["take key", "open door"]
    assert [await move(n, "e#1") for n in (1, 2)] == ["take key", "open door"]  # no other episode's business
    assert await move(1) == "take key"  # the episode is played anew


async def test_a_move_that_is_far_better_is_made_again() -> None:
    agent = ChooseAgent(Scorer({"take key": 9.0}).asker, SEED)
    moves = [(await agent.act(view(temperature=0.0, step=n))).action for n in (1, 2)]
    assert moves == ["take key", "take key"]


async def test_equal_views_are_scored_and_foretold_once_also_side_by_side() -> None:
    model = Scorer({"take key": 1.0})
    agents = [ChooseAgent(model.asker, SEED) for _ in range(3)]
    views = [view(temperature=0.0, sample=f"e#{n}") for n in range(4)]
    decisions = await asyncio.gather(*(agent.act(v) for agent in agents for v in views))
    assert {d.action for d in decisions} == {"take key"}
    assert model.modules() == {"choose": 1, "foretell": 1}
    assert {request.sample for request in model.requests} == {"score", "foretell"}


async def test_draws_follow_the_seed() -> None:
    async def drawn(seed: int) -> list[str]:
        agent = ChooseAgent(Scorer().asker, SEED, seed=seed)
        return [(await agent.act(view(sample=f"e#{n}", predict=False))).action for n in range(30)]

    first = await drawn(0)
    assert first == await drawn(0) != await drawn(1)
    assert len(set(first)) > 1


async def test_a_failed_request_is_asked_again_by_the_next() -> None:
    model = Scorer()
    answer, fails = model.answer, [True]

    def once(request: Request) -> str | Reply:
        if fails and fails.pop():
            raise TransientModelError("overloaded")
        return answer(request)

    asker = Asker({"agent": ScriptedModel(once, can_score=True)}, SMALL)
    agent = ChooseAgent(asker, SEED)
    with pytest.raises(ReplyError):
        await agent.act(view())
    assert (await agent.act(view())).action


async def test_pmi_asks_for_each_actions_prior_once_in_a_run() -> None:
    model = Scorer()
    agent = ChooseAgent(model.asker, SEED, rule="pmi")
    shown = view(temperature=0.0)
    await agent.act(shown)
    await agent.act(
        view(temperature=0.0, observation=Observation("Elsewhere.", shown.observation.admissible))
    )
    priors = [r.choices for r in model.requests if r.module == "prior"]
    assert priors == [(f" {action}",) for action in shown.observation.admissible]
    assert all(r.messages[-1].content == ">" for r in model.requests if r.module == "prior")


async def test_pmi_prefers_what_the_situation_speaks_for() -> None:
    model = Scorer()
    actions = view().observation.admissible

    def answer(request: Request) -> Reply | str:
        common = {actions[0]: -1.0, actions[1]: -6.0}
        here = {actions[0]: -2.0, actions[1]: -3.0}
        table = common if request.module == "prior" else here
        return Reply("", scores=tuple((table.get(c.strip(), -9.0),) for c in request.choices or ()))

    asker = Asker({"agent": ScriptedModel(answer, can_score=True)}, SMALL)
    shown: dict[str, Any] = {"temperature": 0.0, "predict": False}
    assert (await ChooseAgent(asker, SEED).act(view(**shown))).action == actions[0]
    assert (await ChooseAgent(asker, SEED, rule="pmi").act(view(**shown))).action == actions[1]
    assert model.requests == []


async def test_without_predictions_there_is_one_request() -> None:
    model = Scorer()
    decision = await ChooseAgent(model.asker, SEED).act(view(predict=False))
    assert decision.predictions == () and model.modules() == {"choose": 1}
    other = Scorer()
    await ChooseAgent(other.asker, SEED, "off").act(view())
    assert other.modules() == {"choose": 1}


# --- foretelling --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "horizon", "expected"),
    [
        ("\nYou see a mug.", 1, ("You see a mug.",)),
        ("\nA hall.\nIt is dark.\n> go on\nA wall.", 2, ("A hall.\nIt is dark.", "A wall.")),
        ("\nA hall.\n> go on\nA wall.\n> stop\nEnd.", 2, ("A hall.", "A wall.")),
        ("\nA hall.", 3, ("A hall.", None, None)),
        ("\n> go on\nA wall.", 2, (None, "A wall.")),
        ("", 1, (None,)),
    ],
)
def test_answers_of_the_world_are_read_off_the_log(
    text: str, horizon: int, expected: tuple[str | None, ...]
) -> None:
    assert segments(text, horizon) == expected


async def test_one_step_ahead_the_reply_ends_before_the_next_move() -> None:
    model = Scorer()
    await ChooseAgent(model.asker, SEED).act(view(horizon=1))
    assert model.requests[-1].stop == ("\n>", "\n\n")
    assert model.requests[-1].max_tokens == SMALL.module("foretell").max_tokens
    assert model.requests[-1].schema is None


async def test_several_steps_ahead_it_writes_on() -> None:
    model = Scorer(foretold="\nYou take it.\n> go\nA door.")
    decision = await ChooseAgent(model.asker, SEED).act(view(horizon=2))
    assert decision.predictions == ("You take it.", "A door.")
    assert model.requests[-1].stop == ("\n\n",)


async def test_a_prediction_cut_at_its_limit_counts_as_far_as_it_goes() -> None:
    model = Scorer()
    model.answer = lambda request: (  # type: ignore[method-assign]
        Reply("\nYou see a", finish="length") if request.choices is None else Scorer().answer(request)
    )
    asker = Asker({"agent": ScriptedModel(model.answer, can_score=True)}, SMALL)
    decision = await ChooseAgent(asker, SEED).act(view(horizon=1))
    assert decision.predictions == ("You see a",)


async def test_a_world_that_cannot_be_foretold_leaves_the_action_in_force() -> None:
    model = Scorer(foretold="")
    decision = await ChooseAgent(model.asker, SEED).act(view(horizon=2))
    assert decision.action and decision.predictions == (None, None)


async def test_broken_transport_while_foretelling_ends_the_step() -> None:
    model = Scorer()

    def broken(request: Request) -> str | Reply:
        if request.module == "foretell":
            raise TransientModelError("overloaded")
        return model.answer(request)

    asker = Asker({"agent": ScriptedModel(broken, can_score=True)}, SMALL)
    with pytest.raises(ReplyError) as caught:
        await ChooseAgent(asker, SEED).act(view(horizon=1))
    assert (caught.value.kind, caught.value.reason) == ("infrastructure_error", "provider")


async def test_prompts_without_a_log_ask_the_module_predict() -> None:
    modules = {name: file for name, file in SMALL.modules.items() if name != "foretell"}
    from dataclasses import replace

    model = Scorer(foretold='{"predictions": ["You take it."]}')
    asker = Asker({"agent": ScriptedModel(model.answer, can_score=True)}, replace(SMALL, modules=modules))
    decision = await ChooseAgent(asker, SEED).act(view(horizon=1))
    assert decision.predictions == ("You take it.",)
    assert model.modules() == {"choose": 1, "predict": 1}


# --- what cannot be ------------------------------------------------------------------------------------


async def test_an_environment_without_admissible_actions_is_told() -> None:
    with pytest.raises(ConfigError, match="use the agent 'generate'"):
        await ChooseAgent(Scorer().asker, SEED).act(view(observation=Observation("A hall.")))


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'mean'"):
        ChooseAgent(Scorer().asker, SEED, rule="means")


async def test_a_model_that_cannot_score_is_told() -> None:
    asker = Asker({"agent": ScriptedModel(lambda _: "{}")}, SMALL)
    with pytest.raises(ConfigError, match="cannot score"):
        await ChooseAgent(asker, SEED).act(view())


@pytest.mark.embedded
async def test_real_model_plays_a_step_and_foretells_it_in_words() -> None:
    from roleagent_lite.lm.embedded import EmbeddedModel

    asker = Asker({"agent": EmbeddedModel.open("embedded")}, SMALL)
    decision = await ChooseAgent(asker, SMALL.seed_set()).act(view(temperature=0.0, horizon=1))
    assert decision.action in view().observation.admissible
    assert decision.predictions[0] and ">" not in decision.predictions[0]
