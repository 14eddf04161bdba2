"""shapes: events of a report as they are written, and as a stranger may write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.report.shapes import SHAPES, checked
from roleagent_lite.store import Event
from tests.report.make import whole_run

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def test_events_of_a_real_run_pass(tmp_path: Any) -> None:
    with whole_run(tmp_path / "run") as run:
        events = [*run.events, *run.dispatched]
    assert {"start", "round", "candidate", "final", "session"} <= {e.kind for e in events}
    assert all(checked(e) is e for e in events)


@pytest.mark.parametrize("kind", sorted(SHAPES))
def test_fields_may_be_missing_and_others_are_not_looked_at(kind: str) -> None:
    for data in ({}, {"anything": [1, {"x": None}]}):
        assert checked(Event("k", kind, data)).data == data
    assert checked(Event("k", "another kind", {"round": "x"})).kind == "another kind"


@pytest.mark.parametrize(
    ("kind", "data", "where"),
    [
        ("round", {"round": "<script>"}, "round"),
        ("round", {"round": 1, "p": {"t": "0.5"}}, "p.t"),
        ("round", {"round": True}, "round"),
        ("round", {"drawn": "all"}, "drawn"),
        ("round", {"round": 10**400}, "round"),
        ("round", {"p": [1]}, "p"),
        ("candidate", {"wins": "| x |"}, "wins"),
        ("candidate", {"reason": {}}, "reason"),
        ("session", {"calls": "many"}, "calls"),
        ("session", {"seconds": float("inf")}, "seconds"),
        ("final", {"p": float("nan")}, "p"),
        ("start", {"counts": {"train": "4"}}, "counts.train"),
        ("lost", {"input": "100"}, "input"),
        ("note", {"text": ["x"]}, "text"),
    ],
)
def test_other_shapes_are_named(kind: str, data: dict[str, Any], where: str) -> None:
    with pytest.raises(RoleAgentError, match=f"event 'the key' .{kind}. has an odd '{where}'"):
        checked(Event("the key", kind, data))


@given(st.sampled_from(sorted(SHAPES)), st.data())
def test_anything_passes_or_is_named(kind: str, data: st.DataObject) -> None:
    names = sorted(SHAPES[kind].model_fields)
    event = Event("k", kind, {name: data.draw(JSON) for name in data.draw(st.lists(st.sampled_from(names)))})
    try:
        assert checked(event) is event
    except RoleAgentError as error:
        assert len(str(error)) < 600
