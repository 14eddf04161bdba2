"""The six goals, recognised by what they say; anything else refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.envs.household.game import Goal
from roleagent_lite.envs.household.goals import MAX_FACTS, read_goal
from roleagent_lite.envs.household.pddl import parse_lists, section
from roleagent_lite.errors import ConfigError
from tests.envs.household.rooms import recorded


def goal(text: str) -> Goal:
    return read_goal(section(parse_lists(f"(define (:goal {text}))"), ":goal"))


@pytest.mark.parametrize("game", recorded(), ids=lambda g: g["id"])
def test_recorded_goals(game: dict[str, Any]) -> None:
    found = read_goal(section(parse_lists(game["game"]["pddl_problem"]), ":goal"))
    params = game["traj_data"]["pddl_params"]
    obj, recep, toggle = (
        params[key].lower() + "type" * bool(params[key])
        for key in ("object_target", "parent_target", "toggle_target")
    )
    assert found == Goal(game["task_type"], obj, recep, toggle)


PLACED = ["(inreceptacle ?o ?r)", "(objecttype ?o mugtype)", "(receptacletype ?r shelftype)"]


@given(st.permutations([*PLACED, "(cleanable ?o)", "(isclean ?o)"]), st.sampled_from(["?o", "?zz", "?r1"]))
def test_order_and_names_do_not_matter(parts: list[str], name: str) -> None:
    text = f"(exists (?o - object ?r - receptacle) (and {' '.join(parts)}))".replace("?o", name)
    assert goal(text) == Goal("pick_clean_then_place_in_recep", "mugtype", "shelftype")


def test_the_older_lamp() -> None:
    found = goal(
        "(and (exists (?t - object ?a - agent ?l - location) (and (objecttype ?t desklamptype) "
        "(toggleable ?t) (istoggled ?t) (objectatlocation ?t ?l) (atlocation ?a ?l))) (exists (?o - object "
        "?a - agent) (and (objecttype ?o mugtype) (holds ?a ?o))))"
    )
    assert found == Goal("look_at_obj_in_light", "mugtype", toggle="desklamptype", loose_lamp=True)


@pytest.mark.parametrize(
    "text",
    [
        "(or (inreceptacle a b) (inreceptacle b a))",
        "(not (inreceptacle a b))",
        "(forall (?o - object) (isclean ?o))",
        "(exists (?o - object) (isclean ?o))",
        "(exists ?o (isclean ?o))",
        "(exists (o - object) (isclean o))",
        "(exists (?o - object))",
        "(isclean (?o))",
        "word",
        "()",
        "(and)",
        "(exists (?o - object ?r - receptacle) (and (inreceptacle ?r ?o) (objecttype ?o a) "
        "(receptacletype ?r b)))",
        "(exists (?o - object ?r - receptacle) (and (inreceptacle ?o mug) (objecttype ?o a) "
        "(receptacletype ?r b)))",
        "(exists (?o - object ?r - receptacle ?t - t) (and (inreceptacle ?o ?r) (objecttype ?o ?t) "
        "(receptacletype ?r b)))",
        # two things of different kinds, or twice the same thing
        "(exists (?o - object ?p - object ?r - receptacle) (and (inreceptacle ?o ?r) (inreceptacle ?p ?r) "
        "(objecttype ?o a) (objecttype ?p c) (receptacletype ?r b) (not (= ?o ?p))))",
        "(exists (?o - object ?p - object ?r - receptacle) (and (inreceptacle ?o ?r) (inreceptacle ?p ?r) "
        "(objecttype ?o a) (objecttype ?p a) (receptacletype ?r b) (not (= ?o ?o))))",
        # shadowing: the inner ?o is another object
        "(exists (?o - object ?r - receptacle) (and (inreceptacle ?o ?r) (objecttype ?o a) "
        "(receptacletype ?r b) (exists (?o - object) (and (isclean ?o) (cleanable ?o)))))",
    ],
)  # fmt: skip
def test_other_goals_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="the goal"):
        goal(text)


def test_a_goal_without_end_is_refused() -> None:
    many = " ".join(f"(isclean o{i})" for i in range(MAX_FACTS + 1))
    with pytest.raises(ConfigError, match=f"more than {MAX_FACTS} conditions"):
        goal(f"(and {many})")


def test_a_goal_of_many_equal_looking_conditions_is_refused_quickly() -> None:
    many = " ".join(f"(objecttype ?o t{i})" for i in range(MAX_FACTS))
    with pytest.raises(ConfigError, match="asks for objecttype"):
        goal(f"(exists (?o - object) (and {many}))")


def test_two_goals_are_refused() -> None:
    with pytest.raises(ConfigError, match="has 2 parts"):
        read_goal(["a", "b"])
