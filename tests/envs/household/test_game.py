"""Task rows: what is read, the order of display, and that every wrong row is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.envs.household.engine import Engine
from roleagent_lite.envs.household.game import (
    COOL,
    MOVE,
    PUT,
    TASK_TYPES,
    Goal,
    LayoutError,
    class_of,
    display_key,
    game_from_row,
)
from roleagent_lite.errors import ConfigError
from tests.envs.household.rooms import kitchen


def read(params: Any) -> Any:
    return game_from_row("goal", params)


def test_a_row() -> None:
    game = read(kitchen())
    assert [r.name for r in game.receptacles] == [
        "countertop 1", "drawer 2", "drawer 1", "fridge 1", "microwave 1", "sinkbasin 1",
    ]  # fmt: skip
    assert [t.name for t in game.things] == ["apple 2", "apple 1", "desklamp 1", "egg 1", "knife 1", "mug 1"]
    assert game.goal == Goal("pick_cool_then_place_in_recep", "appletype", "drawertype")
    assert game.places[game.start] == "loc 4"
    assert [r.opened for r in game.receptacles if r.openable] == [True, False, False, False]
    assert (game.sentence, game.dialect, game.held) == ("goal", MOVE, None)
    lamp = game.things[2]
    assert lamp.abilities == {"toggleable"} and not lamp.container
    mug = game.things[5]
    assert mug.abilities == {"pickupable", "cleanable", "coolable"} and mug.container
    assert ("drawertype", "appletype") in game.fits and ("drawertype", "mugtype") not in game.fits


def test_our_own_tables_serve_where_a_row_has_none() -> None:
    params = kitchen()
    del params["layout"]["fits"], params["layout"]["can"]
    game = read(params)
    apple = next(t for t in game.things if t.name == "apple 1")
    assert {"pickupable", "cleanable", "heatable", "coolable", "sliceable"} == apple.abilities
    assert ("microwavetype", "appletype") in game.fits


def test_states_and_dialect() -> None:
    params = kitchen(dialect="put")
    params["layout"]["state"] = {"apple 1": ["cool"]}
    game = read(params)
    assert game.things[1].state == COOL
    assert game.dialect == PUT
    assert "iscool(apple 1)" in Engine(game).facts()


def test_classes_of_ones_own() -> None:
    params = {
        "type": "pick_and_place_simple", "object": "spanner", "receptacle": "toolbox",
        "layout": {
            "start": 1, "fits": {"toolbox": ["spanner"]}, "openable": ["toolbox"],
            "room": {"bench 1": {"place": 2, "holds": ["spanner 1"]}, "toolbox 1": {"place": 3}},
        },
    }  # fmt: skip
    engine = Engine(read(params))
    for command in ("go to bench 1", "take spanner 1 from bench 1", "go to toolbox 1", "open toolbox 1"):
        assert engine.step(command)[1]
    assert engine.step("move spanner 1 to toolbox 1") == ("You move the spanner 1 to the toolbox 1.", True)
    assert engine.won


def test_display_order_is_the_original_one() -> None:
    names = [
        "applesliced 1",
        "apple 1",
        "apple 10",
        "apple 2",
        "sinkbasin 1",
        "sidetable 1",
        "sofa 1",
    ]
    assert sorted(names, key=display_key) == [
        "apple 10", "apple 2", "apple 1", "applesliced 1", "sidetable 1", "sinkbasin 1", "sofa 1",
    ]  # fmt: skip
    assert class_of("mug 3") == "mug"


def changed(path: str, value: Any) -> dict[str, Any]:
    """Kitchen params with one value set; `path` is dotted, "-" deletes."""
    params = kitchen()
    *parents, last = path.split(".")
    node = params
    for key in parents:
        node = node[key]
    if value == "-":
        del node[last]
    else:
        node[last] = value
    return params


WRONG: list[tuple[str, Any, str]] = [
    ("layout", "-", "params needs layout (an object) or game (the path of a game.tw-pddl), found tier"),
    ("layout", None, "params.layout must be an object, found NoneType"),
    ("layout", [], "params.layout must be an object, found list"),
    ("layout.rom", {}, "unknown key 'rom'; did you mean 'room'"),
    ("layout.room", {}, "needs 1 to 400 receptacles, found 0"),
    ("layout.room", {f"shelf {i}": {"place": 1} for i in range(1, 500)}, "found 499"),
    ("layout.room.Shelf 1", {"place": 1}, "lower-case class and a number such as 'mug 1', found 'Shelf 1'"),
    ("layout.room.shelf", {"place": 1}, "found 'shelf'"),
    ("layout.room.shelf 0", {"place": 1}, "found 'shelf 0'"),
    ("layout.room.drawer 1", 3, "'drawer 1' must be an object, found int"),
    ("layout.room.drawer 1.hold", [], "unknown key 'hold'; did you mean 'holds'"),
    ("layout.room.drawer 1.place", "-", "the place of 'drawer 1' must be a whole number"),
    ("layout.room.drawer 1.place", True, "whole number from 1 to 9999, found True"),
    ("layout.room.drawer 1.place", 0, "found 0"),
    ("layout.room.drawer 1.place", 10**30, "whole number"),
    ("layout.room.drawer 1.opened", "yes", "opened='yes'"),
    (
        "layout.room.countertop 1.opened",
        True,
        "'countertop 1' cannot be opened=True; openable: cabinet, drawer",
    ),
    ("layout.room.drawer 1.holds", "pen 1", "must be a list of texts, found 'pen 1'"),
    ("layout.room.drawer 1.holds", [3], "must be a list of texts"),
    ("layout.room.drawer 1.holds", ["pen"], "a thing in 'drawer 1' must be a lower-case class"),
    ("layout.room.drawer 1.holds", ["apple 1"], "'apple 1' is in two places"),
    ("layout.room.drawer 1.holds", ["drawer 1"], "'drawer 1' is in two places"),
    ("layout.room.drawer 1.holds", [f"pen {i}" for i in range(1, 2500)], "at most 2000 things, found 2505"),
    ("layout.start", "-", "layout.start must be a whole number"),
    ("layout.start", 1.5, "found 1.5"),
    ("layout.fits", [], "layout.fits must be an object"),
    ("layout.fits.drawer", "apple", "layout.fits.drawer must be a list"),
    ("layout.can", 3, "layout.can must be an object"),
    ("layout.can.apple", ["fly"], "layout.can.apple has 'fly'"),
    ("layout.can.apple", ["heatabel"], "did you mean 'heatable'"),
    ("layout.openable", {}, "layout.openable must be a list"),
    ("layout.state", {"pen 9": ["hot"]}, "unknown key 'pen 9'"),
    ("layout.state", {"apple 1": ["boiling"]}, "layout.state of 'apple 1' has 'boiling'"),
    ("type", "-", "params.type is None; known:"),
    ("type", "pick_and_place_simpel", "did you mean 'pick_and_place_simple'"),
    ("type", ["x"], "params.type is"),
    ("object", "-", "params.object must be a lower-case class, found None"),
    ("object", "Two Words", "params.object must be a lower-case class"),
    ("receptacle", 7, "params.receptacle must be a lower-case class, found 7"),
    ("dialect", "shout", "params.dialect is 'shout'"),
]


@pytest.mark.parametrize(
    ("path", "value", "said"), WRONG, ids=[f"{p}-{i}" for i, (p, _, _) in enumerate(WRONG)]
)
def test_wrong_rows_are_named(path: str, value: Any, said: str) -> None:
    with pytest.raises(LayoutError) as caught:
        read(changed(path, value))
    assert said in str(caught.value)
    assert str(caught.value).startswith("household task: ")
    assert len(str(caught.value)) < 1000


def test_light_needs_a_lamp() -> None:
    with pytest.raises(ConfigError, match=r"params\.lamp"):
        read(kitchen(type="look_at_obj_in_light"))
    game = read(kitchen(type="look_at_obj_in_light", lamp="desklamp"))
    assert game.goal == Goal("look_at_obj_in_light", "appletype", toggle="desklamptype")


def test_cyclic_params_are_refused() -> None:
    loop: dict[str, Any] = {}
    loop["room"] = loop
    with pytest.raises(ConfigError):
        read({**kitchen(), "layout": loop})


def test_both_templates_of_each_type_name_the_object() -> None:
    for kind, templates in TASK_TYPES.items():
        assert len(templates) == 2
        for words in templates:
            said = words.format(obj="OBJ", recep="RECEP", toggle="TOGGLE")
            assert "OBJ" in said and ("TOGGLE" if kind.startswith("look") else "RECEP") in said


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["mug 1", "place"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
paths = st.sampled_from(sorted({p for p, _, _ in WRONG if "Shelf" not in p}))


@given(paths, values)
def test_any_value_anywhere_is_read_or_refused(path: str, value: Any) -> None:
    try:
        game = read(changed(path, value))
    except ConfigError as error:
        assert str(error).startswith("household task: ")
        return
    assert Engine(game).admissible()
