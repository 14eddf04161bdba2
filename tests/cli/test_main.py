"""The entry point: quick, light, and clear about a wrong word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from roleagent_lite import __version__
from tests.cli.make import cli, environment

HEAVY = ("dspy", "litellm", "openai", "anthropic", "lancedb", "pyarrow", "torch", "gepa", "scipy", "numpy",
         "statsmodels", "aiohttp", "xllamacpp", "pydantic", "rich", "asyncio")  # fmt: skip
PROBE = "import sys\n{act}\nprint('LEFT', *(m for m in sys.argv[1].split(',') if m in sys.modules))\n"


def left_in_memory(act: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(act=act), ",".join(HEAVY)],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split("LEFT")[-1].split()


HELP = "from roleagent_lite.cli.main import main\ntry:\n    main({words})\nexcept SystemExit:\n    pass"


@pytest.mark.parametrize(
    ("act", "allowed"),
    [
        ("import roleagent_lite", []),
        (HELP.format(words=["--help"]), []),
        (HELP.format(words=["evolve", "--help"]), ["pydantic"]),  # typer reads a command's types with it
    ],
    ids=["import", "help", "evolve help"],
)
def test_nothing_heavy_is_imported(act: str, allowed: list[str]) -> None:
    assert left_in_memory(act) == allowed


def test_help_lists_every_command(tmp_path: Path) -> None:
    done = cli("--help", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    for name in ("evolve", "eval", "show", "runs", "tasks", "models", "export", "doctor"):
        assert f"\n  {name} " in done.stdout


def test_cfg_06_strange_proxies_do_not_stop_help(tmp_path: Path) -> None:
    for value in ("socks://127.0.0.1:9", "socks5h://127.0.0.1:9", "127.0.0.1:9"):
        done = cli("--help", cwd=tmp_path, env={"ALL_PROXY": value, "http_proxy": value})
        assert done.returncode == 0 and done.stderr == ""


def test_version(tmp_path: Path) -> None:
    assert cli("--version", cwd=tmp_path).stdout == f"roleagent-lite {__version__}\n"


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["evlove"], "evolve"), (["runs", "--jsn"], "--json"), (["evolve", "--max-usd", "lots"], "--max-usd")],
)
def test_a_wrong_word_is_named_with_the_nearest(words: list[str], hint: str, tmp_path: Path) -> None:
    done = cli(*words, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert hint in done.stderr and "Traceback" not in done.stderr


def test_rep_10_prints_under_a_plain_locale(tmp_path: Path) -> None:
    for env in ({"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}):
        done = cli("show", "läuft–🔑", cwd=tmp_path, env=env)
        assert done.returncode == 2
        assert "no run" in done.stderr and "Traceback" not in done.stderr


def test_debug_shows_the_traceback_wherever_it_stands(tmp_path: Path) -> None:
    for words in (["--debug", "show", "x"], ["show", "x", "--debug"]):
        done = cli(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert "Traceback" in done.stderr and "roleagent-lite: no run 'x'" in done.stderr


def test_no_command_shows_help(tmp_path: Path) -> None:
    done = cli(cwd=tmp_path)
    assert "Usage:" in done.stdout + done.stderr
