"""Calls as an agent writes them, read with `ast` and never evaluated.

`cd(folder='x')`, several parted by `;`, by a new line or by commas, or a list `[cd(folder='x'), ls()]`.
Arguments are literals, by position or by name. `done`, or an empty list, ends the user's turn. Owns the
reading and the sentences about what is wrong; leaves out what a call does (apis.py).
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from roleagent_lite.errors import nearest

MOST_TEXT = 20_000  # characters of one action
MOST_CALLS = 50  # in one action
FORMS = (
    "the functions named here with arguments of your own, function(name='value', ...), several calls parted "
    "by ';'; or done, when the user's request is served or cannot be served"
)
_DONE = re.compile(r"done(?:\s*\(\s*\))?[.!]?", re.IGNORECASE)
_FENCE = re.compile(r"```[a-zA-Z]*\s*\n?(.*?)\s*```", re.DOTALL)


class BadCalls(ValueError):
    """A text that is no list of calls; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function's name and its arguments, all of them literals."""

    name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]


def read(text: str, known: Collection[str]) -> list[Call]:
    """The calls of a text in order, none for `done`. `known`: names that may be called.

    Raises BadCalls for whatever is not a plain call of a known function with literal arguments; then none
    of the text's calls is to be made.
    """
    if len(text) > MOST_TEXT:
        raise BadCalls(f"the action has over {MOST_TEXT} characters")
    text = text.strip()
    fenced = _FENCE.fullmatch(text)
    text = fenced[1].strip() if fenced else text
    if _DONE.fullmatch(text):
        return []
    if not text:
        raise BadCalls("there is no call")
    nodes = _nodes(text)
    if len(nodes) > MOST_CALLS:
        raise BadCalls(f"over {MOST_CALLS} calls in one action")
    return [_call(node, known) for node in nodes]


def _nodes(text: str) -> list[ast.expr]:
    """The expressions that should be calls: a statement each, or the members of a list."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a text is Python's affair
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadCalls(f"this cannot be read as calls ({what or type(error).__name__})") from None
    found: list[ast.expr] = []
    for statement in body:
        if not isinstance(statement, ast.Expr):
            raise BadCalls("only calls can be made, no other statements")
        value = statement.value
        found += value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    return found


def _call(node: ast.expr, known: Collection[str]) -> Call:
    if isinstance(node, ast.Name) and node.id in known:
        raise BadCalls(f"{node.id} needs brackets: {node.id}(...)")
    if isinstance(node, ast.Name) and node.id.lower() == "done":
        raise BadCalls("done stands alone, after the answers to the calls before it were seen")
    if not isinstance(node, ast.Call):
        raise BadCalls(f"'{_shown(node)}' is not a call")
    if not isinstance(node.func, ast.Name):
        raise BadCalls(f"'{_shown(node.func)}' is not the name of a function")
    name = node.func.id
    if name not in known:
        raise BadCalls(f"there is no function '{name}'{nearest(name, known)}")
    keywords: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise BadCalls(f"{name}: arguments are written out, without **")
        if keyword.arg in keywords:
            raise BadCalls(f"{name}: {keyword.arg} is given twice")
        keywords[keyword.arg] = _literal(name, keyword.value)
    return Call(name, tuple(_literal(name, argument) for argument in node.args), keywords)


def _literal(name: str, node: ast.expr) -> Any:
    if isinstance(node, ast.Starred):
        raise BadCalls(f"{name}: arguments are written out, without *")
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        hint = {"true": "True", "false": "False", "null": "None"}.get(getattr(node, "id", ""))
        advice = (
            f"; write {hint}" if hint else "; texts stand in quotes" if isinstance(node, ast.Name) else ""
        )
        raise BadCalls(f"{name}: the argument '{_shown(node)}' is not a literal{advice}") from None


def _shown(node: ast.expr) -> str:
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):
        return "…"
    return text if len(text) <= 60 else text[:59] + "…"
