"""Recorded games of the original engine, and small rooms built by hand."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from roleagent_lite.envs.household.game import Game, game_from_row

TRACES = Path(__file__).resolve().parent.parent / "data" / "household_traces.json.gz"

# The places of a grammar that the reader looks at, in our own words; the recorded replacements apply to it.
GRAMMAR = """
    "task": [{"rhs": "Your task is to: UNKNOWN GOAL."}],
    "GotoLocation.feedback": [{"rhs": "You arrive at {r.name}. #examineReceptacle.feedback#"}],
    "PutObject.feedback": [{"rhs": "You move the {o.name} to the {r.name}."}]
    action PutObject {
        template :: "move {o} to {r}";
    }
"""


@cache
def recorded() -> tuple[dict[str, Any], ...]:
    """All recorded games: what the original engine answered, step by step."""
    with gzip.open(TRACES, "rt", encoding="utf-8") as file:
        return tuple(json.load(file)["games"])


def game_data(game: dict[str, Any]) -> dict[str, Any]:
    """A `game.tw-pddl` as a parsed object, with the small grammar instead of the package's."""
    grammar = GRAMMAR
    for old, new in game["game"]["grammar"]["replace"]:
        grammar = grammar.replace(old, new)
    return {
        "pddl_domain": "",
        "grammar": grammar,
        "pddl_problem": game["game"]["pddl_problem"],
        "solvable": True,
        "walkthrough": None,
    }


def kitchen(**changes: Any) -> dict[str, Any]:
    """Params of a small kitchen with two drawers at one place; a fresh copy to change."""
    params: dict[str, Any] = {
        "tier": "easy",
        "type": "pick_cool_then_place_in_recep",
        "object": "apple",
        "receptacle": "drawer",
        "layout": {
            "start": 4,
            "room": {
                "countertop 1": {"place": 2, "holds": ["apple 1", "mug 1", "knife 1", "desklamp 1"]},
                "drawer 1": {"place": 1},
                "drawer 2": {"place": 1, "opened": True, "holds": ["apple 2"]},
                "fridge 1": {"place": 3, "holds": ["egg 1"]},
                "microwave 1": {"place": 5},
                "sinkbasin 1": {"place": 6},
            },
            "fits": {
                "countertop": ["apple", "mug", "knife", "egg"],
                "drawer": ["apple", "knife"],
                "fridge": ["apple", "egg", "mug"],
                "sinkbasin": ["apple", "mug"],
                "microwave": [],
            },
            "can": {
                "apple": ["cleanable", "heatable", "coolable", "sliceable"],
                "mug": ["cleanable", "coolable", "container"],
                "knife": [],
                "egg": ["heatable"],
                "desklamp": ["toggleable"],
            },
        },
    }
    params.update(changes)
    return params


def kitchen_game(**changes: Any) -> Game:
    return game_from_row("put a cool apple in drawer", kitchen(**changes))
