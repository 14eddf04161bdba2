"""Finds the content rooms prompts/, tasks/, distill/ and evals/, in a checkout and in the wheel alike.

The only file that knows where they lie: the wheel maps them into `roleagent_lite/_content/`, an editable
install or a checkout reads the rooms beside the package.
"""

from __future__ import annotations

from pathlib import Path

from roleagent_lite.errors import ConfigError, nearest

ROOMS = ("prompts", "tasks", "distill", "evals")
_PACKAGE = Path(__file__).resolve().parent


def room(name: str) -> Path:
    """The folder of one room. Raises ConfigError where the installation lacks it."""
    if name not in ROOMS:
        raise ConfigError(f"no content room '{name}'{nearest(name, ROOMS)}")
    for base in (_PACKAGE / "_content", _PACKAGE.parent):
        if (base / name).is_dir():
            return base / name
    raise ConfigError(
        f"the content room '{name}' is missing from this installation; reinstall roleagent-lite"
    )


def find(name: str, item: str, suffix: str) -> Path:
    """A user's path if it exists, else `item` + `suffix` in a room. Raises ConfigError with known names."""
    own = Path(item)
    if own.is_file():
        return own
    shipped = room(name) / f"{item}{suffix}"
    if shipped.is_file():
        return shipped
    known = sorted(str(p.relative_to(room(name)).with_suffix("")) for p in room(name).rglob(f"*{suffix}"))
    what = {"distill": "recipes", "evals": "suites"}.get(name, name)
    raise ConfigError(f"'{item}' is neither a file nor one of the shipped {what}{nearest(item, known)}")
