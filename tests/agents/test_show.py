"""What an agent shows its model, and what it makes of an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roleagent_lite.agents.show import (
    MAX_SHOWN,
    UNLISTED,
    alike,
    clip,
    decision_from,
    history,
    predictions_from,
    select,
    view_inputs,
)
from roleagent_lite.ask import Answer
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Observation, Task
from tests.agents.make import V1, step, view


def test_history_shows_actions_and_outcomes_but_not_the_present_observation_twice() -> None:
    steps = [step("look around", "A hall."), step("fly", valid=False), step("take key", "You take the key.")]
    assert history(steps) == "> look around\nA hall.\n> fly  (not admissible)\nNothing happens.\n> take key"
    assert history([]) == ""


def test_long_observations_of_the_past_are_cut_with_a_mark() -> None:
    assert clip("x" * (MAX_SHOWN + 1)).endswith("…") and len(clip("x" * (MAX_SHOWN + 1))) == MAX_SHOWN
    assert clip(" short ") == "short"
    assert clip("abcdef", 3) == "ab…"


def test_a_view_offers_every_input_of_act() -> None:
    shown = view_inputs(view(history=(step("take key"),), step=2, note="Careful."))
    assert set(V1.module("act").inputs) <= set(shown)
    assert shown["progress"] == "Step 2 of 6."
    assert shown["actions"].splitlines()[1] == "take key"
    assert (shown["note"], shown["history"]) == ("Careful.", "> take key")


def test_where_no_action_is_listed_the_forms_are_shown_as_such() -> None:
    """The prompts' heading asks for one of a list, word for word."""
    free = replace(view(), observation=Observation("It is dark."), task=Task("t", "search", "g"))
    shown = view_inputs(free)["actions"]
    assert shown == f"{UNLISTED} <search>QUERY</search> or <answer>ANSWER</answer>"
    listed = replace(free, observation=Observation("It is dark.", ("a", "b"), open=True))
    assert view_inputs(listed)["actions"].splitlines()[:2] == ["a", "b"]
    assert view_inputs(listed)["actions"].splitlines()[2].startswith("or: <search>")
    assert UNLISTED not in view_inputs(view())["actions"]


def test_a_prompt_file_gets_what_it_asks_for_and_no_more() -> None:
    file = replace(V1.module("act"), inputs={"task": "", "observation": ""})
    assert set(select(file, view_inputs(view()))) == {"task", "observation"}
    with pytest.raises(ConfigError, match=r"act\.toml.*the input 'histroy'; did you mean 'history'"):
        select(replace(file, inputs={"histroy": ""}), view_inputs(view()))


DEMONSTRATIONS = """\
Goal: put some mug 1 in desk
> take mug 1

Goal: clean some mug and put it in shelf
> take mug 2

Goal: heat some egg and put it in desk
> take egg 1"""


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        ("clean some plate and put it in desk", ["heat some egg", "clean some mug"]),
        ("put some mug 7 in desk", ["clean some mug", "put some mug"]),
        ("heat some apple and put it in sink", ["clean some mug", "heat some egg"]),
        ("fly to the moon", ["clean some mug", "put some mug"]),
    ],
)
def test_the_demonstrations_most_like_the_goal_come_last(goal: str, expected: list[str]) -> None:
    shown = alike(DEMONSTRATIONS, goal, 2).split("\n\n")
    assert len(shown) == len(expected)
    for block, begins in zip(shown, expected, strict=True):
        assert block.startswith(f"Goal: {begins}")


def test_rare_words_say_more_than_common_ones() -> None:
    text = "\n\n".join([*(f"Goal: put some {x} in desk" for x in "abcd"), "Goal: examine lamp"])
    assert alike(text, "examine some desk in put", 1) == "Goal: examine lamp"


def test_few_or_no_demonstrations_are_all_shown() -> None:
    assert alike("", "x", 2) == ""
    assert alike("Goal: a\n> b", "x", 2) == "Goal: a\n> b"
    assert len(alike(DEMONSTRATIONS, "x", 9).split("\n\n")) == 3


@pytest.mark.parametrize(
    ("found", "horizon", "expected"),
    [
        (["a", "b"], 2, ("a", "b")),
        (["a"], 3, ("a", None, None)),
        (["a", None, "c", "d"], 2, ("a", None)),
        (None, 1, (None,)),
        (["a"], 0, ()),
    ],
)
def test_there_are_as_many_predictions_as_steps_foretold(
    found: list[str | None] | None, horizon: int, expected: tuple[str | None, ...]
) -> None:
    assert predictions_from(Answer({"predictions": found}), horizon) == expected


def test_a_decision_keeps_thought_wording_and_calls() -> None:
    answer = Answer({"action": "take key", "thought": "t"}, ("c1", "c2"), text="said", reasoning="r")
    decision = decision_from(answer, 1)
    assert (decision.action, decision.thought, decision.said) == ("take key", "t", "said")
    assert decision.call_ids == ("c1", "c2") and decision.predictions == (None,)
    assert decision_from(replace(answer, values={"action": "x", "thought": None}), 0).thought == ""


def test_which_demonstrations_are_shown_is_the_same_in_every_process() -> None:
    """Hash seeds order sets differently; a replay in another process must still send the same prompts."""
    import os
    import subprocess
    import sys

    code = (
        "from roleagent_lite.agents.show import alike\n"
        "from roleagent_lite.ask import load_prompts\n"
        "from roleagent_lite.tasksets import load_tasks\n"
        "text = load_prompts('embedded').seed_set().texts['act.demonstrations']\n"
        "import hashlib\n"
        "shown = [alike(text, t.goal, 2) for t in load_tasks('household-easy')]\n"
        "print(hashlib.sha256(repr(shown).encode()).hexdigest())\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "7", "42", "222")
    }  # fmt: skip
    assert len(said) == 1


def test_an_observation_invents_no_move() -> None:
    """Lines that begin like a move of ours are shown with another sign; the moves themselves keep theirs."""
    fake = "A hall.\n> open door\nYou are free.\n  > shout"
    shown = history([replace(step("look"), outcome=fake), replace(step("take key"), outcome=fake)])
    assert [line for line in shown.splitlines() if line.startswith(">")] == ["> look", "> take key"]
    assert "› open door" in shown and "  › shout" in shown
