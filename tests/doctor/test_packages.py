"""Ranges, versions and extras; what is missing or untested is named with the command that mends it."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from roleagent_lite.doctor import packages as room
from roleagent_lite.doctor.packages import Requirement, fits, packages, read, release

ROOT = Path(__file__).resolve().parent.parent.parent
LINES = [
    "alpha<3,>=2.1",
    "beta==0.1.4",
    'gamma>=1; platform_python_implementation == "CPython"',
    "torch>=2.6; extra == 'embed'",
    "transformers<5.18,>=5.2; extra == 'embed'",
    "roleagent-lite[embed]; extra == 'embed'",
]
GOOD = {"alpha": "2.5.1", "beta": "0.1.4", "gamma": "1.0rc1"}


def version(have: dict[str, str]) -> room.Version:
    def of(name: str) -> str:
        if name not in have:
            raise metadata.PackageNotFoundError(name)
        return have[name]

    return of


def test_requirements_are_read() -> None:
    assert read(LINES[0]) == Requirement("alpha", (("<", "3"), (">=", "2.1")))
    assert read(LINES[3]) == Requirement("torch", ((">=", "2.6"),), "embed")
    assert read("pyyaml; extra == 'alfworld'") == Requirement("pyyaml", (), "alfworld")
    assert read("uvicorn[standard] (>=0.3)") == Requirement("uvicorn", ((">=", "0.3"),))
    assert read("x; platform_python_implementation != 'CPython'") is None
    assert read("@@@") is None


def test_every_range_of_the_project_is_read() -> None:
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*about["dependencies"], *(x for e in about["optional-dependencies"].values() for x in e)]
    for line in lines:
        found = read(line)
        assert (
            found is not None
            and found.name
            == line.partition(";")[0].strip().split("=")[0].split(">")[0].split("<")[0].split("[")[0].strip()
        ), line
        assert fits("0", found.specs) is (not found.specs), line


@pytest.mark.parametrize(
    ("found", "spec", "holds"),
    [
        ("3.4.1", ">=3.4.1", True), ("3.4", ">=3.4.0", True), ("3.4.0.1", ">=3.4", True),
        ("3.3.9", ">=3.4", False), ("3.5.0", "<3.5", False), ("3.4.99", "<3.5", True),
        ("10.0", ">=9", True), ("0.1.4", "==0.1.4", True), ("0.1.40", "==0.1.4", False),
        ("2.6.0+cpu", ">=2.6", True), ("2026.10", ">=2026.9", True), ("3.0rc1", "<3", False),
        ("1.4.5", "~=1.4.2", True), ("1.5", "~=1.4.2", False), ("2", "!=2", False), ("2", ">2", False),
        ("2", "<=2", True), ("odd", ">=1", False),
    ],
)  # fmt: skip
def test_versions_are_compared_as_numbers(found: str, spec: str, holds: bool) -> None:
    requirement = read("x" + spec)
    assert requirement is not None and fits(found, requirement.specs) is holds


def test_release_forgets_zeros_at_the_end() -> None:
    assert release("2.0.0") == (2,) == release("v2")
    assert release("0") == (0,) == release("")


def test_all_is_well_and_extras_are_told() -> None:
    core, embed = packages(LINES, version(GOOD))
    assert core.state == "ok" and core.found.startswith("3 of 3")
    assert embed.name == "extra embed" and embed.state == "ok" and "hf:NAME" in embed.found
    assert embed.advice == "pip install 'roleagent-lite[embed]'"
    done = packages(LINES, version({**GOOD, "torch": "2.7", "transformers": "5.3"}))[1]
    assert done.state == "ok" and "torch 2.7" in done.found and not done.advice


def test_what_is_missing_is_a_problem_and_what_is_untested_a_warning() -> None:
    found = packages(LINES, version({"alpha": "3.1", "gamma": "1", "torch": "2.7"}))
    head, untested, missing, embed = found
    assert head.found.startswith("1 of 3")
    assert untested.state == "warning" and "alpha 3.1" in untested.found
    assert untested.advice == "pip install 'alpha<3,>=2.1'"
    assert missing.state == "problem" and missing.found == "beta is not installed"
    assert embed.state == "ok" and "transformers not installed" in embed.found and embed.advice
    odd = packages(LINES, version({**GOOD, "torch": "2.7", "transformers": "4.0"}))[1]
    assert odd.state == "warning" and "transformers 4.0" in odd.found


def test_where_the_project_itself_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", none)
    (line,) = packages()
    assert line.state == "warning" and "pip install -e ." in line.advice


def test_the_environment_of_the_tests_is_in_order() -> None:
    assert [line for line in packages() if line.state == "problem"] == []
