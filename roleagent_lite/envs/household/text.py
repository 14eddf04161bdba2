"""What the household engine says: every sentence, word for word the original's, in two dialects.

Owns wording only; the engine decides when a sentence is due.
"""

from __future__ import annotations

from collections.abc import Sequence

from roleagent_lite.envs.household.game import CLEAN, COOL, HOT, SLICED, TOGGLED, Dialect, Thing

BANNER = "-= Welcome to TextWorld, ALFRED! =-"
NOTHING = "Nothing happens."
MIDDLE = "You are in the middle of a room. Looking quickly around you, you see {}."


def listing(names: Sequence[str], article: str = "a ") -> str:
    """ "a x", "a x, and a y", "a x, a y, and a z"; "nothing" when empty. The article never changes."""
    if not names:
        return "nothing"
    words = [article + name for name in names]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + ", and " + words[-1]


def contents(name: str, openable: bool, opened: bool, things: Sequence[str]) -> str:
    if openable and not opened:
        return f"The {name} is closed."
    if openable:
        return f"The {name} is open. In it, you see {listing(things)}."
    return f"On the {name}, you see {listing(things)}."


def facing(receptacles: Sequence[str], floor: Sequence[str]) -> str:
    return f"You are facing the {listing(receptacles, '')}. Next to it, you see {listing(floor)}."


# First match wins; "cold" only where nothing else is to be said.
_STATES = (
    (CLEAN | HOT | SLICED, "a hot and clean sliced"),
    (CLEAN | COOL | SLICED, "a cool and clean sliced"),
    (CLEAN | SLICED, "a clean sliced"),
    (HOT | SLICED, "a hot sliced"),
    (COOL | SLICED, "a cool sliced"),
    (CLEAN | HOT, "a hot and clean"),
    (CLEAN | COOL, "a cool and clean"),
    (HOT, "a hot"),
    (CLEAN, "a clean"),
    (COOL, "a cold"),
)


def thing(what: Thing, state: int, nested: Sequence[str]) -> str:
    if what.container:
        return f"This is a normal {what.name}. In it, you see {listing(nested)}."
    for bits, words in _STATES:
        if state & bits == bits:
            return f"This is {words} {what.name}."
    if "toggleable" in what.abilities and state & TOGGLED:
        return f"This {what.name} is on."
    if "sliceable" in what.abilities and state & SLICED:
        return f"This is a sliced {what.name}."
    return f"There's nothing special about {what.name}."


def put_command(dialect: Dialect, obj: str, recep: str) -> str:
    return f"put {obj} in/on {recep}" if dialect.verb == "put" else f"move {obj} to {recep}"


def _line(usage: str, what: str, width: int = 34) -> str:
    return f"  {usage + ':':<{width}}{what}\n"


def help_text(dialect: Dialect) -> str:
    if dialect.help is not None:
        return dialect.help
    put = "put (object) in/on (receptacle)" if dialect.verb == "put" else "move (object) to (receptacle)"
    return (
        "Available commands:\n"
        + _line("look", "look around your current location")
        + _line("inventory", "check your current inventory")
        + _line("go to (receptacle)", "move to a receptacle")
        + _line("open (receptacle)", "open a receptacle")
        + _line("close (receptacle)", "close a receptacle")
        + _line("take (object) from (receptacle)", "take an object from a receptacle")
        + f"  {put}:  place an object in or on a receptacle\n"
        + _line("examine (something)", "examine a receptacle or an object")
        + _line("use (object)", "use an object")
        + _line("heat (object) with (receptacle)", "heat an object using a receptacle")
        + _line("clean (object) with (receptacle)", "clean an object using a receptacle")
        + _line("cool (object) with (receptacle)", "cool an object using a receptacle")
        + _line("slice (object) with (object)", "slice an object using a sharp object")
    )
