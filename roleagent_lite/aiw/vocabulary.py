"""Vocabularies of failure modes: the names a diagnosis may give, and `other` with a name of its own.

Owns reading `tasks/vocabularies/*.toml` (or the user's names) and the settling of a reply's spelling. Leaves
out the diagnosis itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roleagent_lite.config import parse_toml, read_bounded
from roleagent_lite.content import find
from roleagent_lite.errors import ConfigError

OTHER = "other"
GENERAL = "general"
_MAX_NAME = 40  # characters of a free name
_WORDS = 4  # keywords that name a mode which has no name of its own


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`modes`: name -> one line that says when it applies."""

    name: str
    modes: Mapping[str, str]

    def text(self) -> str:
        """The modes for a prompt, one a line, in the file's order; stable, so that prompt caches apply."""
        lines = [f"- {name}: {what}" for name, what in self.modes.items()]
        return "\n".join([*lines, f"- {OTHER}:your_own_name (only where none of these fits)"])

    @property
    def names(self) -> tuple[str, ...]:
        """What a constrained reply may say."""
        return (*self.modes, OTHER)

    def settle(self, said: str, keywords: str = "") -> str:
        """The mode that a reply means: a known name whatever its case, spaces or hyphens, else `other:name`.

        A bare `other` (all that a constrained reply can say) takes its name from the first words of
        `keywords`, the retrieval query; it stays `other` where there are none.
        """
        name = _slug(said)
        free = re.sub(rf"^{OTHER}(_|$)", "", name)
        if free in self.modes:
            return free
        free = free or _slug(" ".join(keywords.split()[:_WORDS]))
        return f"{OTHER}:{free[:_MAX_NAME].strip('_')}" if free else OTHER


def _slug(text: str) -> str:
    return re.sub(r"\W+", "_", text.casefold()).strip("_")


def load_vocabulary(name: str = GENERAL) -> Vocabulary:
    """A shipped vocabulary by name, or a TOML file with a table `[modes]` of name = "description".

    Raises ConfigError that names the file and what is wrong with it.
    """
    own = name.endswith(".toml")
    path = find("tasks", name if own else f"vocabularies/{name}", ".toml")
    try:
        table = parse_toml(read_bounded(path))
    except OSError as error:
        raise ConfigError(f"cannot read vocabulary {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"vocabulary {path} is not valid TOML: {error}") from None
    modes = table.get("modes")
    if not isinstance(modes, dict) or not modes:
        raise ConfigError(f'vocabulary {path} needs a table [modes] with rows of name = "when it applies"')
    return make_vocabulary(path.stem, modes, f"vocabulary {path}")


def make_vocabulary(name: str, modes: Any, where: str) -> Vocabulary:
    """A vocabulary of names and descriptions; `where` is for the ConfigError that a wrong one raises."""
    if not isinstance(modes, Mapping):
        raise ConfigError(f'{where}: {{name: "when it applies"}} is needed, found {type(modes).__name__}')
    for mode, what in modes.items():
        known = isinstance(mode, str) and mode == _slug(mode) and mode != OTHER
        if not known or not isinstance(what, str) or not what.strip():
            raise ConfigError(
                f"{where}: mode '{mode}' needs a name of lower-case words joined by _ (not '{OTHER}') and a "
                "description"
            )
    return Vocabulary(name, {mode: " ".join(what.split()) for mode, what in modes.items()})
