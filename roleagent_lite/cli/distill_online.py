"""What `distill --online` shows: an update a line, then the dev tasks before and after, and the sealed ones.

Owns the words on the screen. Leaves out the training (distill/online.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def train(
    recipe: str, tasks: str, out: Path | None, runs: Path, sealed: bool, json: bool, seed: int | None = None
) -> None:
    """`distill --online`. The run directory is `out`, else RUNS/RECIPE-online, with `-SEED` where one is
    given. Raises RoleAgentError where training had to stop."""
    from roleagent_lite.cli import trust
    from roleagent_lite.cli.border import ending_on_signals, going_on, result_only, tell, use_run
    from roleagent_lite.cli.output import emit, table
    from roleagent_lite.cli.progress import Screen
    from roleagent_lite.distill.online import check, train_online
    from roleagent_lite.distill.recipe import load_recipe, seeded
    from roleagent_lite.distill.stand import config_of
    from roleagent_lite.errors import RoleAgentError
    from roleagent_lite.report.html.write import write_all

    plan = load_recipe(recipe) if seed is None else seeded(load_recipe(recipe), seed)
    check(plan)
    trust.announce(config_of(plan, tasks), tell)
    ending_on_signals()

    folder = out or runs / (f"{plan.name}-online" + (f"-{seed}" if seed is not None else ""))
    use_run(folder)
    with going_on(folder), Screen() as screen, result_only():
        told = train_online(plan, tasks, folder, screen.listen, sealed=sealed, report=write_all)
    for warning in told["warnings"]:
        tell(f"warning: {warning}")
    emit(told, table(("what", ""), _rows(told)), json)
    if told["stopped"]:
        raise RoleAgentError(
            f"training stopped: {told['stopped']}; the last good adapter is {told['adapter']}"
        )


def _rows(told: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("method", told["method"]),
        ("trained with", f"{told['backend']} on {told['device']}: {told['backend_why']}"),
        ("reference", told["reference"]),
        ("updates", f"{told['updates']} of {told['of']} in {told['minutes']} minutes"),
        (
            "predictions",
            "played and rewarded" if told["predictions"] else "off: R_pre is 0 (online.predictions)",
        ),
    ]
    start = told.get("warm")
    if start is not None:
        rows += [("dev, base", share(start["dev"])), ("imitated", _imitated(start["imitated"]))]
    rows += [(f"dev after {look['update']} updates", share(look)) for look in told["dev"]]
    opened = told.get("sealed")
    if opened is not None:
        rows += [(f"sealed, {name}", share(found)) for name, found in opened["systems"].items()]
        rows += [(f"{p['second']} - {p['first']}", _difference(p)) for p in opened["pairs"] if "n" in p]
    return [*rows, ("adapter", told["adapter"])]


def _imitated(found: dict[str, Any]) -> str:
    words = f"{found['moves']} of {found['of']} moves of {found['episodes']} solved episodes"
    return words + (f", {found['relabelled']} of them solved another task" if found["relabelled"] else "")


def share(found: dict[str, Any]) -> str:
    """A share of solved tasks with its interval and n."""
    if found["solved"] is None:
        return "unknown (no episode counts)"
    interval = f"{found['low']:.0%} to {found['high']:.0%}"
    return f"{found['solved']:.0%} solved of {found['n']} (95 % interval {interval})"


def _difference(pair: dict[str, Any]) -> str:
    words = "within noise" if pair["within_noise"] else "beyond noise"
    played = f"{pair['n']} tasks, {pair['wins']} won, {pair['losses']} lost"
    return (
        f"{100 * pair['difference']:+.1f} points on {played}, p = {pair['p']:.3g} ({pair['test']}): {words}"
    )
