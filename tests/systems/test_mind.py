"""Minds: which module is asked with what, and what becomes of replies that cannot be used."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.ask import Asker
from roleagent_lite.config import Wia
from roleagent_lite.errors import ConfigError, ReplyError, TransientModelError
from roleagent_lite.rollout import trajectory_of
from roleagent_lite.stage import Episode, Stage, completed
from roleagent_lite.systems.meter import Meter, MeteredAsker
from roleagent_lite.systems.mind import MAX_PARTS, ChooseMind, GenerateMind, Mind, Plan, Told
from roleagent_lite.systems.words import COMPLETED, FAILED
from roleagent_lite.types import Decision, Message, Outcome, PromptSet, Reply, Request, Task, TaskBudget
from tests.systems import make
from tests.toy import task

NAME = "0/abc/t1#0"
SET = PromptSet("s", {})
TOLD = Told(("Knock first.",), "find the key", ("open the box",), (COMPLETED, FAILED))


@asynccontextmanager
async def minded(
    folder: Path, rule: make.Rule, *, choose: bool = False, seed: int = 0, at: Task | None = None, **how: Any
) -> AsyncIterator[tuple[Mind, Stage]]:
    """A mind before an open stage."""
    how = {"prompts": "embedded" if choose else "v1", "can_score": choose, **how}
    async with make.setting(folder / "run", rule, **how) as setting:
        asker = MeteredAsker(Asker(setting.models, setting.prompts), Meter(TaskBudget(), setting.run), NAME)
        kind = ChooseMind if choose else GenerateMind
        stage = Stage(completed(Episode(at or task(), 0, 0, 0.0), Wia()), NAME)
        await stage.open()
        yield kind(asker, setting.prompts.seed_set(), seed), stage


class Ear:
    """Keeps what it is asked, and answers by module."""

    def __init__(self, **replies: str) -> None:
        self.replies = replies
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> str | Reply:
        self.requests.append(request)
        if request.choices is not None:
            return Reply("", scores=tuple((-1.0 - k, -1.0) for k in range(len(request.choices))))
        return self.replies[request.module]

    @property
    def text(self) -> str:
        return self.requests[-1].messages[-1].content


REPLIES = {
    "react": make.move("take key", "the key first"),
    "value": json.dumps({"thought": "so so", "score": 7}),
    "reflexion": json.dumps({"reflection": "I  was\ntoo slow."}),
    "plan": json.dumps({"logic": "OR", "steps": ["a", " ", *"bcdefg"]}),
    "think": json.dumps({"thought": "the  key"}),
}


async def test_a_written_move_is_asked_with_all_that_is_told(tmp_path: Path) -> None:
    ear = Ear(**REPLIES)
    async with minded(tmp_path, ear) as (mind, stage):
        decision = await mind.move(stage, TOLD, sample=f"{NAME}/node3.1", temperature=1.0)
        plain = await mind.move(stage, Told())
    assert (decision.action, decision.thought) == ("take key", "the key first")
    assert len(decision.call_ids) == 1 and plain.action == "take key"
    first, second = ear.requests
    assert (first.sample, first.temperature) == (f"{NAME}/node3.1", 1.0)
    assert (second.sample, second.temperature) == (NAME, 0.0)
    shown = first.messages[-1].content
    assert "- Knock first." in shown and "Do only this part of it now: find the key" in shown
    assert shown.rstrip().endswith(f"{COMPLETED}\n{FAILED}")
    properties: Any = (first.schema or {})["properties"]
    assert properties["action"]["enum"][-2:] == [COMPLETED, FAILED]
    assert "Knock" not in second.messages[-1].content and COMPLETED not in second.messages[-1].content


async def test_a_world_without_a_list_gets_no_list(tmp_path: Path) -> None:
    ear = Ear(**REPLIES)
    async with minded(tmp_path, ear, at=task("free", "FreeToy")) as (mind, stage):
        await mind.move(stage, TOLD)
    properties: Any = (ear.requests[0].schema or {})["properties"]
    assert "enum" not in properties["action"] and "Admissible" not in ear.text
    assert f"answer with the action '{COMPLETED}'" in ear.text


async def test_a_value_lies_in_0_to_1_and_knows_lessons_and_the_whole_path(tmp_path: Path) -> None:
    ear = Ear(**REPLIES)
    async with minded(tmp_path, ear) as (mind, stage):
        for action in ("look around", "say hello.", "take key"):
            await stage.move(Decision(action, thought=f"{action}?"))
        assert await mind.value(stage, TOLD, sample=f"{NAME}/value1") == pytest.approx(0.7)
    assert "- Knock first." in ear.text and "> think: look around?\n> look around" in ear.text


async def test_a_reflection_reads_the_whole_try(tmp_path: Path) -> None:
    ear = Ear(**REPLIES)
    async with minded(tmp_path, ear) as (mind, stage):
        await stage.move(Decision("look around", thought="hm"))
        tried = trajectory_of(stage, Outcome("failed", "loop"), name="n", prompt_set=SET, model_name="m")
        found = await mind.reflect(tried, task(), ["Knock first."], sample="r")
    assert found == "I was too slow."
    assert "1. look around (thought: hm) -> Nothing happens." in ear.text
    assert "It ended: failed (loop), score 0.00, after 1 of at most 6 steps" in ear.text
    assert "- Knock first." in ear.text and ear.requests[0].sample == f"{NAME}/r"


async def test_a_plan_is_cut_and_cleaned(tmp_path: Path) -> None:
    ear = Ear(**REPLIES)
    async with minded(tmp_path, ear) as (mind, stage):
        assert await mind.plan(stage, "find it", sample="p") == Plan(("a", "b", "c", "d", "e"), "OR")
    assert "The task to split: find it" in ear.text and MAX_PARTS == 5
    properties: Any = (ear.requests[0].schema or {})["properties"]
    assert properties["logic"]["enum"] == ["AND", "OR"]


async def test_unusable_words_are_empty_and_broken_transport_is_raised(tmp_path: Path) -> None:
    async with minded(tmp_path / "a", lambda _: "no form") as (mind, stage):
        assert await mind.plan(stage, "x", sample="p") == Plan()
        tried = trajectory_of(stage, Outcome("failed"), name="n", prompt_set=SET, model_name="m")
        assert await mind.reflect(tried, task(), (), sample="r") == ""
        with pytest.raises(ReplyError, match="no usable reply"):
            await mind.move(stage, Told())

    def broken(request: Request) -> str:
        raise TransientModelError("overloaded")

    async with minded(tmp_path / "b", broken, limits={"retries": 0}) as (mind, stage):
        with pytest.raises(ReplyError):
            await mind.plan(stage, "x", sample="p")
        with pytest.raises(ReplyError):
            await mind.reflect(tried, task(), (), sample="r")


# --- choosing -----------------------------------------------------------------------------------------


async def test_a_chosen_move_stands_behind_a_written_thought(tmp_path: Path) -> None:
    ear = Ear(**REPLIES)
    async with minded(tmp_path, ear, choose=True) as (mind, stage):
        decision = await mind.move(stage, TOLD)
    think, choose = ear.requests
    assert (decision.thought, decision.action) == ("the key", "look around")  # the first scores best
    assert len(decision.call_ids) == 2
    assert "Goal: find the key" in think.messages[-1].content
    assert choose.choices is not None and choose.choices[-2:] == (f" {COMPLETED}", f" {FAILED}")
    assert choose.messages[-1].content.endswith(
        "Goal: find the key\nLesson: Knock first.\nYou are in a hall. There is a key and a door.\n"
        "> think: the key\nOK.\n>"
    )
    assert choose.messages[-1] == Message("assistant", choose.messages[-1].content)


async def test_what_is_scored_already_is_not_scored_again(tmp_path: Path) -> None:
    ear = Ear(**REPLIES)
    async with minded(tmp_path, ear, choose=True) as (mind, stage):
        first = await mind.move(stage, Told(), sample="a", temperature=1.0)
        second = await mind.move(stage, Told(), sample="b", temperature=1.0)
    assert [r.module for r in ear.requests] == ["think", "choose", "think"]
    assert len(first.call_ids) == 2 and len(second.call_ids) == 1


async def test_moves_already_made_cost(tmp_path: Path) -> None:
    async with minded(tmp_path, Ear(**REPLIES), choose=True) as (mind, stage):
        made = []
        for _ in range(3):
            decision = await mind.move(stage, Told())
            made.append(decision.action)
            await stage.move(decision)
    assert len(set(made)) == 3


async def test_warm_draws_follow_seed_and_sample(tmp_path: Path) -> None:
    async def drawn(seed: int) -> list[str]:
        async with minded(tmp_path / str(seed), Ear(**REPLIES), choose=True, seed=seed) as (mind, stage):
            return [
                (await mind.move(stage, Told(), sample=f"n{k}", temperature=2.0)).action for k in range(20)
            ]

    first = await drawn(0)
    assert len(set(first)) > 1 and first != await drawn(1) and first == await drawn(0)


async def test_a_chosen_value_is_the_chance_of_yes(tmp_path: Path) -> None:
    ear = Ear(**REPLIES)
    async with minded(tmp_path, ear, choose=True) as (mind, stage):
        await stage.move(Decision("take key", thought="hm"))
        value = await mind.value(stage, TOLD, sample="v")
    assert value == pytest.approx(1 / (1 + math.exp(-1.0)))  # " yes" is better by a nat
    assert ear.requests[0].choices == (" yes", " no")
    assert "Lesson: Knock first." in ear.text and "> think: hm\n> take key" in ear.text


async def test_without_a_usable_thought_the_move_is_chosen_all_the_same(tmp_path: Path) -> None:
    async with minded(tmp_path, Ear(think="no form"), choose=True) as (mind, stage):
        decision = await mind.move(stage, Told())
    assert decision.action == "look around" and decision.thought == "" and len(decision.call_ids) == 3


async def test_a_world_without_a_list_cannot_be_chosen_from(tmp_path: Path) -> None:
    async with minded(tmp_path, Ear(**REPLIES), choose=True, at=task("free", "FreeToy")) as (mind, stage):
        with pytest.raises(ConfigError, match="use the agent 'generate'"):
            await mind.move(stage, Told())
