"""hindsight: moves as a solution of other tasks of their room, each proved by playing it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roleagent_lite.envs.household.env import Household
from roleagent_lite.envs.household.hindsight import reached
from roleagent_lite.tasksets import content_id, load_tasks
from roleagent_lite.types import Task

LAYOUT = {
    "start": 4,
    "room": {
        "bed 1": {"place": 1, "holds": ["pen 1", "pillow 1"]},
        "desk 1": {"place": 2, "holds": ["desklamp 1", "pen 2"]},
        "sinkbasin 1": {"place": 3, "holds": ["cloth 1"]},
    },
    "fits": {"bed": ["pen", "pillow", "cloth"], "desk": ["desklamp", "pen", "pillow", "cloth"],
             "sinkbasin": ["cloth"]},
    "can": {"pen": [], "pillow": [], "cloth": ["cleanable"], "desklamp": ["toggleable"]},
    "openable": [],
}  # fmt: skip
TASK = Task(
    "t", "household", "put a pillow in desk",
    params={"tier": "easy", "type": "pick_and_place_simple", "object": "pillow", "receptacle": "desk",
            "layout": LAYOUT},
)  # fmt: skip
TO_DESK = ["go to bed 1", "take pen 1 from bed 1", "go to desk 1", "move pen 1 to desk 1"]


def goals(actions: list[str], task: Task = TASK) -> dict[str, tuple[str, int]]:
    return {t.params["type"]: (t.params["object"], len(moves)) for t, moves in reached(task, actions)}


def test_a_thing_put_somewhere_is_two_goals_where_another_lies_there() -> None:
    # one pen lies on the desk from the start: "put a pen in desk" holds already and teaches nothing
    assert goals(TO_DESK) == {"pick_two_obj_and_place": ("pen", 4)}
    ((other, moves),) = reached(TASK, TO_DESK)
    assert other.goal in ("put two pen in desk", "find two pen and put them in desk")
    assert (other.parent, other.split) == ("t", "train") and "lamp" not in other.params
    assert list(moves) == TO_DESK
    env = Household(other)
    assert [env.step(a).done for a in TO_DESK] == [False, False, False, True]


@pytest.mark.parametrize("treated", [True, False])
def test_a_treated_thing_is_a_treated_goal_as_well(treated: bool) -> None:
    actions = ["go to sinkbasin 1", "take cloth 1 from sinkbasin 1", "clean cloth 1 with sinkbasin 1",
               "go to bed 1", "move cloth 1 to bed 1"]  # fmt: skip
    if not treated:
        actions.remove("clean cloth 1 with sinkbasin 1")
    found = goals(actions)
    assert found.pop("pick_and_place_simple") == ("cloth", 4)  # to clean it did nothing for that
    assert found == ({"pick_clean_then_place_in_recep": ("cloth", 5)} if treated else {})


def test_a_thing_held_under_a_lamp_was_looked_at() -> None:
    actions = ["go to bed 1", "take pillow 1 from bed 1", "go to desk 1", "use desklamp 1"]
    ((other, moves),) = reached(TASK, actions)
    assert (other.params["type"], other.params["lamp"], list(moves)) == (
        "look_at_obj_in_light", "desklamp", actions
    )  # fmt: skip
    assert "receptacle" not in other.params and "pillow" in other.goal


def test_its_own_goal_and_moves_that_cannot_be_made_are_left_out() -> None:
    own = ["go to bed 1", "take pillow 1 from bed 1", "go to desk 1", "move pillow 1 to desk 1"]
    assert goals(own) == {}
    assert goals(TO_DESK[1:]) == {} == goals([])


@pytest.mark.parametrize(
    "played",
    [
        ["go to bed 1", "take pillow 1 from bed 1", "move pillow 1 to bed 1", *TO_DESK[1:]],
        [*TO_DESK[:2], "move pen 1 to bed 1", *TO_DESK[1:]],
        [*TO_DESK[:3], "go to bed 1", "examine pen 1", *TO_DESK[2:]],
        [*TO_DESK[:2], "go to sinkbasin 1", "examine sinkbasin 1", *TO_DESK[2:], "go to bed 1"],
        ["examine bed 1", *TO_DESK],
    ],
)
def test_what_did_nothing_for_the_goal_is_cut_out(played: list[str]) -> None:
    ((_, moves),) = reached(TASK, [a for a in played if a != "examine bed 1"])
    assert list(moves) == TO_DESK


def test_the_search_for_a_thing_stays_each_place_once() -> None:
    ((_, moves),) = reached(TASK, ["go to sinkbasin 1", "go to desk 1", "go to sinkbasin 1", *TO_DESK])
    assert list(moves) == ["go to desk 1", "go to sinkbasin 1", *TO_DESK]


def test_games_from_files_are_left_alone() -> None:
    assert reached(replace(TASK, params={"game": "x.tw-pddl"}), TO_DESK) == []


def test_every_shipped_plan_that_reaches_more_reaches_it() -> None:
    """On all training rooms: what is said to be solved is, after as many moves, and at no other time."""
    count = 0
    for task in [t for t in load_tasks("household-easy") if t.split == "train"]:
        actions = Household(task).walkthrough()
        for other, moves in Household(task).hindsight(actions):
            count += 1
            env = Household(other)
            assert env.score() == 0
            assert [env.step(a).done for a in moves] == [False] * (len(moves) - 1) + [True]
            rest = iter(actions)
            assert all(move in rest for move in moves)  # its own moves, in their order
            row = {"env": other.env, "goal": other.goal, "seed": 0, "params": other.params, "split": "train"}
            assert other.id == content_id(row) and other.id != task.id
    assert count > 10
