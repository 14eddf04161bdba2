"""The report of a run: report.md, report.json with the same numbers, and plots as SVG, in the run directory.

Owns the order of the sections and the files. Reads the run directory and nothing else, so that the report of
a copied, resumed or replayed run is the same. Leaves out every number (gather, compare, foresight).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import roleagent_lite.report.course as course
import roleagent_lite.report.foresight as foresight
import roleagent_lite.report.means as means
import roleagent_lite.report.results as results
import roleagent_lite.report.systems as systems
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.redact import clean, scrub
from roleagent_lite.report.compare import Comparison, final_id, sealed, seed_id
from roleagent_lite.report.gather import Facts, Tally, gather
from roleagent_lite.report.markdown import plain
from roleagent_lite.report.systems import Standings
from roleagent_lite.store import Run
from roleagent_lite.types import ROLES, PromptSet, Result
from roleagent_lite.wia.fidelity import Fidelity

SCHEMA = 1  # of report.json; changes when a field that is there changes its meaning or goes


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is shown. `plots`: file name -> SVG text."""

    name: str
    run: Run
    facts: Facts
    sealed: Comparison | None
    fidelity: Fidelity | None
    left_out: int
    prompts: dict[str, PromptSet]
    plots: dict[str, str]
    standings: Standings | None = None

    def as_data(self) -> dict[str, Any]:
        """The JSON twin: plain values; None = unknown."""
        facts = self.facts
        return {
            "schema": SCHEMA,
            "run": self.name,
            "status": "finished" if facts.finished else "partial",
            "config": self.run.config.model_dump(mode="json"),
            "tasks": {"counts": dict(facts.task_counts), "hash": facts.start.get("tasks_hash")},
            "seed": seed_id(facts),
            "final": final_id(facts),
            "choice": facts.final.get("reason"),
            "sealed": self.sealed.as_data() if self.sealed else None,
            "systems": [_system(t, facts) for t in facts.tallies.values()],
            "suite": self.standings.as_data() if self.standings else None,
            "results": [_result(r) for r in self.run.results],
            "outcomes": {
                split: [{"kind": k, "reason": r, "n": n} for (k, r), n in sorted(counts.items())]
                for split, counts in facts.outcomes.items()
            },
            "first_error": facts.broken or None,
            "moves": {split: asdict(m) for split, m in facts.moves.items()},
            "fidelity": asdict(self.fidelity) if self.fidelity else None,
            "failure_modes": {str(r): dict(c) for r, c in facts.modes.items()},
            "curriculum": course.rounds_as_data(facts),
            "candidates": facts.candidates,
            "prompts": {
                k: {"parent": p.parent, "why": p.why, "texts": dict(p.texts)} for k, p in self.prompts.items()
            },
            "spend": [asdict(s) for s in facts.spend],
            "sessions": facts.sessions,
            "notes": facts.notes,
        }


def _system(tally: Tally, facts: Facts) -> dict[str, Any]:
    return {
        "prompt_set": tally.prompt_set,
        "split": tally.split,
        "success": asdict(tally.success),
        "errors": tally.errors,
        "success_with_errors_as_0": asdict(tally.with_errors),
        "mean_of_types": tally.macro(facts.task_types),
        "by_type": {k: asdict(s) for k, s in tally.by_type(facts.task_types).items()},
        "mean_score": tally.mean_score,
        "mean_steps": tally.mean_steps,
    }


def _result(result: Result) -> dict[str, Any]:
    """A scored system without its rows by task, which results.jsonl holds."""
    data = asdict(result)
    return {key: value for key, value in data.items() if key not in ("scores", "values", "trajectories")}


def build(run: Run) -> Report:
    """Read everything once. Raises RoleAgentError where a table is damaged."""
    facts = gather(run)
    found = systems.standings(run, facts.task_types)
    facts.verdict = systems.headline(found) if found is not None else ""
    measured = foresight.measure(run)
    plots = {"success.svg": course.success_plot(facts), "curriculum.svg": course.curriculum_plot(facts)}
    if measured is not None:
        plots["foresight.svg"] = foresight.plot(measured[0])
    return Report(
        name=run.name,
        run=run,
        facts=facts,
        sealed=sealed(facts),
        fidelity=measured[0] if measured else None,
        left_out=measured[1] if measured else 0,
        prompts={p.id: p for p in run.prompt_sets},
        plots={name: svg for name, svg in plots.items() if svg is not None},
        standings=found,
    )


def settings_rows(report: Report) -> list[tuple[str, str]]:
    """What the run played, by name of the setting; "" = the run does not say."""
    config, facts = report.run.config, report.facts
    counts = ", ".join(
        f"{facts.task_counts[s]} {s}" for s in ("train", "dev", "test") if facts.task_counts[s]
    )
    rows = [(f"model, {role}", config.model_for(role)) for role in ROLES]
    if len({value for _, value in rows}) == 1:
        rows = [("model, all roles", rows[0][1])]
    rows += [
        ("agent", config.agent),
        ("tasks", f"{config.tasks}{f' ({counts} played)' if counts else ''}"),
        ("hash of the task file", str(facts.start.get("tasks_hash") or "")),
        ("prompts", config.prompts),
        ("seed prompt", seed_id(facts) or ""),
        ("random seed", str(config.seed)),
        ("version", str(facts.start.get("version") or "")),
    ]
    # An evaluation plays one split and has no rounds.
    return rows if len(facts.task_counts) == 1 else [*rows, ("rounds", str(config.evolve.rounds))]


def _picture(report: Report, name: str, words: str) -> str:
    return f"![{words}]({name})" if name in report.plots else ""


def sections(report: Report) -> list[tuple[str, list[str]]]:
    """Title and blocks of each section; empty blocks are dropped, and sections that have none."""
    facts, config = report.facts, report.run.config
    found = report.fidelity
    world = ["No episode carries predictions that were scored."]
    if found is not None:
        world = [
            foresight.words(found, report.left_out),
            foresight.baseline_table(found),
            _picture(report, "foresight.svg", "Alignment of the agent and of trivial predictors"),
            foresight.action_table(found),
        ]
    broken = results.error_lines(facts)
    success = [
        ("Success", [results.success_tables(facts), _picture(report, "success.svg", "Success by round")]),
        ("By task type (sealed tasks)", [results.type_table(facts)]),
    ]
    suite = report.standings
    if suite is not None:  # its own tables say more, but for systems that have not come to their end
        success = [("So far, episode by episode", success[0][1])] if suite.unfinished else []
    return [
        *(systems.sections(suite) if suite is not None else []),
        ("What was run", [results.what_was_run(facts, settings_rows(report))]),
        *success,
        (
            "How episodes ended",
            [
                results.outcome_table(facts),
                results.moves_table(facts),
                f"The first episodes that broke off:\n\n{broken}" if broken else "",
                results.arms_table(facts),
                "\n".join(f"- {plain(note)}" for note in facts.notes),
            ],
        ),
        ("Foresight (World-In-Agent)", world),
        ("Failure modes by round (Agent-In-World)", [course.modes_table(facts)]),
        (
            "Curriculum",
            [
                course.curriculum_table(facts),
                _picture(report, "curriculum.svg", "Draw probability by task type"),
            ],
        ),
        ("Candidates", [course.candidates_table(facts)]),
        ("The prompt", [] if suite is not None else [course.prompt_section(facts, report.prompts)]),
        ("What it cost", [means.spend_table(facts) or "No call was made.", means.unanswered(facts)]),
        ("Time", [means.time_words(facts, facts.spend)]),
        ("What this model can and cannot do", [means.embedded_words(config, report.name, facts)]),
    ]


TRAINING = (
    "Training rows are over the tasks that each prompt happened to be drawn for, several episodes a task: "
    "their intervals are too narrow, and they do not compare prompts. "
)


def render(report: Report) -> str:
    """The report as Markdown, scrubbed of keys."""
    state = "" if report.facts.finished else " (partial)"
    parts = [f"# Run {plain(report.name)}{state}", results.headline(report.facts, report.sealed)]
    for title, blocks in sections(report):
        kept = [b for b in blocks if b]
        if kept:
            parts += [f"## {title}", *kept]
    parts.append(
        "Intervals are 95 % Wilson intervals over episodes"
        + (", clustered by task where tasks are repeated" if report.standings else "")
        + f"; {systems.TESTS if report.standings else 'the comparison is an exact paired test over tasks'}. "
        + (TRAINING if any(split == "train" for _, split in report.facts.tallies) else "")
        + "The same numbers are in `report.json`."
    )
    return scrub("\n\n".join(parts) + "\n")


def _save(path: Path, text: str) -> None:
    """Write beside and rename, so that a full disk never costs the report that was there."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8", errors="replace")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RoleAgentError(
            f"cannot write {path}: {error.strerror or error}; the run itself is safe"
        ) from None


def write_report(run_dir: Path) -> Path:
    """Write report.md, report.json and the plots into `run_dir`; the path of report.md.

    Works on unfinished runs (marked partial) and on evaluations. Raises ConfigError where there is no run,
    RoleAgentError where a table is damaged or the disk is full.
    """
    with Run.open(Path(run_dir)) as run:
        return save_files(build(run))


def save_files(report: Report) -> Path:
    """What `write_report` writes, of a report that is built; the path of report.md."""
    folder = report.run.dir
    for name, svg in report.plots.items():
        _save(folder / name, scrub(svg))
    data = json.dumps(clean(report.as_data()), ensure_ascii=False, indent=1)
    _save(folder / "report.json", data + "\n")
    path = folder / "report.md"
    _save(path, render(report))
    return path
