"""`roleagent-lite share`: a copy of a run that can be given away."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roleagent_lite.cli.settings import AsJson, RunArgument, Runs

To = Annotated[
    Path | None,
    typer.Option("--to", metavar="DIR|FILE.zip", help="Where the copy goes; default RUN-shared.zip here."),
]
Prompts = Annotated[
    bool, typer.Option("--prompts/--no-prompts", help="Without the texts of prompts and of all calls.")
]
Observations = Annotated[
    bool,
    typer.Option(
        "--observations/--no-observations", help="Without what the world said and the models answered."
    ),
]


def command(
    run: RunArgument,
    to: To = None,
    prompts: Prompts = True,
    observations: Observations = True,
    runs: Runs = Path("runs"),
    json: AsJson = False,
) -> None:
    """Copy a run for others: no keys, no paths of this machine, no user or host name."""
    from dataclasses import asdict

    from roleagent_lite.cli.output import emit, find_run
    from roleagent_lite.report.share import share

    source = find_run(run, runs)
    target = to if to is not None else Path(f"{source.resolve().name}-shared.zip")
    shared = share(source, target, prompts=prompts, observations=observations)
    lines = [f"shared copy: {shared.path}", "", "left out or replaced:"]
    lines += [f"  {words}" for words in shared.left_out]
    lines += [
        "",
        "remains, read it before you send it (names and secrets in plain words are not recognised):",
    ]
    lines += [f"  {words}" for words in shared.to_read]
    emit({**asdict(shared), "path": str(shared.path)}, "\n".join(lines), json)
