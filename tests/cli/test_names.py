"""Names of runs: what `--run` takes, and how names that others gave are shown."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from roleagent_lite.cli.output import resuming
from roleagent_lite.store import find_run
from tests.cli.conftest import Inside
from tests.cli.make import clear, toy_tasks
from tests.report import make

ODD = "a\nroleagent-lite: all is \x1b[31mwell"


@pytest.mark.parametrize(
    "name", ["../../etc/x", "a/b", "/abs/x", "..", ".", "", "a\nb", "a\x1b[31mb", "a\tb"]
)
@pytest.mark.parametrize("job", ["evolve", "eval"])
def test_a_runs_name_is_one_folder_name(job: str, name: str, inside: Inside, tmp_path: Path) -> None:
    toy_tasks(tmp_path / "t.jsonl", 1)
    done = inside(job, "--tasks", "t.jsonl", "--model", "m@http://127.0.0.1:9", "--run", name)
    clear(done, 2, "the name of one folder", "--runs FOLDER")
    assert "\x1b" not in done.stderr and len(done.stderr.splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["t.jsonl"], "nothing was made"


def test_names_with_dots_blanks_and_letters_of_any_kind_stay(inside: Inside, tmp_path: Path) -> None:
    for name in ("gpt-4o.v1", "zwei Wörter", "..x", "試"):
        done = inside("eval", "--resume", "--run", name)
        clear(done, 2, f"no run '{name}'")


def test_a_run_may_be_read_by_its_path(tmp_path: Path) -> None:
    make.whole_run(tmp_path / "elsewhere" / "r").close()
    assert find_run(str(tmp_path / "elsewhere" / "r"), tmp_path) == tmp_path / "elsewhere" / "r"


def test_names_that_others_gave_are_shown_on_one_line(inside: Inside, tmp_path: Path) -> None:
    make.whole_run(tmp_path / "runs" / ODD).close()
    done = inside("show", "xyz")
    clear(done, 2, r"known: a\nroleagent-lite: all is \x1b[31mwell")
    again = resuming("evolve", Path("runs") / ODD)
    assert "\n" not in again and "\x1b" not in again
    said = subprocess.run(["bash", "-c", f"printf %s {again.rpartition('--run ')[2]}"], capture_output=True)
    assert said.stdout.decode() == ODD, "the shell reads it back"
