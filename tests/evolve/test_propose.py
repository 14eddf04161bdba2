"""Proposals: rewriting through the reflector, swapping without a call, and what makes a text unfit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from roleagent_lite.ask import Asker
from roleagent_lite.errors import BudgetStop, ReplyError
from roleagent_lite.evolve.demos import Demo
from roleagent_lite.evolve.propose import (
    Material,
    Means,
    Proposal,
    child_texts,
    fault,
    propose,
    rotated,
    unwrap,
)
from roleagent_lite.types import PromptSet
from tests.evolve.make import episode, step, task

TEXTS = {"act.instructions": "Act well.", "act.playbook": "", "act.demonstrations": ""}
PARENT = PromptSet("p" * 12, TEXTS)
ROW = {
    "task": "t",
    "goal": "put it away",
    "result": "0 of 4",
    "actions": "go",
    "diagnoses": [],
    "mispredictions": [],
}


class Answering:
    """Stands in for an Asker: gives one reply (or raises it) and keeps what it was asked."""

    def __init__(self, reply: str | Exception) -> None:
        self.reply = reply
        self.asked: list[tuple[str, Mapping[str, Any], dict[str, Any]]] = []

    async def ask(self, module: str, inputs: Mapping[str, Any], **how: Any) -> Any:
        self.asked.append((module, inputs, how))
        if isinstance(self.reply, Exception):
            raise self.reply
        return type("Answer", (), {"values": {"text": self.reply}})()


def means(reply: str | Exception = "Act better.", max_chars: int = 200) -> tuple[Means, Answering]:
    answering = Answering(reply)
    return Means(cast(Asker, answering), 0.5, max_chars, frozenset({"task", "observation"})), answering


def material(rows: int = 1, candidates: tuple[Demo, ...] = (), parent: PromptSet = PARENT) -> Material:
    return Material(parent, [ROW] * rows, [task("t")], [], candidates, "3/pppppppp")


def solved_demo() -> Demo:
    of = task("s", "put a mug away")
    return Demo(of, episode(of, steps=[step("take mug", "You take it.")]), 0.9)


async def test_the_reflector_sees_text_and_feedback_and_its_text_is_taken() -> None:
    how, asked = means()
    proposal = await propose(["act.instructions"], material(), how)
    assert proposal == Proposal("act.instructions", "Act better.", proposal.why, paid=True)
    module, inputs, options = asked.asked[0]
    assert module == "reflect" and inputs["current"] == "Act well." and "put it away" in inputs["feedback"]
    assert options["temperature"] == 0.5 and options["sample"] == "3/pppppppp/act.instructions"
    assert child_texts(TEXTS, proposal) == {**TEXTS, "act.instructions": "Act better."}


async def test_wm_05_no_failures_to_learn_from_skips_the_round_without_a_call() -> None:
    how, asked = means()
    proposal = await propose(["act.instructions"], material(rows=0), how)
    assert proposal.text is None and proposal.why == "no failures to learn from"
    assert asked.asked == []


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("<think>I should", "thinking tag"),
        ("maybe</think> Act.", "thinking tag"),
        ("Act.\n```json\n{", "never closes"),
        ("Act well.", "the old one"),
        ("x" * 201, "201 characters"),
        ("Look at {observation}.", "{observation}"),
        (ReplyError("cut_off", "max_tokens", "output cut at max tokens 512"), "output cut at max tokens 512"),
    ],
)
async def test_wm_05_an_unfit_proposal_is_rejected_and_the_old_text_kept(
    reply: str | Exception, why: str
) -> None:
    how, _ = means(reply)
    proposal = await propose(
        ["act.instructions", "act.demonstrations"], material(candidates=(solved_demo(),)), how
    )
    assert proposal.text is None and why in proposal.why and proposal.paid
    assert child_texts(TEXTS, proposal) == TEXTS


def test_wm_05_a_required_placeholder_may_not_get_lost() -> None:
    assert fault("Say {thing} twice.", "Say {thing}.", 100) is None
    assert "{thing}" in (fault("Say it.", "Say {thing}.", 100) or "")
    assert fault('Reply {"a": 1} and {0}.', "Say.", 100, frozenset({"a"})) is None


async def test_errors_that_end_a_run_pass_through() -> None:
    how, _ = means(BudgetStop("cap"))
    with pytest.raises(BudgetStop):
        await propose(["act.instructions"], material(), how)


async def test_demonstrations_are_swapped_without_a_call() -> None:
    how, asked = means()
    proposal = await propose(
        ["act.demonstrations", "act.instructions"], material(candidates=(solved_demo(),)), how
    )
    assert proposal.component == "act.demonstrations" and not proposal.paid and asked.asked == []
    assert proposal.text is not None and "> take mug\nYou take it." in proposal.text
    assert "1/aaaaaaaa/s#0" in proposal.why and proposal.shown == "s"


async def test_where_nothing_can_be_shown_the_next_component_is_rewritten() -> None:
    how, asked = means()
    proposal = await propose(["act.demonstrations", "act.playbook"], material(), how)
    assert proposal.component == "act.playbook" and len(asked.asked) == 1
    alone = await propose(["act.demonstrations"], material(), how)
    assert alone.text is None and "no solved episode" in alone.why


def test_unwrap_takes_a_fence_around_the_whole_only() -> None:
    assert unwrap("```\nAct.\n```") == "Act."
    assert unwrap("```text\nAct.\n\nThen stop.\n```\n") == "Act.\n\nThen stop."
    assert unwrap("Say:\n```\nx\n```") == "Say:\n```\nx\n```"


def test_rotated() -> None:
    assert rotated(["a", "b", "c"], "b") == ["b", "c", "a"]


async def test_a_users_long_text_may_stay_as_long_as_it_was() -> None:
    long = PromptSet("p" * 12, {**TEXTS, "act.instructions": "Act well. " * 40})
    how, asked = means("Act better. " * 33)
    proposal = await propose(["act.instructions"], material(parent=long), how)
    assert proposal.text is not None and len(proposal.text) > 200
    assert asked.asked[0][1]["limit"] == str(400 // 7)
    too_long, _ = means("Act better. " * 34)
    assert (await propose(["act.instructions"], material(parent=long), too_long)).text is None


async def test_an_episode_that_holds_a_placeholder_of_ours_is_not_shown() -> None:
    of = task("s", "say {task} twice")
    odd = Demo(of, episode(of, steps=[step("say it", "You say it.")]), 0.9)
    how, _ = means()
    assert (await propose(["act.demonstrations"], material(candidates=(odd,)), how)).text is None
    both = material(candidates=(odd, solved_demo()))
    shown = await propose(["act.demonstrations"], both, how)
    assert shown.text is not None and "{task}" not in shown.text
