"""Reading calls: what is one, what is none, and that nothing is ever evaluated."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.envs.tools.calls import MOST_CALLS, MOST_TEXT, BadCalls, Call, read

KNOWN = ("cd", "ls", "grep", "mean", "send")
CD, LS = Call("cd", (), {"folder": "x"}), Call("ls", (), {})


@pytest.mark.parametrize(
    "text",
    [
        "cd(folder='x'); ls()",
        "[cd(folder='x'), ls()]",
        "cd(folder='x'), ls()",
        "cd(folder='x')\nls()",
        "  [ cd(folder='x') ,\n   ls() ] ",
        "```python\ncd(folder='x')\nls()\n```",
        "```\n[cd(folder='x'), ls()]\n```",
        "cd(folder='x')  # go there\nls()  # and look; done",
        "(cd(folder='x'), ls(),)",
    ],
)
def test_the_ways_to_write_two_calls(text: str) -> None:
    assert read(text, KNOWN) == [CD, LS]


@pytest.mark.parametrize("text", ["done", "Done", " DONE. ", "done()", "done!", "[]", "()", "```\ndone\n```"])
def test_the_ways_to_end_a_turn(text: str) -> None:
    assert read(text, KNOWN) == []


@pytest.mark.parametrize(
    ("text", "arguments", "keywords"),
    [
        ("send('a', -1.5)", ("a", -1.5), {}),
        ("send(text='a;b()', to=None)", (), {"text": "a;b()", "to": None}),
        ("send([1, 2, (3, 'x')], {'a': [True]})", ([1, 2, (3, "x")], {"a": [True]}), {}),
        (r"send('it\'s\n\"', '\d')", ("it's\n\"", "\\d"), {}),
        ("send('f(x=g())')", ("f(x=g())",), {}),
        ("send('a' 'b', text=1_000)", ("ab",), {"text": 1000}),
        ("send('grüße ☃')", ("grüße ☃",), {}),
    ],
)
def test_arguments_are_literals(text: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    assert read(text, KNOWN) == [Call("send", arguments, keywords)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no call"),
        ("```\n```", "there is no call"),
        ("I have moved the file.", "cannot be read as calls"),
        ("cd(folder='x'", "cannot be read as calls"),
        ("cd(folder='x', folder='y')", "cd: folder is given twice"),
        ("cd\0()", "cannot be read as calls"),
        ("x = ls()", "only calls can be made"),
        ("import os", "only calls can be made"),
        ("for i in [1]: ls()", "only calls can be made"),
        ("cd", "cd needs brackets"),
        ("ls(); done", "done stands alone"),
        ("[ls(), done]", "done stands alone"),
        ("ls(), 'x'", "''x'' is not a call"),
        ("[ls() for _ in range(9)]", "is not a call"),
        ("(lambda: 1)()", "is not the name of a function"),
        ("cd.ls()", "'cd.ls' is not the name of a function"),
        ("fs.ls()", "'fs.ls' is not the name of a function"),
        ("ls()()", "is not the name of a function"),
        ("sl()", "there is no function 'sl'; did you mean 'ls'?"),
        ("__import__('os').system('true')", "is not the name of a function"),
        ("eval('1')", "there is no function 'eval'"),
        ("mean(*[1])", "without *"),
        ("mean(**{'a': 1})", "without **"),
        ("mean(numbers=[mean(1)])", "the argument '[mean(1)]' is not a literal"),
        ("cd(folder=ls())", "the argument 'ls()' is not a literal"),
        ("cd(folder=x)", "the argument 'x' is not a literal; texts stand in quotes"),
        ("send(now=true)", "write True"),
        ("send(now=null)", "write None"),
        ("cd(folder=f'{1}')", "is not a literal"),
        ("mean(1 + 1)", "is not a literal"),
        ("mean((x := 1))", "is not a literal"),
        ("mean([1 for _ in 'ab'])", "is not a literal"),
        ("mean('a'.upper())", "is not a literal"),
        ("mean([*'ab'])", "is not a literal"),
        ("mean({[]: 1})", "is not a literal"),
    ],
)
def test_what_is_no_call(text: str, said: str) -> None:
    with pytest.raises(BadCalls) as caught:
        read(text, KNOWN)
    assert said in str(caught.value)


def test_one_wrong_call_refuses_all() -> None:
    with pytest.raises(BadCalls, match="there is no function 'rm'"):
        read("ls(); rm('x'); ls()", KNOWN)


def test_bounds() -> None:
    assert len(read(";".join(["ls()"] * MOST_CALLS), KNOWN)) == MOST_CALLS
    with pytest.raises(BadCalls, match=f"over {MOST_CALLS} calls"):
        read(";".join(["ls()"] * (MOST_CALLS + 1)), KNOWN)
    with pytest.raises(BadCalls, match=f"over {MOST_TEXT} characters"):
        read(f"cd('{'x' * MOST_TEXT}')", KNOWN)
    for deep in (
        "(" * 5000,
        "[" * 5000 + "]" * 5000,
        "mean(" * 900,
        "-" * 9000 + "1",
        "mean(" + "-" * 9000 + "1)",
    ):
        with pytest.raises(BadCalls):
            read(deep, KNOWN)
    with pytest.raises(BadCalls):
        read(f"mean({'9' * 5000})", KNOWN)


@given(st.text(max_size=60))
def test_any_text_is_calls_or_bad(text: str) -> None:
    try:
        found = read(text, KNOWN)
    except BadCalls as error:
        assert str(error)
    else:
        assert all(call.name in KNOWN for call in found)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.lists(VALUES, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3))
def test_what_python_writes_is_read_back(arguments: list[Any], keywords: dict[str, Any]) -> None:
    inner = [repr(a) for a in arguments] + [f"{k}={v!r}" for k, v in keywords.items()]
    text = f"send({', '.join(inner)})"
    ast.parse(text)
    assert read(f"{text}; {text}", KNOWN) == [Call("send", tuple(arguments), keywords)] * 2
