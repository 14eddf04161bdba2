"""Reads a PDDL problem as data: brackets and words, declared objects, initial facts, readable names.

Nothing is evaluated. Sizes and depth are bounded; what is malformed or names something undeclared is a
ConfigError that says what was found. Leaves out what facts mean for play (problem.py) and the goal
(goals.py).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from roleagent_lite.envs.household.game import ABILITIES, STATE_FACTS
from roleagent_lite.errors import ConfigError

Node = str | list["Node"]  # a word, or nested lists of words
Facts = dict[str, list[tuple[str, ...]]]  # predicate -> arguments
MAX_DEPTH = 60
_TOKEN = re.compile(r"[()]|[^\s();]+|;[^\n]*")


def _bad(what: str) -> ConfigError:
    return ConfigError(f"household game: {what}")


def parse_lists(source: str) -> list[Node]:
    """Brackets and lower-cased words as nested lists; comments dropped. Raises ConfigError."""
    root: list[Node] = []
    stack: list[list[Node]] = [root]
    for token in _TOKEN.findall(source):
        if token == "(":
            fresh: list[Node] = []
            stack[-1].append(fresh)
            stack.append(fresh)
            if len(stack) > MAX_DEPTH:
                raise _bad(f"pddl_problem nests brackets deeper than {MAX_DEPTH}")
        elif token == ")":
            if len(stack) == 1:
                raise _bad("pddl_problem closes a bracket that was never opened")
            stack.pop()
        elif not token.startswith(";"):
            stack[-1].append(token.lower())
    if len(stack) != 1:
        raise _bad(f"pddl_problem leaves {len(stack) - 1} brackets open")
    if len(root) != 1 or not isinstance(root[0], list):
        raise _bad(f"pddl_problem needs one (define …), found {len(root)} expressions")
    return root[0]


def section(problem: list[Node], name: str) -> list[Node]:
    found = [part[1:] for part in problem if isinstance(part, list) and part and part[0] == name]
    if len(found) != 1:
        raise _bad(f"pddl_problem needs one {name} section, found {len(found)}")
    return found[0]


def declared(section: list[Node]) -> dict[str, str]:
    """Symbol -> type of a typed list "a b - t c - u"."""
    types: dict[str, str] = {}
    waiting: list[str] = []
    words = iter(section)
    for word in words:
        if not isinstance(word, str):
            raise _bad(":objects holds brackets")
        if word == "-":
            kind = next(words, None)
            if not isinstance(kind, str) or not waiting:
                raise _bad(":objects has a '-' without a name before or a type after it")
            types.update(dict.fromkeys(waiting, kind))
            waiting = []
        else:
            waiting.append(word)
    if waiting:
        raise _bad(f":objects gives no type for {waiting[0]!r:.80}")
    return types


# Predicate -> types of its arguments. Facts of other predicates are kept as they are and play no part.
SHAPES: dict[str, tuple[str, ...]] = {
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    "inreceptacle": ("object", "receptacle"),
    "inreceptacleobject": ("object", "object"),
    "isreceptacleobject": ("object",),
    "receptacletype": ("receptacle", "rtype"),
    "cancontain": ("rtype", "otype"),
    "objecttype": ("object", "otype"),
    "holds": ("agent", "object"),
    "holdsany": ("agent",),
    **dict.fromkeys(ABILITIES, ("object",)),
    **{fact: ("object",) for _, fact in STATE_FACTS},
}


def initial(facts_section: list[Node], types: Mapping[str, str]) -> Facts:
    facts: Facts = defaultdict(list)
    seen: set[tuple[str, ...]] = set()  # a look through a list would take hours for a file made for it
    for node in facts_section:
        if not isinstance(node, list) or not node or not isinstance(node[0], str):
            raise _bad(f":init holds something that is not a fact: {node!s:.80}")
        predicate, args = node[0], node[1:]
        if predicate == "=":  # distances and costs play no part
            continue
        words = tuple(a for a in args if isinstance(a, str))
        if len(words) != len(args):
            raise _bad(f":init has a nested fact: ({predicate} …)")
        for word in words:
            if word not in types and not word.endswith("type"):
                raise _bad(f":init names {word!r:.80}, which :objects does not declare")
        shape = SHAPES.get(predicate)
        if shape is not None:
            found = tuple(types.get(w, s) for w, s in zip(words, shape, strict=False))
            if len(words) != len(shape) or found != shape:
                raise _bad(f":init has ({predicate} {' '.join(words)})"[:160] + f"; it needs {shape}")
        if (predicate, *words) not in seen:
            seen.add((predicate, *words))
            facts[predicate].append(words)
    return facts


def display_names(symbols: set[str]) -> dict[str, str]:
    """Symbol -> readable name. The highest number of a class goes to the first symbol in the alphabet."""
    ordered = sorted(symbols)
    counts: dict[str, int] = defaultdict(int)
    classes: dict[str, str] = {}
    for symbol in ordered:
        head, bar, _ = symbol.partition("_bar_")
        if bar:
            classes[symbol] = head + ("basin" if "basin" in symbol else "")
            counts[classes[symbol]] += 1
    names: dict[str, str] = {}
    for symbol in ordered:
        if symbol in classes:
            names[symbol] = f"{classes[symbol]} {counts[classes[symbol]]}"
            counts[classes[symbol]] -= 1
        else:
            plain = symbol
            for mangled, sign in (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ",")):
                plain = plain.replace(mangled, sign)
            names[symbol] = plain
    return names
