"""What an episode reached, whatever it was meant to reach: its moves as a solution of other tasks.

Hindsight relabelling (Andrychowicz et al. 2017, Hindsight Experience Replay) for ALFWorld's six goals. Owns
which goals moves speak for; whether they hold is not guessed but played, in a game of that goal. Leaves out
what is done with the tasks (distill/warm.py).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from roleagent_lite.envs.household.engine import Engine
from roleagent_lite.envs.household.game import TASK_TYPES, class_of, game_from_row
from roleagent_lite.tasksets import content_id
from roleagent_lite.types import Task

_MOVE = re.compile(r"move (?P<thing>.+ \d+) to (?P<place>.+ \d+)")
_TAKE = re.compile(r"take (?P<thing>.+ \d+) from .+")
_TREAT = re.compile(r"(?P<how>clean|heat|cool) (?P<thing>.+ \d+) with .+")
_USE = re.compile(r"use (?P<thing>.+ \d+)")
_TREATED = {
    "clean": "pick_clean_then_place_in_recep",
    "heat": "pick_heat_then_place_in_recep",
    "cool": "pick_cool_then_place_in_recep",
}
_WALK = "go to "
_LAMPS = ("desklamp", "floorlamp")

Goal = tuple[str, str, str]  # kind, object, receptacle or lamp; classes


def reached(task: Task, actions: Sequence[str]) -> list[tuple[Task, tuple[str, ...]]]:
    """Tasks of the same room, each with those of the moves that solve it, fewest first.

    Moves that did nothing for a goal are cut out (`_straightened`). A task is left out whose goal holds
    before the first move, that is the episode's own, or for which what is left still takes up a thing of
    another kind or makes a move twice: it would teach that. `parent` names the task that was played. Empty
    for games from files, whose goals are formulas.
    """
    if "layout" not in task.params:
        return []
    own = tuple(task.params.get(k) for k in ("type", "object", "receptacle", "lamp") if k in task.params)
    found: dict[Goal, tuple[Task, tuple[str, ...]]] = {}
    for goal in _goals(actions):
        if goal == own or goal in found:
            continue
        other = _task(task, goal)
        moves = _straightened(other, actions[: _solved(other, actions)])
        if len(moves) > 1 and _straight(moves, goal[1]):
            found[goal] = other, moves
    return sorted(found.values(), key=lambda pair: (len(pair[1]), pair[0].id))


def _goals(actions: Sequence[str]) -> Iterator[Goal]:
    """Goals that the moves may have reached, in order of coming; some come again, and some do not hold."""
    treated: dict[str, list[str]] = {}
    held = ""
    for action in actions:
        if take := _TAKE.fullmatch(action):
            held = take["thing"]
        elif treat := _TREAT.fullmatch(action):
            treated.setdefault(treat["thing"], []).append(_TREATED[treat["how"]])
        elif move := _MOVE.fullmatch(action):
            thing, place = class_of(move["thing"]), class_of(move["place"])
            for kind in ("pick_and_place_simple", "pick_two_obj_and_place", *treated.get(move["thing"], [])):
                yield kind, thing, place
            held = ""
        elif (use := _USE.fullmatch(action)) and held and class_of(use["thing"]) in _LAMPS:
            yield "look_at_obj_in_light", class_of(held), class_of(use["thing"])


def _task(task: Task, goal: Goal) -> Task:
    """The room of `task` with another goal, worded as our generator words it."""
    kind, thing, other = goal
    params: dict[str, Any] = {k: v for k, v in task.params.items() if k not in ("receptacle", "lamp")}
    params |= {"type": kind, "object": thing}
    params["lamp" if kind == "look_at_obj_in_light" else "receptacle"] = other
    words = random.Random(f"{task.id}/{goal}").choice(TASK_TYPES[kind])
    row: dict[str, Any] = {
        "env": task.env, "goal": words.format(obj=thing, recep=other, toggle=other), "seed": task.seed,
        "params": params, "split": task.split,
    }  # fmt: skip
    return Task(id=content_id(row), parent=task.id, **row)


def _solved(task: Task, actions: Sequence[str]) -> int:
    """After how many of the moves the task is solved; 0 for never, or from the start."""
    engine = Engine(game_from_row(task.goal, task.params))
    if engine.won:
        return 0
    for number, action in enumerate(actions, 1):
        if action not in engine.admissible():
            return 0
        engine.step(action)
        if engine.won:
            return number
    return 0


def _straightened(task: Task, actions: Sequence[str]) -> tuple[str, ...]:
    """`actions`, which solve the task, without what can be left out of them, each cut proved by playing:
    first all that names some other thing, then stretches of moves, the longest first.

    A place visited before the goal's thing was found stays, once: the search is part of the way.
    """
    kept, thing = tuple(actions), str(task.params["object"])
    for other in dict.fromkeys(m["thing"] for m in map(_TAKE.fullmatch, actions) if m):
        if class_of(other) != thing:
            kept = _if_solved(task, tuple(a for a in kept if f"{other} " not in f"{a} "), kept)
    for width in range(len(kept) - 1, 0, -1):
        at = 0
        while at + width < len(kept):
            if _searched(kept, at, at + width, thing):
                at += 1
                continue
            shorter = _if_solved(task, kept[:at] + kept[at + width :], kept)
            at, kept = (at if shorter != kept else at + 1), shorter
    return kept


def _searched(actions: Sequence[str], start: int, end: int, thing: str) -> bool:
    """Whether the stretch holds the only visit to a place from before the thing was taken up."""
    takes = [m and class_of(m["thing"]) == thing for m in map(_TAKE.fullmatch, actions)]
    before = list(actions[: takes.index(True)]) if True in takes else []
    return any(a.startswith(_WALK) and before.count(a) == 1 for a in before[start:end])


def _if_solved(task: Task, shorter: tuple[str, ...], kept: tuple[str, ...]) -> tuple[str, ...]:
    """`shorter` as far as it takes to solve the task, or `kept` where it does not."""
    count = _solved(task, shorter)
    return shorter[:count] if count else kept


def _straight(actions: Sequence[str], thing: str) -> bool:
    """Whether nothing but things of the goal's kind was taken up, and no move but a walk made twice."""
    done = [a for a in actions if not a.startswith(_WALK)]
    once = len(set(done)) == len(done)
    return once and all(class_of(m["thing"]) == thing for m in map(_TAKE.fullmatch, actions) if m)
