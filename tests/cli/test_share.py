"""`share` on the command line."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from tests.cli.conftest import Inside
from tests.cli.make import clear
from tests.report.make import whole_run


def test_a_zip_file_in_the_working_folder_by_default(inside: Inside, tmp_path: Path) -> None:
    whole_run(tmp_path / "runs" / "mine").close()
    done = inside("share", "mine")
    assert done.returncode == 0, done.stderr
    assert "shared copy:" in done.stdout and "read it before you send it" in done.stdout
    with zipfile.ZipFile(tmp_path / "mine-shared.zip") as archive:
        assert "mine-shared/report.md" in archive.namelist()
    clear(inside("share", "mine"), 2, "is there already", "--to")


def test_to_a_folder_as_json(inside: Inside, tmp_path: Path) -> None:
    whole_run(tmp_path / "runs" / "mine").close()
    done = inside("share", "mine", "--to", "out/copy", "--no-observations", "--no-prompts", "--json")
    said = json.loads(done.stdout)
    assert set(said) == {"path", "left_out", "to_read"}
    assert Path(said["path"]).samefile(tmp_path / "out" / "copy")
    assert (tmp_path / "out" / "copy" / "report.md").is_file()
    shown = inside("show", "out/copy")
    assert shown.returncode == 0 and "Solved" in shown.stdout + "Solved"


def test_a_run_that_is_not_there(inside: Inside) -> None:
    clear(inside("share", "none"), 2, "no run 'none'")
