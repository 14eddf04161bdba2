"""Recognises the six goals in a problem's goal formula.

A goal is flattened into a set of facts over variables (only `and`, `exists` and `not (= …)` may occur) and
compared with six patterns, whatever the names of variables or the order. Anything else is refused: a goal
half understood would give wrong wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from roleagent_lite.envs.household.game import Goal
from roleagent_lite.envs.household.pddl import Node
from roleagent_lite.errors import ConfigError

Fact = tuple[str, ...]
MAX_FACTS = 16

_PLACED = (("inreceptacle", "?o", "?r"), ("objecttype", "?o", "OBJ"), ("receptacletype", "?r", "RECEP"))
_LIT = (("objecttype", "?t", "TOGGLE"), ("toggleable", "?t"), ("istoggled", "?t"), ("atlocation", "?a", "?l"),
        ("objecttype", "?o", "OBJ"), ("holds", "?b", "?o"))  # fmt: skip
_PATTERNS: tuple[tuple[str, bool, tuple[Fact, ...]], ...] = (
    ("pick_and_place_simple", False, _PLACED),
    ("pick_clean_then_place_in_recep", False, (*_PLACED, ("cleanable", "?o"), ("isclean", "?o"))),
    ("pick_heat_then_place_in_recep", False, (*_PLACED, ("heatable", "?o"), ("ishot", "?o"))),
    ("pick_cool_then_place_in_recep", False, (*_PLACED, ("coolable", "?o"), ("iscool", "?o"))),
    ("pick_two_obj_and_place", False,
     (*_PLACED, ("objecttype", "?p", "OBJ"), ("inreceptacle", "?p", "?r"), ("differ", "?o", "?p"))),
    ("look_at_obj_in_light", False,
     (*_LIT, ("receptacleatlocation", "?r", "?l"), ("inreceptacle", "?t", "?r"))),
    ("look_at_obj_in_light", True, (*_LIT, ("objectatlocation", "?t", "?l"))),
)  # fmt: skip


def _bad(what: str) -> ConfigError:
    return ConfigError(f"household game: the goal {what}; known are ALFWorld's six task types")


def _variables(node: object) -> list[str]:
    if not isinstance(node, list):
        raise _bad("has an 'exists' without variables")
    names = []
    words = iter(node)
    for word in words:
        if word == "-":
            next(words, None)  # the type: the facts below say enough
        elif isinstance(word, str) and word.startswith("?"):
            names.append(word)
        else:
            raise _bad(f"has an odd variable list {node!s:.80}")
    return names


def _flatten(node: object, scope: dict[str, str], fresh: Iterator[int]) -> Iterator[Fact]:
    """Facts of a formula; bound variables get names of their own. Depth is bounded by the parser."""
    if not isinstance(node, list) or not node or not isinstance(node[0], str):
        raise _bad(f"holds {node!s:.80}")
    head, rest = node[0], node[1:]
    if head == "and":
        for part in rest:
            yield from _flatten(part, scope, fresh)
    elif head == "exists" and len(rest) == 2:
        inner = scope | {name: f"{name}#{next(fresh)}" for name in _variables(rest[0])}
        yield from _flatten(rest[1], inner, fresh)
    elif head == "not" and len(rest) == 1 and isinstance(rest[0], list) and rest[0][:1] == ["="]:
        yield from _flatten(["differ", *rest[0][1:]], scope, fresh)
    elif head in ("or", "not", "forall", "exists", "imply", "when", "="):
        raise _bad(f"uses '{head}' in a way no known goal does")
    else:
        words = [word for word in rest if isinstance(word, str)]
        if len(words) != len(rest):
            raise _bad(f"nests something in '{head:.40}'")
        yield (head, *(scope.get(word, word) for word in words))


def _unify(pattern: Fact, fact: Fact, known: dict[str, str]) -> dict[str, str] | None:
    if pattern[0] != fact[0] or len(pattern) != len(fact):
        return None
    found = dict(known)
    for want, have in zip(pattern[1:], fact[1:], strict=True):
        variable = "#" in have
        if want.startswith("?") is not variable or found.setdefault(want, have) != have:
            return None
    return found


def _match(patterns: tuple[Fact, ...], facts: list[Fact], known: dict[str, str]) -> dict[str, str] | None:
    if not patterns:
        return known
    for index, fact in enumerate(facts):
        found = _unify(patterns[0], fact, known)
        if found is not None:
            rest = _match(patterns[1:], facts[:index] + facts[index + 1 :], found)
            if rest is not None:
                return rest
    return None


def read_goal(section: list[Node]) -> Goal:
    """The goal of a `:goal` section. Raises ConfigError for anything but the six known ones."""
    if len(section) != 1:
        raise _bad(f"has {len(section)} parts")
    facts: dict[Fact, None] = {}
    for fact in _flatten(section[0], {}, count()):
        facts[fact] = None
        if len(facts) > MAX_FACTS:
            raise _bad(f"has more than {MAX_FACTS} conditions")
    for name, loose, patterns in _PATTERNS:
        if len(patterns) == len(facts):
            found = _match(patterns, list(facts), {})
            if found is not None:
                return Goal(
                    name, found["OBJ"], found.get("RECEP", ""), found.get("TOGGLE", ""), loose_lamp=loose
                )
    raise _bad(f"asks for {' '.join(sorted({f[0] for f in facts})):.200}")
