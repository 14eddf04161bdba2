"""The report's section on World-In-Agent: were the predictions worth more than trivial ones.

Owns the sample that is measured, the words and the plot. Leaves out the measurement (wia.fidelity).
"""

from __future__ import annotations

from dataclasses import replace

from roleagent_lite.report.markdown import percent, plain, table
from roleagent_lite.report.svg import Point, bars
from roleagent_lite.store import Run
from roleagent_lite.types import Credit, Step, Trajectory
from roleagent_lite.wia.fidelity import Fidelity, fidelity

MOST_STEPS = 20_000  # of the newest rounds: bounds the memory of a report on a long run


def measure(run: Run) -> tuple[Fidelity, int] | None:
    """Fidelity over the credited episodes, newest first up to MOST_STEPS, and how many were left out.

    None where no episode has a Credit.
    """
    judged = set(run.credits.keys())
    ids = list(filter(judged.__contains__, run.trajectories.keys()))
    kept: list[Trajectory] = []
    credits: list[Credit] = []
    seen: dict[str, str] = {}
    steps = 0
    for key in reversed(ids):
        trajectory, credit = run.trajectories.get(key), run.credits.get(key)
        if trajectory is None or credit is None:
            continue
        steps += len(trajectory.steps)
        if steps > MOST_STEPS and kept:
            break
        kept.append(replace(trajectory, steps=tuple(_slim(step, seen) for step in trajectory.steps)))
        credits.append(credit)
    if not kept:
        return None
    return fidelity(kept, credits, run.config.wia), len(ids) - len(kept)


def _slim(step: Step, seen: dict[str, str]) -> Step:
    """What is measured of a step. Lists of legal actions are most of its size and are not looked at; a text
    that many steps hold, as one's outcome and the next one's observation, is held once (in `seen`)."""
    observation, outcome = (seen.setdefault(text, text) for text in (step.observation, step.outcome))
    return replace(
        step, observation=observation, outcome=outcome, admissible=(), thought="", said="", call_ids=()
    )


def _value(value: float | None) -> str:
    return "no data" if value is None else f"{value:.2f}"


def sentences(found: Fidelity, left_out: int) -> list[str]:
    """The section's text: shares and correlation with success; the measurement's warnings stand apart."""
    missing = percent(found.missing_share)
    lines = [
        f"Alignment of what the agent foretold with what came: mean {_value(found.alignment)} over "
        f"{found.comparisons} comparisons in {found.compared_steps} of {found.steps} steps "
        f"(0 = nothing in common, 1 = word for word; {found.cut} long pages compared by what is new).",
        f"{found.missing} of {found.steps} steps ({missing}) carried no prediction. {found.rule}",
    ]
    if found.correlation is None:
        lines.append(
            "Correlation of predictive reward with success: not computed (too few episodes, or all alike)."
        )
    else:
        c = found.correlation
        lines.append(
            f"Correlation of an episode's mean predictive reward with success: r = {c.r:+.2f} "
            f"(p = {c.p:.3f}, n = {c.n})."
        )
    if found.state_groups:
        lines.append(
            f"{found.singletons} of {found.state_groups} state groups hold a single step and give no state "
            f"signal; {found.nonzero} of {found.credited} steps have a non-zero advantage."
        )
    if left_out:
        lines.append(f"Measured on the newest rounds; {left_out} earlier episodes were left out.")
    return lines


def words(found: Fidelity, left_out: int) -> str:
    """`sentences` and the measurement's own warnings, as Markdown."""
    notes = [f"**Note:** {plain(w, 600)}." for w in found.warnings]
    return "\n\n".join([*sentences(found, left_out), *notes])


def baseline_table(found: Fidelity) -> str:
    """Each trivial predictor beside the agent on the same comparisons."""
    rows = [[plain(b.name), _value(b.alignment), _value(b.model), str(b.n)] for b in found.baselines]
    return table(["trivial predictor", "it scores", "the agent scores there", "n"], rows)


def action_table(found: Fidelity) -> str:
    """Alignment by the first word of the action, the most frequent first."""
    rows = [
        [plain(a.action or "(none)"), str(a.steps), str(a.missing), _value(a.alignment)]
        for a in found.by_action[:15]
    ]
    return table(["action", "steps", "without prediction", "alignment"], rows)


def plot(found: Fidelity) -> str | None:
    """Bars: each trivial predictor beside the agent; None where nothing was compared."""
    groups = [
        (b.name, [Point(0, b.alignment), Point(0, b.model)])
        for b in found.baselines
        if b.alignment is not None
    ]
    if not groups:
        return None
    return bars(
        "Foresight: the agent against trivial predictors",
        "alignment",
        groups,
        ["trivial predictor", "the agent"],
    )
