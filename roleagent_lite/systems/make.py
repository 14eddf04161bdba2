"""Systems by name. Owns the names. Leaves out what each does."""

from __future__ import annotations

from collections.abc import Callable

from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.systems.adapt import Adapt
from roleagent_lite.systems.base import Base
from roleagent_lite.systems.chance import Random
from roleagent_lite.systems.direct import Prompt
from roleagent_lite.systems.lats import Lats
from roleagent_lite.systems.oracle import Oracle
from roleagent_lite.systems.own import Own
from roleagent_lite.systems.react import React
from roleagent_lite.systems.reflexion import Reflexion
from roleagent_lite.systems.role_agent import RoleAgent
from roleagent_lite.systems.setting import Setting

SYSTEMS: dict[str, Callable[[Setting, str], Base]] = {
    "random": Random,
    "prompt": Prompt,
    "react": React,
    "reflexion": Reflexion,
    "lats": Lats,
    "adapt": Adapt,
    "role-agent": RoleAgent,
    "oracle": Oracle,
}


def check_name(name: str) -> None:
    """Raises ConfigError, with the nearest name, for a name that no system has."""
    kind, colon, rest = name.partition(":")
    if kind in SYSTEMS and (not colon or (kind == "role-agent" and rest)):
        return
    if not (colon and rest and kind not in SYSTEMS):
        raise ConfigError(
            f"no system '{name}'{nearest(name, SYSTEMS)}, role-agent:RUN, "
            "or your own agent as module:callable"
        )


def make_system(name: str, setting: Setting) -> Base:
    """A System by name: one of SYSTEMS, `role-agent:RUN` or `role-agent:FILE`, or the user's own agent as
    `module:callable`. Raises ConfigError with the nearest name, and for what the setting cannot give it."""
    check_name(name)
    kind = name.partition(":")[0]
    return SYSTEMS[kind](setting, name) if kind in SYSTEMS else Own(setting, name)
