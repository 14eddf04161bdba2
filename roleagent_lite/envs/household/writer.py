"""Writes a game for the original engine: `game.tw-pddl` and `traj_data.json` in a folder.

Owns the problem text and the symbols that give back the very same names. Leaves out domain and grammar:
they belong to the alfworld package, are read from where it is installed and handed in.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from roleagent_lite.envs.household.classes import CAMEL
from roleagent_lite.envs.household.game import STATE_FACTS, Dialect, Game, class_of
from roleagent_lite.errors import ConfigError

_GOALS = {
    "pick_and_place_simple": "(inReceptacle ?o ?r)",
    "pick_clean_then_place_in_recep": "(cleanable ?o) (isClean ?o) (inReceptacle ?o ?r)",
    "pick_heat_then_place_in_recep": "(heatable ?o) (isHot ?o) (inReceptacle ?o ?r)",
    "pick_cool_then_place_in_recep": "(coolable ?o) (isCool ?o) (inReceptacle ?o ?r)",
    "pick_two_obj_and_place": (
        "(inReceptacle ?o ?r) (exists (?p - object) "
        "(and (not (= ?o ?p)) (objectType ?p {obj}) (inReceptacle ?p ?r)))"
    ),
}
_TAME = str.maketrans({"{": "(", "}": ")", "#": " "})
_CONSTANTS = ("SinkBasin", "Microwave", "Fridge"), ("Knife", "ButterKnife")
_PREDICATES = {
    "isclean": "isClean", "ishot": "isHot", "iscool": "isCool", "issliced": "isSliced",
    "istoggled": "isToggled", "ison": "isOn",
}  # fmt: skip


def _camel(kind: str) -> str:
    return CAMEL.get(kind, kind.capitalize())


def _symbols(names: Iterable[str]) -> dict[str, str]:
    """Name -> symbol. Symbols sort the other way round than numbers, as the original numbers them."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for name in names:
        kind, _, number = name.partition(" ")
        if not number.isdecimal():
            raise ConfigError(f"cannot write '{name}' for the original engine: it has no number")
        numbers[kind].add(int(number))
    symbols = {}
    for kind, found in numbers.items():
        if found != set(range(1, len(found) + 1)):
            raise ConfigError(
                f"cannot write this game for the original engine: it numbers {kind} from 1 without gaps, "
                f"found {', '.join(map(str, sorted(found)))}"
            )
        for index in sorted(found):
            part = len(found) - index
            where = f"_bar__plus_{part // 100:02d}_dot_{part % 100:02d}_bar__plus_00_dot_00"
            basin = kind.endswith("basin")
            head = _camel(kind).removesuffix("Basin") if basin else kind if kind == "loc" else _camel(kind)
            symbols[f"{kind} {index}"] = head + where + (f"_bar_{_camel(kind)}" if basin else "")
    return symbols


def _type(kind: str) -> str:
    """ "countertoptype" -> "CounterTopType"."""
    return _camel(kind.removesuffix("type")) + "Type"


def goal_text(game: Game) -> str:
    """The `:goal` section of a game."""
    goal = game.goal
    if goal.type == "look_at_obj_in_light":
        lamp = (
            "(objectAtLocation ?t ?l)"
            if goal.loose_lamp
            else "(receptacleAtLocation ?r ?l) (inReceptacle ?t ?r)"
        )
        return (
            "(:goal (and (exists (?t - object ?r - receptacle ?a - agent ?l - location) (and "
            f"(objectType ?t {_type(goal.toggle)}) (toggleable ?t) (isToggled ?t) (atLocation ?a ?l) "
            f"{lamp})) "
            f"(exists (?o - object ?a - agent) (and (objectType ?o {_type(goal.obj)}) (holds ?a ?o)))))"
        )
    obj = _type(goal.obj)
    return (
        f"(:goal (exists (?r - receptacle) (exists (?o - object) (and (objectType ?o {obj}) "
        f"(receptacleType ?r {_type(goal.recep)}) {_GOALS[goal.type].format(obj=obj)}))))"
    )


def _facts(game: Game, symbols: dict[str, str]) -> list[str]:
    facts = [f"(atLocation agent1 {symbols[game.places[game.start]]})"]
    facts += [f"(canContain {_type(r)} {_type(o)})" for r, o in sorted(game.fits)]
    for r in game.receptacles:
        s = symbols[r.name]
        facts += [f"(receptacleType {s} {_type(r.kind)})"] if r.kind else []
        facts += (
            [f"(receptacleAtLocation {s} {symbols[game.places[r.place]]})"] if r.place is not None else []
        )
        facts += [f"(openable {s})"] if r.openable else []
        facts += [f"(opened {s})"] if r.opened else []
    for t in game.things:
        s = symbols[t.name]
        facts += [f"(objectType {s} {_type(t.kind)})"] if t.kind else []
        facts += [f"(inReceptacle {s} {symbols[game.receptacles[r].name]})" for r in t.inside]
        facts += [f"(objectAtLocation {s} {symbols[game.places[p]]})" for p in t.at]
        facts += [f"({ability} {s})" for ability in sorted(t.abilities)]
        facts += [f"(isReceptacleObject {s})"] if t.container else []
        facts += [f"(inReceptacleObject {symbols[game.things[n].name]} {s})" for n in t.nested]
        facts += [f"({_PREDICATES[fact]} {s})" for bit, fact in STATE_FACTS if t.state & bit]
    return facts


def problem_text(game: Game, name: str = "made") -> str:
    """The `pddl_problem` of a game. Raises ConfigError where its numbers have gaps."""
    if game.held is not None:
        raise ConfigError(
            "cannot write a game for the original engine in which the agent starts with a thing"
        )
    symbols = _symbols([*game.places, *(r.name for r in game.receptacles), *(t.name for t in game.things)])
    rtypes = {_type(r.kind) for r in game.receptacles if r.kind} | {_type(r) for r, _ in game.fits}
    otypes = {_type(t.kind) for t in game.things if t.kind} | {_type(o) for _, o in game.fits}
    rtypes |= {c + "Type" for c in _CONSTANTS[0]} | ({_type(game.goal.recep)} if game.goal.recep else set())
    otypes |= {c + "Type" for c in _CONSTANTS[1]} | {_type(game.goal.obj)}
    otypes |= {_type(game.goal.toggle)} if game.goal.toggle else set()
    objects = [
        "agent1 - agent",
        *(f"{symbols[t.name]} - object" for t in game.things),
        *(f"{symbols[r.name]} - receptacle" for r in game.receptacles),
        *(f"{symbols[p]} - location" for p in game.places),
        *(f"{t} - rtype" for t in sorted(rtypes)),
        *(f"{t} - otype" for t in sorted(otypes)),
    ]
    return "\n".join([
        f"(define (problem {name})", "(:domain alfred)", "(:objects", *objects, ")",
        "(:init", *_facts(game, symbols), ")", goal_text(game), ")", "",
    ])  # fmt: skip


def reword(grammar: str, sentence: str, dialect: Dialect) -> str:
    """A grammar text with the task sentence in it, in the dialect of the game.

    The original evaluates as Python what stands in braces there, and looks up what stands between #: a
    sentence gets neither in.
    """
    if dialect.arrive_at_place:
        grammar = grammar.replace("You arrive at {r.name}.", "You arrive at {lend.name}.")
    if dialect.verb == "put":
        grammar = grammar.replace('"move {o} to {r}"', '"put {o} in/on {r}"')
        grammar = grammar.replace("  move (object) to (receptacle):", "  put (object) in/on (receptacle):")
    put = dialect.put_text.replace("{o}", "{o.name}").replace("{r}", "{r.name}")
    grammar = grammar.replace("You move the {o.name} to the {r.name}.", put)
    return grammar.replace("UNKNOWN GOAL", json.dumps(sentence.translate(_TAME))[1:-1])


def _target(kind: str) -> str:
    return class_of(_type(kind)).removesuffix("Type") if kind else ""


def write_game_file(
    game: Game, folder: str | Path, domain_text: str, grammar_text: str, walkthrough: list[str] | None = None
) -> Path:
    """Writes `game.tw-pddl` and `traj_data.json`; gives the game file's path. Raises ConfigError.

    domain_text, grammar_text: alfred.pddl and alfred.twl2 of the installed alfworld package, unchanged.
    """
    base = Path(folder)
    base.mkdir(parents=True, exist_ok=True)
    data = {
        "pddl_domain": domain_text,
        "grammar": reword(grammar_text, game.sentence, game.dialect),
        "pddl_problem": problem_text(game),
        "solvable": True,
        "walkthrough": walkthrough,
    }
    record = {
        "task_type": game.goal.type,
        "task_id": base.name,
        "pddl_params": {
            "object_target": _target(game.goal.obj),
            "parent_target": _target(game.goal.recep),
            "toggle_target": _target(game.goal.toggle),
            "mrecep_target": "",
            "object_sliced": False,
        },
        "turk_annotations": {"anns": []},
    }
    path = base / "game.tw-pddl"
    path.write_text(json.dumps(data), encoding="utf-8")
    (base / "traj_data.json").write_text(json.dumps(record), encoding="utf-8")
    return path
