"""What commands print: one JSON value with --json, else short text tables; nothing else on standard output.

Owns layout of tables and numbers and the finding of a run by name. Leaves out progress (its own file) and
errors (border).
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def emit(value: Any, text: str, as_json: bool) -> None:
    """`value` as one JSON document where `as_json`, else `text`; scrubbed of keys either way."""
    from roleagent_lite.redact import clean, scrub, visible, visible_json

    if as_json:
        plain = json.loads(json.dumps(value, ensure_ascii=False, default=str))
        out = visible_json(json.dumps(clean(plain), ensure_ascii=False, indent=2))
    else:
        out = visible(scrub(text))
    sys.stdout.write(out.encode("utf-8", "replace").decode("utf-8") + "\n")
    sys.stdout.flush()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned with spaces: the same on a terminal, in a pipe and under any locale."""
    cells = [[str(c).replace("\n", " ") for c in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.0f} %"


def interval(mean: float | None, low: float | None, high: float | None) -> str:
    """`42 % (28-58 %)`; unknown where there is no number."""
    if mean is None or low is None or high is None:
        return "unknown"
    return f"{100 * mean:.0f} % ({100 * low:.0f}-{100 * high:.0f} %)"


def dollars(value: float | None) -> str:
    """Never shows an unknown price as nothing, nor a small one as $0.00."""
    if value is None:
        return "unknown"
    return f"${value:.2f}" if value == 0 or value >= 0.01 else f"${value:.4f}"


def seconds(value: float | None) -> str:
    """`45 s`, `3 min 10 s`, `2 h 05 min`."""
    if value is None:
        return "unknown"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def run_names(root: Path) -> list[str]:
    """Runs under `root`, the newest last."""
    from roleagent_lite import store

    return store.run_names(root)


def find_run(name: str, root: Path) -> Path:
    """The directory of a run given by name or path. Raises ConfigError with the nearest name."""
    from roleagent_lite import store

    return store.find_run(name, root)


def resuming(job: str, path: Path) -> str:
    """The command line that goes on with the run at `path`, or words on it for one that has many flags."""
    lines = {"cells": "distill RUN --cells", "online": "distill --online"}
    if job in lines:
        return f"give the `roleagent-lite {lines[job]}` line that began it once more"
    words = ["roleagent-lite", job, "--resume", "--run", path.name]
    if path.parent != Path("runs"):
        words += ["--runs", str(path.parent)]
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """`word` for a shell, on one line: a folder that others named may hold line ends (bash's $'...')."""
    from roleagent_lite.redact import one_line

    if one_line(word) == word:
        return shlex.quote(word)
    return f"$'{one_line(word.replace(chr(92), chr(92) * 2).replace(chr(39), chr(92) + chr(39)))}'"


def next_name(stem: str, root: Path) -> str:
    """`stem-1`, or the first such name that is free."""
    number = 1
    while (root / f"{stem}-{number}").exists():
        number += 1
    return f"{stem}-{number}"


def flat(values: Mapping[str, Any]) -> str:
    """`a=1, b=2` for one-line notes."""
    return ", ".join(f"{k}={v}" for k, v in values.items())
