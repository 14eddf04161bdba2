"""README tells the truth: its code runs, its commands and flags exist, its two command lines are CI's."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from roleagent_lite.cli.main import app
from roleagent_lite.cli.settings import parse_sets, resolve
from roleagent_lite.envs import registry
from roleagent_lite.envs.checker import check
from roleagent_lite.types import Observation, PromptSet, Task, View

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^ {4}(?:.*/)?roleagent-lite (.+?)(?: +#.*)?$", README, re.MULTILINE)


def block(word: str) -> str:
    (found,) = [b for b in BLOCKS if word in b]
    return str(found)


def test_the_environment_is_short_and_the_checker_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = block("class Cellar")
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    (tmp_path / "cellar.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    task = Task("t", "cellar:Cellar", "Get out of the cellar.")
    try:
        spec = registry.spec("cellar:Cellar")
        assert spec.max_steps(task) == 6
        assert check(spec.make, task) == []
        env = spec.make(task)
        env.step("light lamp")
        assert env.step("open door").done and env.score() == 1.0
    finally:
        sys.modules.pop("cellar", None)


def test_the_agent_asks_and_gives_the_action() -> None:
    space: dict[str, Any] = {}
    exec(block("async def act"), space)
    asked: list[tuple[str, dict[str, str]]] = []

    class Answer:
        values = {"action": "open door"}  # noqa: RUF012

    async def ask(module: str, inputs: dict[str, str]) -> Answer:
        asked.append((module, inputs))
        return Answer()

    view = View(Task("t", "e", "g"), Observation("dark", ("open door",)), (), 1, 6, 1, 0.0, "s")
    assert asyncio.run(space["act"](view, PromptSet("p", {}), ask)) == "open door"
    from roleagent_lite.ask import load_prompts

    (module, inputs) = asked[0]
    assert set(inputs) == set(load_prompts("v1").module(module).inputs)


def test_the_python_call_names_real_things() -> None:
    code = block("from roleagent_lite import RunConfig")
    compile(code, "README", "exec")
    from roleagent_lite import RunConfig, evolve

    assert callable(evolve) and RunConfig(model="openai/MODEL", tasks="tasks.jsonl").model == "openai/MODEL"


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_shown_is_understood(line: str) -> None:
    name, *words = line.split()
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    known = {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)}
    assert {w for w in words if w.startswith("--")} <= known, line


def test_every_setting_shown_exists() -> None:
    shown = re.findall(r"--set ([a-z_.]+=[a-z_]+)", README)
    assert len(shown) >= 4
    for pair in shown:
        resolve(None, [pair], {})
        assert parse_sets([pair])


def test_ci_runs_readmes_second_line_and_the_first_is_there() -> None:
    lines = [line.strip() for line in README.splitlines()]
    second = (
        "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/python tests/check.py"
    )
    first = "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/roleagent-lite evolve"
    assert first in lines and second in lines
    assert second in (ROOT / ".ci" / "run").read_text().splitlines()
