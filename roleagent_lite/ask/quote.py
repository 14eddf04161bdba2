"""Text from outside inside a prompt: what it may not do to the prompt's form.

An observation, a goal or a model's earlier words are shown as they are, but for what a reader could take for
the prompt's own structure: a line that begins like a heading of the template gets a bar before it, and the
first character of a chat template's control token or of a thinking tag becomes `‹`. Texts that evolve are the
prompt itself and stay as they are. Owns these rules. Leaves out keys (redact). Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache

_HOLE = re.compile(r"\{[a-z_][a-z0-9_]*\}")
_CONTROL = re.compile(
    r"<(?=\||\uff5c|/?s>|<SYS>|</SYS>|/?(?:start|end)_of_turn>|[be]os>"
    r"|\s*/?\s*(?:think|thinking|thought|thoughts|reasoning|reflection|seed:think)\s*>)"
    r"|\[(?=/?(?:INST|THINK)\])|\u25c1(?=/?think)",
    re.IGNORECASE,
)
_ANY = ".{0,80}?"  # what a hole inside a heading may stand for


@lru_cache(maxsize=64)
def headings(*turns: str) -> re.Pattern[str] | None:
    """A pattern of lines that begin like a heading of these templates; None where they have none.

    A heading is a template's line up to its last colon, or a line of signs alone (`<<<`, `---`), of at least
    3 characters.
    """
    found: set[str] = set()
    for line in "\n".join(turns).splitlines():
        if re.fullmatch(r"[^\w\s{}]{3,}", line.strip()):
            found.add(re.escape(line.strip()) + r"[ \t]*$")
            continue
        head = re.sub(r"\{[^{}]*\}[^:]*$", "", line).strip() if ":" in line else ""
        head = head[: head.rfind(":") + 1]
        parts = _HOLE.split(head)
        if len("".join(parts)) >= 3 and parts[0].strip():
            found.add(_ANY.join(r"\s+".join(map(re.escape, p.split())) for p in parts))
    if not found:
        return None
    # What counts as a line's end for a model is more than "\n".
    start = "(?:^|(?<=[\r\x0b\x0c\x85\u2028\u2029]))"
    return re.compile(rf"{start}(?=[ \t]*(?:{'|'.join(sorted(found))}))", re.IGNORECASE | re.MULTILINE)


def shown(text: str, marks: re.Pattern[str] | None) -> str:
    """`text` as it may stand in a prompt whose headings are `marks`. Most texts come out unchanged."""
    if marks is not None and (":" in text or "<<<" in text or ">>>" in text or "---" in text):
        text = marks.sub("| ", text)
    return _CONTROL.sub("‹", text)
