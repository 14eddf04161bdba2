"""Wording: lists, contents, the examine texts in their order, both dialects."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.household import text
from roleagent_lite.envs.household.game import CLEAN, COOL, HOT, MOVE, PUT, SLICED, TOGGLED, Dialect, Thing


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "nothing"),
        (["egg 1"], "a egg 1"),
        (["egg 2", "egg 1"], "a egg 2, and a egg 1"),
        (["apple 1", "egg 2", "egg 1"], "a apple 1, a egg 2, and a egg 1"),
    ],
)
def test_listing(names: list[str], said: str) -> None:
    assert text.listing(names) == said


def test_listing_without_article() -> None:
    assert text.listing(["drawer 3", "drawer 2"], "") == "drawer 3, and drawer 2"


@pytest.mark.parametrize(
    ("openable", "opened", "said"),
    [
        (True, False, "The safe 1 is closed."),
        (True, True, "The safe 1 is open. In it, you see a pen 1."),
        (False, False, "On the safe 1, you see a pen 1."),
        (False, True, "On the safe 1, you see a pen 1."),
    ],
)
def test_contents(openable: bool, opened: bool, said: str) -> None:
    assert text.contents("safe 1", openable, opened, ["pen 1"]) == said


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (0, "There's nothing special about egg 1."),
        (SLICED, "This is a sliced egg 1."),
        (COOL, "This is a cold egg 1."),
        (CLEAN, "This is a clean egg 1."),
        (HOT, "This is a hot egg 1."),
        (CLEAN | COOL, "This is a cool and clean egg 1."),
        (CLEAN | HOT, "This is a hot and clean egg 1."),
        (COOL | SLICED, "This is a cool sliced egg 1."),
        (HOT | SLICED, "This is a hot sliced egg 1."),
        (CLEAN | SLICED, "This is a clean sliced egg 1."),
        (CLEAN | COOL | SLICED, "This is a cool and clean sliced egg 1."),
        (CLEAN | HOT | SLICED, "This is a hot and clean sliced egg 1."),
        (TOGGLED, "There's nothing special about egg 1."),
    ],
)
def test_thing(state: int, said: str) -> None:
    egg = Thing("egg 1", "eggtype", frozenset({"pickupable", "sliceable"}))
    assert text.thing(egg, state, []) == said


def test_a_container_is_always_normal() -> None:
    mug = Thing("mug 1", "mugtype", frozenset({"pickupable", "cleanable"}), container=True)
    assert text.thing(mug, CLEAN | HOT, []) == "This is a normal mug 1. In it, you see nothing."
    assert text.thing(mug, 0, ["pen 1"]) == "This is a normal mug 1. In it, you see a pen 1."


def test_a_lamp_in_the_hand() -> None:
    lamp = Thing("desklamp 1", "desklamptype", frozenset({"toggleable"}))
    assert text.thing(lamp, TOGGLED, []) == "This desklamp 1 is on."
    assert text.thing(lamp, 0, []) == "There's nothing special about desklamp 1."


def test_what_cannot_be_sliced_never_reads_as_sliced() -> None:
    pen = Thing("pen 1", "pentype", frozenset({"pickupable"}))
    assert text.thing(pen, SLICED, []) == "There's nothing special about pen 1."


def test_dialects() -> None:
    assert text.put_command(MOVE, "mug 1", "shelf 2") == "move mug 1 to shelf 2"
    assert text.put_command(PUT, "mug 1", "shelf 2") == "put mug 1 in/on shelf 2"
    assert "  move (object) to (receptacle):  place" in text.help_text(MOVE)
    assert "  put (object) in/on (receptacle):  place" in text.help_text(PUT)
    assert text.help_text(Dialect(help="Ask.")) == "Ask."


def test_facing() -> None:
    assert text.facing(["shelf 1"], []) == "You are facing the shelf 1. Next to it, you see nothing."
    assert text.facing(["shelf 2", "shelf 1"], ["pen 1"]) == (
        "You are facing the shelf 2, and shelf 1. Next to it, you see a pen 1."
    )
