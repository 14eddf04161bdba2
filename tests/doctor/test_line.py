"""The shape of a line."""

from __future__ import annotations

from roleagent_lite.doctor.line import Line, ok, problem, warning


def test_the_three_ways_to_make_one() -> None:
    assert ok("a", "b") == Line("a", "ok", "b", "")
    assert warning("a", "b", "c") == Line("a", "warning", "b", "c")
    assert problem("a", "b", "c").state == "problem"
