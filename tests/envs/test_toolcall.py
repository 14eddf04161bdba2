"""Calls as actions: what has the form of one, what its arguments are, how a tool is shown."""

from __future__ import annotations

from typing import Any

import pytest

from roleagent_lite.envs.toolcall import FORM, arguments, line, split


@pytest.mark.parametrize(
    ("action", "parts"),
    [
        ('add({"a": 1})', ("add", '{"a": 1}')),
        ("  add ( ) ", ("add", "")),
        ('a.b-c/d:e({"x": ")"})', ("a.b-c/d:e", '{"x": ")"}')),
        ('add({"a":\n 1})\n', ("add", '{"a":\n 1}')),
        ("The sum is 4 (I think).", None),
        ("add", None),
        ("", None),
        (FORM, None),
    ],
)
def test_the_form_of_a_call(action: str, parts: tuple[str, str] | None) -> None:
    assert split(action) == parts


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("", {}),
        ('{"a": [1, "x"]}', {"a": [1, "x"]}),
        ("a=1", "The arguments of add are no JSON: "),
        ("[1]", "The arguments of add must be one JSON object."),
        ("[" * 100_000, "The arguments of add are no JSON: "),
    ],
)
def test_arguments_are_one_object(written: str, read: Any) -> None:
    got = arguments("add", written)
    assert got == read if isinstance(read, dict) else str(got).startswith(read)


def test_a_tool_in_one_line() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {}, "c": True}, "required": ["a"]}
    assert line("add", " Adds\n two. ", schema) == '- add({"a": integer, "b"?: any, "c"?: any}) - Adds two.'
    assert line("stop", "", {}) == "- stop({})"
