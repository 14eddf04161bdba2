"""Reads the original's game files (`game.tw-pddl`) as data: initial facts, goal, sentence, dialect.

Nothing in a file is ever evaluated: the grammar text is only searched for the wording of a few sentences,
the problem is parsed as brackets and words. A file that is too large, malformed or names things it does not
declare is a ConfigError that says what was found. Leaves out play.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roleagent_lite.envs.household.game import (
    ABILITIES,
    MAX_RECEPTACLES,
    MAX_THINGS,
    MOVE,
    PUT,
    STATE_FACTS,
    Dialect,
    Game,
    Receptacle,
    Thing,
)
from roleagent_lite.envs.household.goals import read_goal
from roleagent_lite.envs.household.pddl import (
    SHAPES,
    Facts,
    declared,
    display_names,
    initial,
    parse_lists,
    section,
)
from roleagent_lite.errors import ConfigError

MAX_BYTES = 16_000_000  # the originals have up to a few hundred kilobytes


def _bad(what: str) -> ConfigError:
    return ConfigError(f"household game: {what}")


def _one(pairs: list[tuple[str, ...]], what: str) -> dict[str, str]:
    """First argument -> second, each first at most once."""
    found: dict[str, str] = {}
    for first, second in pairs:
        if found.setdefault(first, second) != second:
            raise _bad(f"'{first:.60}' has two {what}")
    return found


def _nested(facts: Facts, index: Mapping[str, int]) -> dict[str, list[int]]:
    """Container -> indices of what is in it; refuses a thing that is inside itself."""
    inside: dict[str, list[int]] = defaultdict(list)
    outer: dict[str, list[str]] = defaultdict(list)
    for inner, container in facts["inreceptacleobject"]:
        inside[container].append(index[inner])
        outer[inner].append(container)
    settled: set[str] = set()
    for first in list(outer):
        todo, seen = [first], set()
        while todo:
            symbol = todo.pop()
            for container in outer.get(symbol, ()):
                if container == first:
                    raise _bad(f"'{first:.60}' is inside itself")
                if container not in seen and container not in settled:
                    seen.add(container)
                    todo.append(container)
        settled.add(first)
    return {container: sorted(things) for container, things in inside.items()}


def _receptacles(
    facts: Facts, symbols: list[str], names: Mapping[str, str], places: Mapping[str, int]
) -> tuple[Receptacle, ...]:
    kinds = _one(facts["receptacletype"], "types")
    where = _one(facts["receptacleatlocation"], "places")
    openable = {first for (first,) in facts["openable"]}
    opened = {first for (first,) in facts["opened"]}
    return tuple(
        Receptacle(
            names[s], kinds.get(s, ""), places[where[s]] if s in where else None, s in openable, s in opened
        )
        for s in symbols
    )


def _things(
    facts: Facts,
    symbols: list[str],
    names: Mapping[str, str],
    receptacles: Mapping[str, int],
    places: Mapping[str, int],
) -> tuple[Thing, ...]:
    index = {s: i for i, s in enumerate(symbols)}
    kinds = _one(facts["objecttype"], "types")
    abilities: dict[str, set[str]] = defaultdict(set)
    for ability in ABILITIES:
        for (symbol,) in facts[ability]:
            abilities[symbol].add(ability)
    states: dict[str, int] = defaultdict(int)
    for bit, fact in STATE_FACTS:
        for (symbol,) in facts[fact]:
            states[symbol] |= bit
    inside: dict[str, list[int]] = defaultdict(list)
    for symbol, receptacle in facts["inreceptacle"]:
        inside[symbol].append(receptacles[receptacle])
    at: dict[str, list[int]] = defaultdict(list)
    for symbol, place in facts["objectatlocation"]:
        at[symbol].append(places[place])
    containers = {symbol for (symbol,) in facts["isreceptacleobject"]}
    nested = _nested(facts, index)
    return tuple(
        Thing(
            names[s],
            kinds.get(s, ""),
            frozenset(abilities[s]),
            s in containers,
            tuple(sorted(inside[s])),
            tuple(sorted(at[s])),
            tuple(nested.get(s, ())),
            states[s],
        )
        for s in symbols
    )


def game_from_problem(source: str, sentence: str, dialect: Dialect = MOVE) -> Game:
    """The game of a `pddl_problem` text. Raises ConfigError."""
    problem = parse_lists(source)
    types = declared(section(problem, ":objects"))
    facts = initial(section(problem, ":init"), types)
    used = {arg for pairs in facts.values() for args in pairs for arg in args}
    names = display_names(used)
    by_type: dict[str, list[str]] = defaultdict(list)
    for symbol in sorted(used):
        by_type[types.get(symbol, "type")].append(symbol)
    if len(by_type["receptacle"]) > MAX_RECEPTACLES or len(by_type["object"]) > MAX_THINGS:
        raise _bad(
            f"{len(by_type['receptacle'])} receptacles and {len(by_type['object'])} objects; "
            f"at most {MAX_RECEPTACLES} and {MAX_THINGS}"
        )
    if not by_type["receptacle"]:
        raise _bad("no receptacle in :init")
    starts = facts["atlocation"]
    if len(starts) != 1:
        raise _bad(f"the agent needs one place in :init, found {len(starts)}")
    if len(facts["holds"]) > 1:
        raise _bad("the agent holds more than one thing")
    places = {symbol: i for i, symbol in enumerate(by_type["location"])}
    receptacles = {symbol: i for i, symbol in enumerate(by_type["receptacle"])}
    held = by_type["object"].index(facts["holds"][0][1]) if facts["holds"] else None
    return Game(
        places=tuple(names[s] for s in by_type["location"]),
        receptacles=_receptacles(facts, by_type["receptacle"], names, places),
        things=_things(facts, by_type["object"], names, receptacles, places),
        start=places[starts[0][1]],
        fits=frozenset((r, o) for r, o in facts["cancontain"]),
        goal=read_goal(section(problem, ":goal")),
        sentence=sentence,
        dialect=dialect,
        agent=names[starts[0][0]],
        held=held,
        other_facts=frozenset(
            f"{predicate}({', '.join(names[arg] for arg in args)})"
            for predicate, pairs in facts.items()
            if predicate not in SHAPES
            for args in pairs
        ),
    )


def _rhs(grammar: str, pattern: str) -> str | None:
    """The first JSON string of the grammar that starts with `pattern`, decoded."""
    found = re.search(rf'"({pattern}(?:[^"\\]|\\.)*)"', grammar)
    if found is None:
        return None
    try:
        return str(json.loads(f'"{found[1]}"'))
    except ValueError:
        return None


def read_dialect(grammar: str) -> Dialect:
    """The wording of a grammar text: the verb for putting, its sentence, arrivals, the help text."""
    verb = re.search(r'template\s*::\s*"(move|put) \{o\} (?:to|in/on) \{r\}"', grammar)
    base = PUT if verb is not None and verb[1] == "put" else MOVE
    put = re.search(r'"You (move|put) the \{o\.name\} (to|in/on) the \{r\.name\}\."', grammar)
    arrive = re.search(r'"You arrive at \{(r|lend)\.name\}\.', grammar)
    told = _rhs(grammar, r"\\nAvailable commands:")
    return Dialect(
        verb=base.verb,
        arrive_at_place=base.arrive_at_place if arrive is None else arrive[1] == "lend",
        put_text=base.put_text if put is None else f"You {put[1]} the {{o}} {put[2]} the {{r}}.",
        help=None if told is None or re.search(r"[#{\[]", told) else told.lstrip(),
    )


def read_sentence(grammar: str) -> str:
    """What follows "Your task is to: " in the grammar, without the final period."""
    told = _rhs(grammar, "Your task is to: ")
    if told is None:
        raise _bad("the grammar has no sentence 'Your task is to: …'")
    return told.removeprefix("Your task is to: ").removesuffix(".")


def game_from_data(data: Any) -> Game:
    """The game of a parsed `game.tw-pddl`: an object with at least pddl_problem and grammar."""
    if not isinstance(data, dict):
        raise _bad(f"needs a JSON object, found {type(data).__name__}")
    for key in ("pddl_problem", "grammar"):
        if not isinstance(data.get(key), str):
            raise _bad(f"needs the text '{key}'; has {', '.join(map(str, data))[:200] or 'no keys'}")
    grammar = data["grammar"]
    return game_from_problem(data["pddl_problem"], read_sentence(grammar), read_dialect(grammar))


def read_json(path: Path) -> Any:
    """A JSON file under MAX_BYTES. Raises ConfigError with the path."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ConfigError(f"{path} has {size} bytes; at most {MAX_BYTES} are read")
        if not path.is_file():
            raise ConfigError(f"cannot read {path}: it is no file")
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, nested without end
        raise ConfigError(f"{path} is not a JSON file: {str(error)[:200]}") from None


def load_game(path: str | Path) -> Game:
    """The game of a `game.tw-pddl` file. Raises ConfigError that names the file."""
    data = read_json(Path(path))
    try:
        return game_from_data(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
