"""Setting: budgets that make sense, who chooses, and prompt sets that are a system's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from roleagent_lite.ask import load_prompts, make_prompt_set
from roleagent_lite.errors import ConfigError
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.systems.setting import kind_of, own_set
from roleagent_lite.types import TaskBudget
from tests.systems import make

MODULES = ("react", "reflexion", "value", "plan", "think")


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (TaskBudget("calls", None), "give unlimited"),
        (TaskBudget("unlimited", 3), "give unlimited"),
        (TaskBudget("calls", 0), "above 0"),
        (TaskBudget("dollars", -1.0), "above 0"),
        (TaskBudget("calls", 2.5), "whole number"),
    ],
)
async def test_a_budget_that_says_nothing_is_refused(tmp_path: Path, budget: TaskBudget, words: str) -> None:
    async with make.setting(tmp_path / "run", lambda _: "") as setting:
        with pytest.raises(ConfigError, match=words):
            replace(setting, budget=budget)


async def test_dollars_need_a_price(tmp_path: Path) -> None:
    class Unpriced(ScriptedModel):
        """Not known to be free."""

    async with make.setting(tmp_path / "run", lambda _: "") as setting:
        known = dict(setting.models.prices)
        setting.models.prices = dict.fromkeys(known)
        with pytest.raises(ConfigError, match="price of scripted is not known; give --price"):
            replace(setting, budget=TaskBudget("dollars", 1.0))
        setting.models.prices = known
        assert replace(setting, budget=TaskBudget("dollars", 1.0)).budget.words == "1 dollars a task"


@pytest.mark.parametrize(
    ("agent", "prompts", "can_score", "kind"),
    [
        ("auto", "embedded", True, "choose"),
        ("auto", "v1", True, "generate"),  # these prompts do not say how to score
        ("auto", "embedded", False, "generate"),
        ("generate", "embedded", True, "generate"),
        ("choose-pmi", "embedded", True, "choose"),
    ],
)
async def test_who_chooses(tmp_path: Path, agent: str, prompts: str, can_score: bool, kind: str) -> None:
    async with make.setting(
        tmp_path / "run", lambda _: "", prompts=prompts, can_score=can_score, agent=agent
    ) as setting:
        assert kind_of(setting) == kind


async def test_choosing_needs_a_model_that_scores(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", lambda _: "", agent="choose") as setting:
        with pytest.raises(ConfigError, match="scripted cannot; use --agent generate"):
            kind_of(setting)


async def test_a_systems_set_is_its_own_and_holds_what_it_asks_with(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", lambda _: "") as setting:
        react, other = own_set(setting, "react", ["react"]), own_set(setting, "adapt", ["react"])
        base = make_prompt_set({"act.instructions": "Evolved.", "act.playbook": "- Knock."})
        evolved = own_set(setting, "react", ["react"], base)
        capped = own_set(replace(setting, budget=make.calls(9)), "react", ["react"])
    assert len({react.id, other.id, evolved.id, capped.id}) == 4
    assert react.texts["system.name"] == "react" and react.why == "system react"
    assert react.texts["act.instructions"] == load_prompts("v1").module("act").texts["instructions"]
    assert "react.method" in react.texts and "react.instructions" not in react.texts
    assert evolved.texts["act.instructions"] == "Evolved." and evolved.parent == base.id
    assert load_prompts("v1").texts("react", evolved)["playbook"] == "- Knock."
    assert capped.texts["system.budget"] == "9 calls a task"


@pytest.mark.parametrize("name", ["v1", "embedded"])
def test_the_systems_modules_change_no_seed(name: str) -> None:
    """What evolves is the agent's prompt; a baseline's prompt file must not give the seed another id."""
    prompts = load_prompts(name)
    without = replace(prompts, modules={k: m for k, m in prompts.modules.items() if k not in MODULES})
    assert len(without.modules) < len(prompts.modules)
    assert prompts.seed_set().id == without.seed_set().id
