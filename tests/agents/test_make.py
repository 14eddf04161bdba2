"""Agents by name."""

from __future__ import annotations

import pytest

from roleagent_lite.agents import AGENTS, make_agent, settled
from roleagent_lite.agents.chance import RandomAgent
from roleagent_lite.agents.choose import ChooseAgent
from roleagent_lite.agents.external import ExternalAgent
from roleagent_lite.agents.generate import GenerateAgent
from roleagent_lite.ask import Asker, load_prompts
from roleagent_lite.config import RunConfig, Wia
from roleagent_lite.errors import ConfigError
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.types import Request, Task, View
from tests.agents.make import SEED, asker, view

PLAIN = asker(lambda _: '{"action": "take key"}')


def plays_door(v: View, prompts: object, ask: object) -> str:
    return "open door"


def test_auto_writes_where_a_world_lists_no_actions() -> None:
    """The embedded model chooses among actions; in a shell or a search there is nothing to choose among."""
    small = load_prompts("embedded")
    house, shell = Task("a", "household", "g"), Task("b", "shell", "g")
    config = RunConfig()
    assert settled(config, small, [house]) is config
    assert settled(config, small, [house, shell]).agent == "generate"
    assert settled(config, load_prompts(), [shell]) is config  # auto is generate there anyway
    chosen = RunConfig(agent="choose")
    assert settled(chosen, small, [shell]) is chosen
    assert settled(config, small, [Task("c", "no_such_module:Class", "g")]) is config


def test_names_and_what_they_make() -> None:
    assert set(AGENTS) == {"generate", "choose", "choose-pmi", "auto", "random"}
    assert isinstance(make_agent("generate", PLAIN, SEED), GenerateAgent)
    assert isinstance(make_agent("random", PLAIN, SEED), RandomAgent)
    assert isinstance(make_agent("auto", PLAIN, SEED), GenerateAgent)
    assert make_agent("generate", PLAIN, SEED).prompt_set is SEED
    with pytest.raises(ConfigError, match=r"no agent 'genrate'; did you mean 'generate'.*module:callable"):
        make_agent("genrate", PLAIN, SEED)


def test_auto_is_choose_where_the_model_can_score_and_the_prompts_say_how() -> None:
    assert isinstance(make_agent("auto", asker(lambda _: "{}", can_score=True), SEED), GenerateAgent)
    small = load_prompts("embedded")
    able = Asker({"agent": ScriptedModel(lambda _: "{}", can_score=True)}, small)
    assert isinstance(make_agent("auto", able, small.seed_set()), ChooseAgent)
    unable = Asker({"agent": ScriptedModel(lambda _: "{}")}, small)
    assert isinstance(make_agent("auto", unable, small.seed_set()), GenerateAgent)


@pytest.mark.parametrize("name", ["choose", "choose-pmi"])
def test_a_model_that_cannot_score_is_refused_before_its_first_call(name: str) -> None:
    with pytest.raises(
        ConfigError, match="scores given actions, which scripted cannot; use --agent generate"
    ):
        make_agent(name, PLAIN, SEED)


async def test_the_setting_predict_reaches_the_agent() -> None:
    seen: list[Request] = []

    def rule(request: Request) -> str:
        seen.append(request)
        return '{"action": "take key"}'

    await make_agent("generate", asker(rule), SEED, Wia(predict="off")).act(view())
    assert seen[0].schema is not None and "predictions" not in seen[0].schema["properties"]


async def test_the_seed_reaches_an_agent_that_draws() -> None:
    async def draws(seed: int) -> list[str]:
        agent = make_agent("random", PLAIN, SEED, seed=seed)
        return [(await agent.act(view(step=n))).action for n in range(1, 41)]

    assert await draws(1) == await draws(1) != await draws(2)


async def test_the_users_own_agent_by_path() -> None:
    own = make_agent("tests.agents.test_make:plays_door", PLAIN, SEED)
    assert isinstance(own, ExternalAgent)
    assert (await own.act(view())).action == "open door"
