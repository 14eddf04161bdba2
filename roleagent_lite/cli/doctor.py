"""`roleagent-lite doctor`: what on this machine is fit for a run, what is not, and what to do about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roleagent_lite.cli.settings import AsJson, BaseUrl, KeyEnv, Model, Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roleagent_lite.doctor import Line

Probe = Annotated[
    bool,
    typer.Option(
        "--probe", help="Ask the named model what it takes: 7 tiny calls, paid if the provider's are."
    ),
]
Stores = Annotated[bool, typer.Option("--stores", help="Open the memory stores of all runs too.")]
Imports = Annotated[
    bool,
    typer.Option("--imports", help="Import every needed package to see whether it can be: about 10 seconds."),
]
One = Annotated[str | None, typer.Option("--run", help="Look at this run alone, and read it whole.")]


def words(lines: Sequence[Line]) -> str:
    """A line each; what to do stands under it. The last line counts."""
    width = max(len(line.name) for line in lines)
    out = []
    for line in lines:
        out.append(f"{line.state:<8} {line.name:<{width}}  {line.found}")
        if line.advice:
            out.append(f"{'':<8} {'':<{width}}  -> {line.advice}")
    count = Counter(line.state for line in lines)
    out += ["", f"{count['problem']} problems, {count['warning']} warnings, {count['ok']} ok"]
    return "\n".join(out)


def command(
    model: Model = None,
    base_url: BaseUrl = None,
    api_key_env: KeyEnv = None,
    probe: Probe = False,
    runs: Runs = Path("runs"),
    run: One = None,
    stores: Stores = False,
    imports: Imports = False,
    json: AsJson = False,
) -> None:
    """Check this machine, its packages, keys, stores and a model; 1 = something will not work."""
    from roleagent_lite.cli.output import emit, find_run
    from roleagent_lite.doctor import examine

    lines = examine(
        runs=runs,
        run=None if run is None else find_run(run, runs),
        model=model,
        base_url=base_url,
        api_key_env=api_key_env,
        probe=probe,
        stores=stores,
        imported=imports,
    )
    emit([asdict(line) for line in lines], words(lines), json)
    if any(line.state == "problem" for line in lines):
        raise typer.Exit(1)
