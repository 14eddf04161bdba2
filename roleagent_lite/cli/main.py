"""The command `roleagent-lite`: names of commands, the version, and the entry point.

Owns the list of commands; each lives in its own file and imports what it needs when it runs, so that
`--help` stays quick. Leaves out errors (border) and everything that commands do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from roleagent_lite.cli import (
    border,
    compare,
    distill,
    doctor,
    env,
    eval_,
    evolve,
    export_,
    models,
    runs,
    search_server,
    share,
    show,
    tasks,
)
from roleagent_lite.version import __version__

app = typer.Typer(
    name="roleagent-lite",
    help="One language model plays agent and world, and its prompts evolve from what it gets wrong.",
    epilog="Without a key: `roleagent-lite evolve` runs a small model on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text: the same everywhere, and quicker
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"roleagent-lite {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error too.")] = False,
) -> None:
    pass


app.command("evolve")(evolve.command)
app.command("eval")(eval_.command)
app.command("compare")(compare.command)
app.command("distill")(distill.command)
app.command("show")(show.command)
app.command("runs")(runs.command)
app.command("tasks")(tasks.command)
app.command("env")(env.command)
app.command("search-server")(search_server.command)
app.command("models")(models.command)
app.command("export")(export_.command)
app.command("share")(share.command)
app.command("doctor")(doctor.command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. Always ends with SystemExit; the codes are listed in `border`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    border.prepare_environment()
    rest = [w for w in words if w != "--debug"]  # understood after the command's name as well
    command = typer.main.get_command(app)
    sys.exit(border.guarded(lambda: command.main(rest, "roleagent-lite"), debug))


if __name__ == "__main__":
    main()
