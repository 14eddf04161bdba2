"""Packages that are there and cannot be imported: they raise, end the process, hang; nothing is loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from roleagent_lite.doctor.imports import imports, module, tried
from roleagent_lite.doctor.packages import read
from tests.cli.make import ROOT, cli


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of modules that fail in each way, between two that do not."""
    for name, code in {
        "sound_one": "print('noise on standard output')",
        "raises_two": "import os\nos.write(1, b'noise')\nraise ImportError('libfoo.so: not found\\nmore')",
        "wordless": "raise ValueError",
        "leaves": "raise SystemExit(3)",
        "crashes": "import os\nos.abort()",
        "sound_two": "",
    }.items():
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return ["sound_one", "raises_two", "wordless", "leaves", "crashes", "sound_two"]


def test_each_way_to_fail_is_told_and_hides_no_other(modules: list[str]) -> None:
    found = tried(modules)
    assert found == {
        "sound_one": "",
        "raises_two": "cannot be imported: ImportError: libfoo.so: not found",
        "wordless": "cannot be imported: ValueError",
        "leaves": "cannot be imported: SystemExit: 3",
        "crashes": "ends the process that imports it (signal 6)",
        "sound_two": "",
    }
    assert not set(modules) & set(sys.modules)


def test_one_that_hangs_is_told_and_what_follows_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hangs.py").write_text("import time\ntime.sleep(600)", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    found = tried(["json", "hangs", "csv"], seconds=6.0)
    assert found["json"] == "" and found["hangs"] == "was not imported within 6 s"
    assert "not tried" in found["csv"]


def test_lines_say_what_to_do_and_what_is_not_installed_is_not_ours_to_tell() -> None:
    (line,) = imports(["typer>=0.29", "no-such-package>=1", "torch>=2; extra == 'embed'"])
    assert (line.state, line.found) == ("ok", "1 of 1 needed packages can be imported")
    one = read("a-b>=1")
    assert one is not None and module(one) == "a_b"


def test_the_needed_packages_of_this_environment_can_be_imported() -> None:
    (line,) = imports()
    assert line.state == "ok" and line.found.split()[0] == line.found.split()[2], line


def test_doctor_names_a_package_whose_import_raises(tmp_path: Path) -> None:
    (tmp_path / "lancedb.py").write_text("raise ImportError('GLIBC_2.99 not found')", encoding="utf-8")
    env = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = cli("doctor", "--imports", cwd=tmp_path, env=env)
    assert done.returncode == 1 and done.stderr == ""
    assert "lancedb cannot be imported: ImportError: GLIBC_2.99 not found" in done.stdout
    assert "pip install --force-reinstall 'lancedb" in done.stdout
    quick = cli("doctor", cwd=tmp_path, env=env)
    assert quick.returncode == 0 and "--imports imports each needed package" in quick.stdout
