"""Near misses: what a model wrote for an action, mapped to the action that it meant, by a stated rule.

Owns the rule. Leaves out what becomes of an action that maps to none (rollout).

1. The text as it is, if it is allowed.
2. The text *unwrapped*: what stands in `<action>…</action>`, else behind the first line's `Action:` label,
   else the first line that is not empty; without a prompt sign (`>`), without quotes, backticks or asterisks
   around it (a call keeps those of its arguments). Allowed as it then stands: taken.
3. Without final periods, in lower case, inner spaces as one: taken if exactly one allowed text is equal
   under the same treatment. Two or more: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_TAG = re.compile(r"<action>(.*?)(?:</action>|$)", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(
    r"^[ \t>*#`-]{0,40}(?:final\s{1,9})?action\s{0,9}(?:\d{1,9}\s{0,9})?"
    r"\*{0,3}\s{0,9}:\s{0,9}\*{0,3}\s{0,9}(.+)$",
    re.IGNORECASE | re.MULTILINE,
)
_MADE_UP = re.compile(r"\n[ \t]{0,40}(?:\*\*)?observation(?:\*\*)?[ \t]{0,9}:", re.IGNORECASE)
_CALL = re.compile(r"[\w.:/-]+\(.*\)")
_WRAPPERS = ('"', "'", "`", "*", "“”", "‘’", "«»", "<>", "[]")


def _bare_of(inner: str, marks: set[str]) -> bool:
    """Whether no mark stands in `inner`, but for the quotes of a call's arguments."""
    if len(marks) > 1 or not _CALL.fullmatch(inner):
        return not set(inner) & marks
    depth = 0
    for sign in inner:
        depth += (sign in "([{") - (sign in ")]}")
        if sign in marks and depth <= 0:
            return False
    return True


def _peel(line: str) -> str:
    """Without prompt signs and without marks that stand around the whole line and nowhere inside it."""
    while True:
        line = line.strip()
        if line.startswith(">") and not line.endswith("<"):
            line = line.lstrip("> ")
            continue
        for mark in _WRAPPERS:
            left, right = mark[0], mark[-1]
            inner = line[1:-1]
            if len(line) > 2 and line[0] == left and line[-1] == right and _bare_of(inner, {left, right}):
                line = inner
                break
        else:
            if len(line) > 4 and line.startswith("**") and line.endswith("**"):
                line = line[2:-2]
                continue
            return line


def unwrap(said: str) -> str:
    """The action inside what was said (rule 2); "" if there is none."""
    tag = _TAG.search(said)
    if tag:
        said = tag[1]
    label = _LABEL.search(said)
    if label:
        return _peel(label[1])
    lines = [line for line in said.splitlines() if line.strip().strip("`")]
    return _peel(lines[0]) if lines else ""


def free_form(said: str) -> str:
    """An action for an environment that lists none: labels, marks around it and a made-up observation
    behind it go, case, punctuation and further lines stay."""
    said = _MADE_UP.split(said.strip(), maxsplit=1)[0].strip()
    marked = _TAG.search(said) or _LABEL.search(said)
    return said if "\n" in said and not marked else unwrap(said)


def _loose(text: str) -> str:
    return " ".join(text.split()).rstrip(". ").casefold()


def near_miss(said: str, allowed: Iterable[str]) -> str | None:
    """The one allowed text that `said` means by the rule above, or None."""
    options = allowed if isinstance(allowed, tuple | list | set | frozenset | dict) else tuple(allowed)
    if said in options:
        return said
    bare = unwrap(said)
    if bare in options:
        return bare
    wanted = _loose(_peel(bare.rstrip(". ")))
    if not wanted:
        return None
    found = {option for option in options if _loose(option) == wanted}
    return found.pop() if len(found) == 1 else None
