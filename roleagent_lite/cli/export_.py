"""`roleagent-lite export`: the final prompt of a run as text, JSON or DSPy state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roleagent_lite.cli.settings import AsJson, RunArgument, Runs

Format = Annotated[str, typer.Option("--format", help="text, json or dspy.")]
Out = Annotated[Path | None, typer.Option("--out", help="Write to this file instead of the screen.")]


def command(
    run: RunArgument,
    format: Format = "text",
    out: Out = None,
    runs: Runs = Path("runs"),
    json: AsJson = False,
) -> None:
    """Print a run's final prompt."""
    import sys

    from roleagent_lite.cli.output import find_run
    from roleagent_lite.errors import RoleAgentError
    from roleagent_lite.evolve.export import export
    from roleagent_lite.redact import scrub, visible

    text = scrub(export(find_run(run, runs), "json" if json and format == "text" else format))
    if out is None:
        text = visible(text) if sys.stdout.isatty() else text  # a file or a pipe gets what was written
        sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8"))
        return
    try:
        out.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise RoleAgentError(f"cannot write {out}: {error.strerror or error}") from None
