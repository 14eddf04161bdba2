"""The light household engine: state, the 13 actions, admissible commands, facts, snapshots.

Equal to the original ALFWorld engine in observation, admissible commands, done, won, score and facts, quirks
included (see the comments). Leaves out wording (text.py) and step limits (the rollout's).
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

from roleagent_lite.envs.household import text
from roleagent_lite.envs.household.game import (
    CLEAN,
    COOL,
    HOT,
    ON,
    SLICED,
    STATE_FACTS,
    TOGGLED,
    Game,
)

Action = tuple[str, int, int]  # verb, first and second argument (indices)
Snapshot = tuple[Any, ...]
_NEEDED = {
    "pick_clean_then_place_in_recep": ("cleanable", CLEAN),
    "pick_heat_then_place_in_recep": ("heatable", HOT),
    "pick_cool_then_place_in_recep": ("coolable", COOL),
}
# receptacle class -> verb, ability, state set, state cleared
_TOOLS = {
    "sinkbasintype": ("clean", "cleanable", CLEAN, 0),
    "microwavetype": ("heat", "heatable", HOT, COOL),
    "fridgetype": ("cool", "coolable", COOL, HOT),
}
_KNIVES = ("knifetype", "butterknifetype")


class Engine:
    """One episode. Commands are stripped at both ends and must else be exact; play goes on after a win."""

    def __init__(self, game: Game) -> None:
        self.game = game
        here: list[list[int]] = [[] for _ in game.places]
        for index, receptacle in enumerate(game.receptacles):
            if receptacle.place is not None:
                here[receptacle.place].append(index)
        self._here = here  # receptacles at each place, in order of display
        self._go = [(f"go to {r.name}", ("go", i, 0), r.place) for i, r in enumerate(game.receptacles)
                    if r.place is not None]  # fmt: skip
        self._place = game.start
        self._held = -1 if game.held is None else game.held
        self._contents: list[list[int]] = [[] for _ in game.receptacles]
        for index, thing in enumerate(game.things):
            for inside in thing.inside:
                self._contents[inside].append(index)
        self._at: list[tuple[int, ...]] = [thing.at for thing in game.things]
        self._state = [thing.state for thing in game.things]
        self._opened = [receptacle.opened for receptacle in game.receptacles]
        self._checked: set[str] = set()
        self._taken: set[tuple[int, int]] = set()  # (thing, receptacle) it was taken out of and not put back
        self._actions: dict[str, Action] | None = None

    # --- play ----------------------------------------------------------------------------------------

    def intro(self) -> str:
        """The first observation, banner and task sentence included."""
        return f"{text.BANNER}\n\n{self.surroundings()}\n\nYour task is to: {self.game.sentence}."

    def surroundings(self) -> str:
        """What the agent sees on waking: the room's receptacles (`look` later no longer lists them)."""
        if self._here[self._place]:
            return self._look()
        return text.MIDDLE.format(
            text.listing([r.name for r in self.game.receptacles if r.place is not None])
        )

    def admissible(self) -> list[str]:
        """All commands that have an effect now, sorted."""
        return sorted(self._moves())

    def step(self, command: str) -> tuple[str, bool]:
        """The observation, and whether the command was admissible (else it changed nothing)."""
        action = self._moves().get(command.strip())
        if action is None:
            return text.NOTHING, False
        verb, first, second = action
        self._actions = None
        said: str = getattr(self, f"_do_{verb}")(first, second)
        return said, True

    @property
    def won(self) -> bool:
        """Computed anew from the state: undoing the goal takes the win back."""
        goal, game = self.game.goal, self.game
        if goal.type == "look_at_obj_in_light":
            if self._held < 0 or game.things[self._held].kind != goal.obj:
                return False
            return any(self._lamp_lit(index) for index in self._lamps)
        ability, needed = _NEEDED.get(goal.type, ("", 0))
        wanted = 2 if goal.type == "pick_two_obj_and_place" else 1
        for index in self._targets:
            found = 0
            for thing in self._contents[index]:
                if game.things[thing].kind == goal.obj and self._state[thing] & needed == needed:
                    found += not ability or ability in game.things[thing].abilities
            if found >= wanted:
                return True
        return False

    @property
    def score(self) -> int:
        return int(self.won)

    @cached_property
    def _targets(self) -> list[int]:
        return [i for i, r in enumerate(self.game.receptacles) if r.kind == self.game.goal.recep]

    @cached_property
    def _lamps(self) -> list[int]:
        return [i for i, t in enumerate(self.game.things)
                if t.kind == self.game.goal.toggle and "toggleable" in t.abilities]  # fmt: skip

    def _lamp_lit(self, lamp: int) -> bool:
        if not self._state[lamp] & TOGGLED:
            return False
        if self.game.goal.loose_lamp:
            return self._place in self._at[lamp]
        return any(lamp in self._contents[r] for r in self._here[self._place])

    def contents(self, index: int) -> list[int]:
        """Indices of the things in a receptacle, whether it is shut or not, in order of display."""
        return list(self._contents[index])

    # --- admissible commands ---------------------------------------------------------------------------

    def _moves(self) -> dict[str, Action]:
        if self._actions is None:
            moves: dict[str, Action] = {
                "look": ("look", 0, 0), "inventory": ("inventory", 0, 0), "help": ("help", 0, 0)
            }  # fmt: skip
            here = self._place
            # A `go to` the present place has no effect and the original drops it, neighbours included.
            moves.update((command, action) for command, action, place in self._go if place != here)
            for index in self._here[here]:
                self._moves_at(index, moves)
            if self._held >= 0:
                self._moves_with(self._held, moves)
            self._actions = moves
        return self._actions

    def _moves_at(self, index: int, moves: dict[str, Action]) -> None:
        game = self.game
        receptacle, things = game.receptacles[index], game.things
        name = receptacle.name
        moves[f"examine {name}"] = ("examine", index, 0)
        usable = not receptacle.openable or self._opened[index]
        if receptacle.openable:
            moves[f"close {name}" if usable else f"open {name}"] = ("close" if usable else "open", index, 0)
        for thing in self._contents[index]:
            abilities = things[thing].abilities
            if self._held < 0 and usable and "pickupable" in abilities:
                moves[f"take {things[thing].name} from {name}"] = ("take", thing, index)
            if "toggleable" in abilities:  # even where the receptacle is shut
                moves[f"use {things[thing].name}"] = ("use", thing, 0)
        if self._held >= 0:
            held = things[self._held]
            if usable and (receptacle.kind, held.kind) in game.fits:
                moves[text.put_command(game.dialect, held.name, name)] = ("put", self._held, index)
            tool = _TOOLS.get(receptacle.kind)
            if tool and tool[1] in held.abilities:  # doors of microwave and fridge do not matter
                moves[f"{tool[0]} {held.name} with {name}"] = ("treat", self._held, index)

    def _moves_with(self, held: int, moves: dict[str, Action]) -> None:
        things = self.game.things
        moves[f"examine {things[held].name}"] = ("inspect", held, 0)
        if things[held].kind in _KNIVES:
            for index, thing in enumerate(things):
                if "sliceable" in thing.abilities and self._place in self._at[index]:
                    moves[f"slice {thing.name} with {things[held].name}"] = ("slice", index, held)

    # --- the 13 actions --------------------------------------------------------------------------------

    def _look(self) -> str:
        here = self._here[self._place]
        names = [self.game.receptacles[index].name for index in here]
        # The original lists what lies here and was once taken out of a receptacle that stands here: only
        # receptacles that share a place show it.
        floor = [self.game.things[thing].name for thing in range(len(self._at)) for index in here
                 if (thing, index) in self._taken and self._place in self._at[thing]]  # fmt: skip
        return text.facing(names, floor)

    def _do_look(self, _first: int, _second: int) -> str:
        self._checked.add(self.game.places[self._place])
        return self._look() if self._here[self._place] else text.MIDDLE.format("nothing")

    def _do_inventory(self, _first: int, _second: int) -> str:
        self._checked.add(self.game.agent)
        if self._held < 0:
            return "You are not carrying anything."
        return f"You are carrying: a {self.game.things[self._held].name}."

    def _do_help(self, _first: int, _second: int) -> str:
        self._checked.add(self.game.agent)
        return text.help_text(self.game.dialect)

    def _inside(self, index: int) -> str:
        receptacle = self.game.receptacles[index]
        names = [self.game.things[thing].name for thing in self._contents[index]]
        return text.contents(receptacle.name, receptacle.openable, self._opened[index], names)

    def _do_go(self, index: int, _second: int) -> str:
        receptacle, game = self.game.receptacles[index], self.game
        assert receptacle.place is not None  # only reachable receptacles have a command
        self._place = receptacle.place
        where = game.places[self._place] if game.dialect.arrive_at_place else receptacle.name
        return f"You arrive at {where}. {self._inside(index)}"

    def _do_open(self, index: int, _second: int) -> str:
        self._opened[index] = True
        self._checked.add(self.game.receptacles[index].name)
        return f"You open the {self.game.receptacles[index].name}. {self._inside(index)}"

    def _do_close(self, index: int, _second: int) -> str:
        self._opened[index] = False
        return f"You close the {self.game.receptacles[index].name}."

    def _do_examine(self, index: int, _second: int) -> str:
        self._checked.add(self.game.receptacles[index].name)
        return self._inside(index)

    def _do_inspect(self, thing: int, _second: int) -> str:
        what = self.game.things[thing]
        self._checked.add(what.name)
        return text.thing(what, self._state[thing], [self.game.things[n].name for n in what.nested])

    def _do_take(self, thing: int, index: int) -> str:
        self._contents[index].remove(thing)
        self._at[thing] = tuple(place for place in self._at[thing] if place != self._place)
        self._taken.add((thing, index))
        self._held = thing
        return f"You pick up the {self.game.things[thing].name} from the {self.game.receptacles[index].name}."

    def _do_put(self, thing: int, index: int) -> str:
        if thing not in self._contents[index]:
            self._contents[index].append(thing)
            self._contents[index].sort()
        if self._place not in self._at[thing]:
            self._at[thing] = tuple(sorted((*self._at[thing], self._place)))
        self._taken.discard((thing, index))
        self._held = -1
        names = {"o": self.game.things[thing].name, "r": self.game.receptacles[index].name}
        return self.game.dialect.put_text.replace("{o}", names["o"]).replace("{r}", names["r"])

    def _do_treat(self, thing: int, index: int) -> str:
        receptacle = self.game.receptacles[index]
        verb, _, gained, lost = _TOOLS[receptacle.kind]
        self._state[thing] = self._state[thing] & ~lost | gained
        return f"You {verb} the {self.game.things[thing].name} using the {receptacle.name}."

    def _do_use(self, thing: int, _second: int) -> str:
        # There is no off: the original always says "on". Its fact `ison` of the start goes at the first use.
        self._state[thing] = self._state[thing] & ~ON | TOGGLED
        return f"You turn on the {self.game.things[thing].name}."

    def _do_slice(self, thing: int, knife: int) -> str:
        self._state[thing] |= SLICED
        return f"You sliced the {self.game.things[thing].name} with the {self.game.things[knife].name}."

    # --- the true state --------------------------------------------------------------------------------

    @cached_property
    def fixed_facts(self) -> frozenset[str]:
        """Facts no action changes, in readable names."""
        game = self.game
        facts = {f"cancontain({r}, {o})" for r, o in game.fits} | set(game.other_facts)
        for r in game.receptacles:
            facts |= {f"receptacletype({r.name}, {r.kind})"} if r.kind else set()
            facts |= {f"openable({r.name})"} if r.openable else set()
            facts |= (
                {f"receptacleatlocation({r.name}, {game.places[r.place]})"} if r.place is not None else set()
            )
        for t in game.things:
            facts |= {f"{ability}({t.name})" for ability in t.abilities}
            facts |= {f"objecttype({t.name}, {t.kind})"} if t.kind else set()
            facts |= {f"isreceptacleobject({t.name})"} if t.container else set()
            facts |= {f"inreceptacleobject({game.things[n].name}, {t.name})" for n in t.nested}
        return frozenset(facts)

    def changing_facts(self) -> set[str]:
        """Facts actions change, in readable names; `checked(...)` says what was looked at."""
        game = self.game
        facts = {f"atlocation({game.agent}, {game.places[self._place]})"}
        facts |= {f"checked({name})" for name in self._checked}
        if self._held >= 0:
            facts |= {f"holds({game.agent}, {game.things[self._held].name})", f"holdsany({game.agent})"}
        for receptacle, opened, things in zip(game.receptacles, self._opened, self._contents, strict=True):
            facts |= {f"opened({receptacle.name})"} if opened else set()
            facts |= {f"inreceptacle({game.things[t].name}, {receptacle.name})" for t in things}
        for thing, state, at in zip(game.things, self._state, self._at, strict=True):
            facts |= {f"objectatlocation({thing.name}, {game.places[place]})" for place in at}
            facts |= {f"{fact}({thing.name})" for bit, fact in STATE_FACTS if state & bit}
        return facts

    def facts(self) -> list[str]:
        """All true facts in readable names, sorted; negated facts are left out."""
        return sorted(self.fixed_facts | self.changing_facts())

    @cached_property
    def _world(self) -> str:
        return hashlib.blake2b("\n".join(sorted(self.fixed_facts)).encode(), digest_size=8).hexdigest()

    def state_key(self) -> str:
        """16 hex digits; equal keys mean the same true state of the same world.

        What was merely looked at is no part of it; of what was taken where, only what `look` may show.
        """
        taken = sorted(
            (t, r) for t, r in self._taken if len(self._here[self.game.receptacles[r].place or 0]) > 1
        )
        state = (
            self._world, self._place, self._held, self._contents, self._at, self._state, self._opened, taken
        )  # fmt: skip
        return hashlib.blake2b(repr(state).encode(), digest_size=8).hexdigest()

    def snapshot(self) -> Snapshot:
        """An immutable copy of the state, for `restore`."""
        return (
            self._place,
            self._held,
            tuple(map(tuple, self._contents)),
            tuple(self._at),
            tuple(self._state),
            tuple(self._opened),
            frozenset(self._checked),
            frozenset(self._taken),
        )

    def restore(self, snapshot: Snapshot) -> None:
        self._place, self._held, contents, at, state, opened, checked, taken = snapshot
        self._contents = [list(c) for c in contents]
        self._at, self._state, self._opened = list(at), list(state), list(opened)
        self._checked, self._taken = set(checked), set(taken)
        self._actions = None
