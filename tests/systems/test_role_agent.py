"""role-agent: the starting prompt, a file's, a run's final one; predictions are asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from roleagent_lite.ask import make_prompt_set
from roleagent_lite.config import RunConfig
from roleagent_lite.errors import ConfigError
from roleagent_lite.store import Run
from roleagent_lite.systems import make_system
from roleagent_lite.systems.role_agent import final_prompt
from roleagent_lite.types import Request
from tests.systems import make


def lesson_reader(request: Request) -> str:
    """Goes right where the system text says so; foretells what a schema asks for."""
    actions = make.offered(request)
    right = "go right" in request.messages[0].content.lower()
    reply = {"thought": "t", "action": actions[-1 if right else 0]}
    if "predictions" in (request.schema or {})["properties"]:
        reply["predictions"] = ["A narrow room."]  # type: ignore[assignment]
    return json.dumps(reply)


def finished_run(folder: Path) -> str:
    """A run whose final prompt has learned to go right; its id."""
    best = make_prompt_set({"act.instructions": "Act.", "act.playbook": "- Go right."}, "seed", "evolved")
    with Run.create(folder, RunConfig()) as run:
        run.prompt_sets.put(best)
        run.record("final", "final", {"final": best.id})
    return best.id


async def solved(folder: Path, name: str) -> bool:
    async with make.setting(folder / "run", lesson_reader) as setting:
        system = make_system(name, setting)
        played = await system.solve(make.task("Maze"), round=0, rollout=0, temperature=0.0)
        assert played.steps[0].predictions == ("A narrow room.",)
        assert system.prompt_set.id in setting.run.prompt_sets
        return played.solved


async def test_a_runs_final_prompt_by_name_or_folder(tmp_path: Path) -> None:
    final = finished_run(tmp_path / "mine")
    assert not await solved(tmp_path / "a", "role-agent")
    assert await solved(tmp_path / "b", f"role-agent:{tmp_path / 'mine'}")
    async with make.setting(tmp_path / "run", lesson_reader) as setting:
        system = make_system("role-agent:mine", setting)  # looked for in Setting.runs
        assert system.prompt_set.parent == final and system.name == "role-agent:mine"
        assert system.prompt_set.texts["act.playbook"] == "- Go right."
        assert system.prompt_set.id != make_system("role-agent", setting).prompt_set.id


async def test_a_prompt_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("Act, and go right.\n", encoding="utf-8")
    assert await solved(tmp_path, f"role-agent:{file}")


async def test_predictions_are_on_even_where_the_setting_turns_them_off(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", lesson_reader, wia={"predict": "off"}) as setting:
        played = await make_system("role-agent", setting).solve(
            make.task("Maze"), round=0, rollout=0, temperature=0.0
        )
    assert all(step.predictions == ("A narrow room.",) for step in played.steps)


async def test_the_bound_counts_a_call_of_its_own_for_predictions(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", lesson_reader, wia={"predict": "separate"}) as setting:
        assert make_system("role-agent", setting).most_calls(make.task("Maze")) == 24
        capped = make_system("role-agent", replace(setting, budget=make.calls(5)))
        assert capped.most_calls(make.task("Maze")) == 5


async def test_what_names_no_prompt_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    async with make.setting(tmp_path / "runs" / "x", lesson_reader) as setting:
        with pytest.raises(ConfigError, match="neither a run nor a prompt file; did you mean 'mine'"):
            make_system("role-agent:mime", setting)
    with Run.create(tmp_path / "new", RunConfig()):
        pass
    with pytest.raises(ConfigError, match=r"no final prompt \(it is new\)"):
        final_prompt(tmp_path / "new")
