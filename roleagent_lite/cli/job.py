"""What `evolve` and `eval` share on the screen: who watches, what an interrupt says, the result at the end.

Owns the words around a job. Leaves out the job (jobs) and the report (report).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from roleagent_lite.cli import border, trust
from roleagent_lite.cli.output import dollars, emit, interval, resuming, table

if TYPE_CHECKING:
    from roleagent_lite.cli.progress import Screen
    from roleagent_lite.config import RunConfig
    from roleagent_lite.evals.suite import Suite

_NAMES = {"test": "sealed test", "dev": "dev", "train": "training"}


def key_hint(config: RunConfig) -> str | None:
    """How to use a key that lies in the environment and that no role would use; None = nothing to say."""
    from roleagent_lite.lm.catalog import key_line
    from roleagent_lite.lm.weights import is_embedded
    from roleagent_lite.types import ROLES

    if not all(is_embedded(config.model_for(role)) for role in ROLES):
        return None
    return key_line()


@contextmanager
def watched(job: str, path: Path, config: RunConfig, suite: Suite | None = None) -> Iterator[Screen]:
    """Progress on standard error while the job runs; an interrupt says how to go on, a stop where it got to.

    Raises Interrupted for Ctrl-C and SIGTERM, and whatever the job raises.
    """
    from roleagent_lite.cli.progress import Screen
    from roleagent_lite.errors import BudgetStop, Interrupted

    border.use_run(path)
    border.ending_on_signals()
    border.tell(f"run {path.name} in {path}")
    hint = key_hint(config)
    if hint:
        border.tell(hint)
    again = resuming(job, path)
    trust.announce(config, border.tell, suite)
    try:
        with Screen() as screen, border.result_only():
            screen.first = partial(trust.remember, path)
            yield screen
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; what was finished is kept in {path}. Go on with: {again}") from None
    except BudgetStop:
        border.tell(f"stopped at a cap. Go on with a higher one: {again}{twice(config)}")
        if (path / "report.md").is_file():
            border.tell(f"partial report: {path / 'report.md'}")
        raise


def twice(config: RunConfig) -> str:
    """Flags that double each cap that is set, to be appended to a command line."""
    caps = {"max-usd": config.budget.max_usd, "max-calls": config.budget.max_calls}
    return "".join(f" --{name} {2 * cap or 1:.12g}" for name, cap in caps.items() if cap is not None)


def summary(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """The machine's result: report.json without the prompts' texts and the rounds."""
    kept = (
        "run",
        "status",
        "seed",
        "final",
        "choice",
        "sealed",
        "systems",
        "suite",
        "outcomes",
        "moves",
        "spend",
    )
    return {"dir": str(path), "report": str(path / "report.md"), **{k: data.get(k) for k in kept}}


def words(data: dict[str, Any], path: Path) -> str:
    """The reader's result: the verdict, a line a split and prompt, what it cost, where the report is."""
    parts = []
    if data.get("suite"):
        from roleagent_lite.cli.suite import words as suite_words

        return "\n\n".join([suite_words(data["suite"]), cost(data["spend"]), f"report: {report_file(path)}"])
    if data.get("sealed"):
        parts.append(data["sealed"]["words"])
    elif data["systems"] and not any(one["success"]["n"] for one in data["systems"]):
        parts.append("No episode could be scored, so nothing is said of any prompt.")
    elif data.get("choice"):
        parts.append(f"The seed prompt stays: {data['choice']}.")
    rows = []
    order = list(_NAMES)
    for one in sorted(data["systems"], key=lambda s: order.index(s["split"])):
        s = one["success"]
        name = {data.get("seed"): "seed", data.get("final"): "final"}.get(
            one["prompt_set"], one["prompt_set"][:8]
        )
        if data.get("seed") == data.get("final") == one["prompt_set"]:
            name = "seed"
        steps = "unknown" if one["mean_steps"] is None else f"{one['mean_steps']:.1f}"
        rows.append(
            [
                _NAMES.get(one["split"], one["split"]),
                name,
                f"{s['k']} of {s['n']}",
                interval(s["mean"], s["low"], s["high"]),
                steps,
                str(one["errors"]),
            ]
        )
    if rows:
        parts.append(table(["tasks", "prompt", "solved", "95 % interval", "steps", "errors"], rows))
    parts.append(cost(data["spend"]))
    parts.append(f"report: {report_file(path)}")
    return "\n\n".join(parts)


def report_file(path: Path) -> Path:
    """The page where there is one, else the Markdown."""
    page = path / "report.html"
    return page if page.is_file() else path / "report.md"


def cost(spend: list[dict[str, Any]]) -> str:
    """One line on calls, tokens and dollars of all roles; unknown stays unknown."""
    from roleagent_lite.report.means import requests_words

    calls, lost, failed, unread = (sum(s[k] for s in spend) for k in ("calls", "lost", "failed", "unread"))
    silent = requests_words(calls, lost, failed, unread)
    if calls == unread:
        return silent or "no call was made"
    tokens = sum(s["unknown_tokens"] for s in spend)
    money = sum(s["unknown_dollars"] for s in spend)
    known = dollars(sum(s["dollars"] for s in spend)) if money < calls else "dollars unknown"
    sent, cached, got = (sum(s[k] for s in spend) for k in ("input", "cached", "output"))
    counted = f"{sent:,} tokens in ({cached:,} cached), {got:,} out, " if tokens < calls or sent + got else ""
    line = f"{calls:,} calls, {counted}{known}"
    line += f"; tokens unknown for {tokens} calls" if tokens else ""
    line += f"; price unknown for {money} calls" if 0 < money < calls else ""
    return line + (f"; {silent}" if silent else "")


def finish(path: Path, as_json: bool) -> None:
    """Print the result; exit code 5 where episodes were left out because something broke."""
    data = json.loads((path / "report.json").read_text(encoding="utf-8"))
    emit(summary(data, path), words(data, path), as_json)
    broken = sum(one["errors"] for one in data["systems"])
    if broken:
        first = f". The first: {data['first_error']}" if data.get("first_error") else ""
        border.tell(
            f"{broken} episodes ended in infrastructure errors and are left out; the report lists them{first}"
        )
        raise typer.Exit(border.PARTIAL)
