"""Errors and how they are worded: what was wrong, what was found, what to do.

Owns the few exception classes and the nearest-name helper. Leaves out outcomes of episodes: a failed
rollout is data (`types.Outcome`), a broken system is an exception.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RoleAgentError(Exception):
    """A fault the user can act on. The command line prints the message alone and exits with `exit_code`."""

    exit_code = 1


class ConfigError(RoleAgentError):
    """A setting, flag, task file or prompt file is wrong."""

    exit_code = 2


class MissingExtra(RoleAgentError):
    """A part needs a package that is not installed."""

    exit_code = 2


class BudgetStop(RoleAgentError):
    """A cap was reached. What is finished is kept; the run can be resumed."""

    exit_code = 3


class Interrupted(RoleAgentError):
    exit_code = 130


class ModelError(RoleAgentError):
    """A model could not answer. `fatal`: no later call can succeed either (key, unknown model, credit)."""

    exit_code = 4
    fatal = False

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class FatalModelError(ModelError):
    """Wrong key, unknown model, no credit, unreachable server: stop the run, do not retry."""

    fatal = True


class TransientModelError(ModelError):
    """Rate limit, overload, broken connection, empty reply: the one retry policy may try again."""


class ContextTooLong(ModelError):
    """The prompt does not fit the model's context."""


class ContentFiltered(ModelError):
    """The provider's filter refused prompt or reply."""


class UnsupportedRequest(ModelError):
    """The server refuses a parameter (temperature, system role, schema) or the request itself."""


class ReplyError(RoleAgentError):
    """An ask that ended without a usable reply. `kind` and `reason` become the episode's Outcome."""

    def __init__(self, kind: str, reason: str, message: str, call_ids: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.reason = reason
        self.call_ids = call_ids


class EpisodeEnd(RoleAgentError):
    """Who plays an episode ends it here: `reason` (budget, gave_up). It counts as it was played so far."""

    def __init__(self, reason: str, message: str, call_ids: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.call_ids = call_ids


class EnvironmentFault(RoleAgentError):
    """An environment raised, or answered in a shape that is not the protocol's."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`: did you mean 'x'?` or the list of known names; worded to be appended to a message."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if not close:  # one is the beginning of the other, or two letters changed places
        begun = [
            n for n in names if min(len(n), len(name)) > 2 and (name.startswith(n) or n.startswith(name))
        ]
        close = [n for n in names if sorted(n) == sorted(name)] or sorted(begun, key=len)[-1:]
    if close:
        return f"; did you mean '{close[0]}'?"
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"; known: {shown}" if names else ""
