"""`env new`: what it writes works as it is, and its own test passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from roleagent_lite.envs.template import names, write
from roleagent_lite.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("cellar", ("cellar", "Cellar")),
        ("wine-cellar", ("wine_cellar", "WineCellar")),
        ("WineCellar", ("wine_cellar", "WineCellar")),
        ("a1", ("a1", "A1")),
    ],
)
def test_names(given: str, expected: tuple[str, str]) -> None:
    assert names(given) == expected


@pytest.mark.parametrize("given", ["", "1st", "a b", "class", "../x", "a.b", "ключ"])
def test_names_that_no_module_can_have(given: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a Python module"):
        names(given)


@pytest.mark.parametrize("given", ["json", "Random", "typing"])
def test_a_name_of_pythons_own_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="a module of Python's own"):
        names(given)


@pytest.mark.parametrize("given", ["search", "webshop", "gym", "mcp", "verifiers", "appworld"])
def test_a_name_that_is_read_as_a_world_of_ours_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=f"'{given}:...' is read as a world of this package"):
        names(given)


@pytest.mark.parametrize("given", ["numpy", "pytest", "roleagent-lite"])
def test_a_name_of_an_installed_module_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="the name of an installed module"):
        names(given)


def test_its_own_test_passes_and_the_checker_is_content(tmp_path: Path) -> None:
    env, test = write("wine-cellar", tmp_path)
    assert (env.name, test.name) == ("wine_cellar.py", "test_wine_cellar.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test.name]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout
    command = [sys.executable, "-m", "roleagent_lite.cli.main", "env", "check", "wine_cellar:WineCellar"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "no problems found" in ran.stdout
    assert "train=20" in ran.stdout


def test_nothing_is_written_over(tmp_path: Path) -> None:
    write("cellar", tmp_path)
    (tmp_path / "cellar.py").write_text("mine")
    (tmp_path / "test_cellar.py").unlink()
    with pytest.raises(ConfigError, match="is there already"):
        write("cellar", tmp_path)
    assert (tmp_path / "cellar.py").read_text() == "mine"
    assert not (tmp_path / "test_cellar.py").exists()
