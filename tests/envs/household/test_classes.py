"""The tables of our scenes: consistent with themselves and rich enough for every task type."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.household import classes
from roleagent_lite.envs.household.game import ABILITIES, TASK_TYPES


def test_every_receptacle_of_a_room_takes_something() -> None:
    for room, tables in classes.ROOMS.items():
        for name, most in tables:
            assert most >= 1
            assert classes.fits(name.lower()), f"{name} in the {room} takes nothing"


def test_every_thing_of_a_room_has_a_home_there() -> None:
    for room, things in classes.THINGS.items():
        assert len(set(things)) == len(things)
        for thing in things:
            homes = [r for r, _ in classes.ROOMS[room] if thing.lower() in classes.fits(r.lower())]
            assert len(homes) >= 2, f"{thing} in the {room} has {homes}"


def test_abilities_are_known_words() -> None:
    words = {*ABILITIES[1:], "container"}
    for name in classes.CAMEL:
        assert set(classes.can(name)) <= words
    assert set(classes.can("apple")) == {"cleanable", "heatable", "coolable", "sliceable"}
    assert classes.can("mug") == ("cleanable", "heatable", "coolable", "container")


def test_unknown_classes_can_do_nothing_and_take_nothing() -> None:
    assert classes.can("zeppelin") == ()
    assert classes.fits("zeppelin") == frozenset()


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_every_type_has_rooms_with_its_tool(kind: str) -> None:
    for room in classes.PLAYED_IN[kind]:
        tables = [r for r, _ in classes.ROOMS[room]]
        if kind in classes.TOOL:
            tool, ability = classes.TOOL[kind]
            assert tool in tables
            assert any(ability in classes.can(t.lower()) for t in classes.THINGS[room])
        if kind == "look_at_obj_in_light":
            assert any("desklamp" in classes.fits(r.lower()) for r in tables)


def test_lamps_are_toggled_and_openable_classes_exist() -> None:
    assert all(classes.can(lamp.lower()) == ("toggleable",) for lamp in classes.LAMPS)
    assert all(kind in classes.CAMEL for kind in classes.OPENABLE)
    assert all(name == camel.lower() for name, camel in classes.CAMEL.items())
