"""packaging: the wheel, in a new environment, holds every room and starts without heavy libraries."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import roleagent_lite
from roleagent_lite.content import ROOMS

ROOT = Path(__file__).resolve().parent.parent
HEAVY = (
    "dspy", "litellm", "openai", "anthropic", "lancedb", "pyarrow", "scipy", "statsmodels", "gepa", "aiohttp",
    "xllamacpp", "torch", "transformers", "peft", "unsloth", "tokenizers", "jinja2", "bashkit",
)  # fmt: skip


def run(*command: str, cwd: Path) -> str:
    found = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert found.returncode == 0, f"{command}\n{found.stdout}\n{found.stderr}"
    return found.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout with what is installed here."""
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT), cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel in it; its dependencies are those of the present one.

    A path line in a .pth file does not read the .pth files behind it, so the checkout stays out of sight.
    """
    home = tmp_path_factory.mktemp("home")
    run(sys.executable, "-m", "venv", "--without-pip", str(home / "venv"), cwd=home)
    own = home / "venv" / "bin" / "python"
    install = ("install", "--no-deps", "--no-index", "--no-compile", str(wheel))
    run(sys.executable, "-m", "pip", "--python", str(own), *install, cwd=home)
    purelib = Path(
        run(str(own), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    )
    (purelib / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return own


def say(python: Path, code: str) -> str:
    """What `code` prints in the new environment, far from the checkout."""
    return run(str(python), "-W", "error", "-c", code, cwd=python.parent)


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [n for n in packed.namelist() if n.endswith(".dist-info/METADATA")]
        about = Parser().parsestr(packed.read(name).decode("utf-8"))
    assert about["Name"] == "roleagent-lite"
    assert about["Version"] == roleagent_lite.__version__
    assert about["Requires-Python"] == ">=3.11"
    assert about["License-Expression"] == "Apache-2.0"
    core = [r for r in about.get_all("Requires-Dist", []) if "extra ==" not in r]
    assert not [r for r in core if r.startswith(("torch", "transformers", "unsloth", "peft"))]
    assert [r for r in core if r.startswith("gepa")] == ["gepa==0.1.4"]


def test_the_wheel_holds_code_and_content_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = [n for n in packed.namelist() if ".dist-info/" not in n]
    assert all(n.startswith("roleagent_lite/") for n in names)
    code = {n for n in names if n.endswith(".py")}
    assert code == {str(p.relative_to(ROOT)) for p in (ROOT / "roleagent_lite").rglob("*.py")}
    assert not [n for n in code if "_content" in n]


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_opens_in_the_new_environment(python: Path, room: str) -> None:
    code = (
        "import json, hashlib; from roleagent_lite.content import room\n"
        f"here = room({room!r})\n"
        "files = {str(p.relative_to(here)): hashlib.sha256(p.read_bytes()).hexdigest()"
        " for p in here.rglob('*') if p.is_file()}\n"
        "print(json.dumps([str(here), files]))"
    )
    here, files = json.loads(say(python, code))
    assert Path(here).is_relative_to(python.parent.parent)
    tracked = run("git", "ls-files", room, cwd=ROOT).split() if (ROOT / ".git").exists() else []
    assert {str(Path(name).relative_to(room)) for name in tracked} <= set(files)
    beside = json.loads(run(sys.executable, "-c", code, cwd=ROOT))[1]
    assert files == beside


def test_shipped_task_sets_load_in_the_new_environment(python: Path) -> None:
    names = sorted(p.stem for p in (ROOT / "tasks").glob("*.jsonl"))
    code = f"from roleagent_lite.tasksets import load_tasks\nfor n in {names!r}: print(len(load_tasks(n)))"
    assert len(say(python, code).split()) == len(names) > 0


def test_shipped_suites_fit_their_task_sets_in_the_new_environment(python: Path) -> None:
    names = sorted(p.stem for p in (ROOT / "evals").glob("*.toml"))
    code = (
        "from roleagent_lite.evals.suite import load_suite, tasks_of\n"
        f"for n in {names!r}: print(len(tasks_of(load_suite(n))[1]))\n"
        "from roleagent_lite.report.reference import known, references; references(known())"
    )
    assert len(say(python, code).split()) == len(names) > 2


def test_the_report_page_finds_its_script_and_style(python: Path) -> None:
    code = "from roleagent_lite.report.html.page import head, end; print(len(head('t')), len(end()))"
    style, script = map(int, say(python, code).split())
    assert style > 5_000 and script > 10_000


def test_importing_the_package_leaves_heavy_libraries_alone(python: Path) -> None:
    code = f"import sys, roleagent_lite; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert say(python, code).strip() == "[]"


def test_importing_every_module_leaves_heavy_libraries_alone(python: Path) -> None:
    code = (
        "import importlib, pkgutil, sys, roleagent_lite\n"
        "for m in pkgutil.walk_packages(roleagent_lite.__path__, 'roleagent_lite.'):\n"
        "    importlib.import_module(m.name)\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert say(python, code).strip() == "[]"


def test_help_leaves_heavy_libraries_alone(python: Path) -> None:
    code = (
        "import runpy, sys\n"
        "sys.argv = ['roleagent-lite', '--help']\n"
        "try: runpy.run_module('roleagent_lite.cli.main', run_name='__main__')\n"
        "except SystemExit as end: print('code', end.code)\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    said = say(python, code).splitlines()
    assert said[-2:] == ["code 0", "[]"]
    assert "evolve" in "".join(said)


def test_the_command_is_installed(python: Path) -> None:
    said = run(str(python.parent / "roleagent-lite"), "--version", cwd=python.parent)
    assert said.strip() == f"roleagent-lite {roleagent_lite.__version__}"


def test_the_package_offers_its_names_lazily(python: Path) -> None:
    code = "import roleagent_lite as r; print(r.load_tasks.__module__, r.RunConfig().seed, sorted(r.__all__))"
    assert say(python, code).split(maxsplit=2)[:2] == ["roleagent_lite.tasksets", "0"]
    with pytest.raises(AttributeError, match="has no attribute 'evolv'"):
        roleagent_lite.evolv  # noqa: B018
