"""Writes report.html into a run directory, and all files of a report at the end of a job.

Owns the file: written beside and renamed, so that a full disk or a kill never costs the page that was there.
Leaves out the page itself (page) and the other files of a report (report.write).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.report.html.page import document
from roleagent_lite.report.write import Report, build, save_files
from roleagent_lite.store import Run


def save(path: Path, pieces: Iterable[str]) -> Path:
    """Write the pieces one by one. Raises RoleAgentError where the file cannot be written."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w", encoding="utf-8", errors="replace", newline="\n") as out:
            for piece in pieces:
                out.write(piece)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RoleAgentError(
            f"cannot write {path}: {error.strerror or error}; the run itself is safe"
        ) from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return path


def save_html(report: Report) -> Path:
    """report.html of a report that is built."""
    return save(report.run.dir / "report.html", document(report))


def write_html(run_dir: str | Path) -> Path:
    """Write report.html into `run_dir`: one file that opens without any network; its path.

    Works on unfinished runs (marked partial), evaluations and runs without an episode. Everything a run
    holds is taken for text. Raises ConfigError where there is no run, RoleAgentError where a table is damaged
    or the disk is full.
    """
    with Run.open(Path(run_dir)) as run:
        return save_html(build(run))


def write_all(run_dir: str | Path) -> Path:
    """report.md, report.json, plots and report.html, from one reading of the run; the path of report.md."""
    with Run.open(Path(run_dir)) as run:
        report = build(run)
        path = save_files(report)
        save_html(report)
        return path
