"""Markdown pieces that stay Markdown whatever a model or a task says.

Owns escaping, tables, fences and the wording of shares and unknowns. Leaves out what is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from roleagent_lite.redact import visible
from roleagent_lite.report.gather import Share

UNKNOWN = "unknown"


def cut(text: str, most: int) -> str:
    """`text` on one line, at most `most` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def plain(text: str, most: int = 300) -> str:
    """`text` on one line with Markdown and HTML made harmless, cut to `most` characters."""
    flat = cut(visible(" ".join(text.split())), most)
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", flat)


def code(text: str, most: int = 120) -> str:
    """`text` as inline code that also fits into a table cell."""
    flat = visible(" ".join(text.split())).replace("|", "\u2502")
    if len(flat) > most:
        flat = flat[: most - 1] + "…"
    ticks = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}" if flat else ""


def fence(text: str, language: str = "") -> str:
    """`text` in a fence that its own backticks cannot close."""
    text = visible(text)
    ticks = "`" * max(3, max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table; cells must be escaped already. "" where there are no rows."""
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def percent(value: float | None, digits: int = 0) -> str:
    return UNKNOWN if value is None else f"{100 * value:.{digits}f} %"


def success(share: Share) -> str:
    """`5 of 12: 42 % (19-68)`; no number without n and interval."""
    if share.mean is None or share.low is None or share.high is None:
        return "no scored episode"
    return f"{share.k} of {share.n}: {100 * share.mean:.0f} % ({100 * share.low:.0f}-{100 * share.high:.0f})"


def number(value: float | None, digits: int = 1) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def count(known: int, unknown: int, calls: int) -> str:
    """A sum of tokens, and for how many calls nothing is known; never 0 for what is unknown."""
    if unknown == calls and calls:
        return UNKNOWN
    return f"{known:,}" + (f" (unknown for {unknown} calls)" if unknown else "")


def dollars(known: float, unknown: int, calls: int) -> str:
    if unknown == calls and calls:
        return UNKNOWN
    shown = f"${known:.2f}" if known == 0 or known >= 0.01 else f"${known:.4f}"
    return shown + (f" (unknown for {unknown} calls)" if unknown else "")


def duration(value: float | None) -> str:
    """`45 s`, `3 min 10 s`, `2 h 05 min`."""
    if value is None:
        return UNKNOWN
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
