"""Sides: what RUN and RUN:SYSTEM mean, and a wrong name with its nearest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.config import from_mapping
from roleagent_lite.errors import ConfigError
from roleagent_lite.evals.sides import sides_of
from roleagent_lite.store import Run
from roleagent_lite.types import Result, Usage
from tests.evals.make import LOST, SOLVED, Told, told
from tests.report import make


def two(folder: Path, name: str = "two") -> Path:
    told(folder, name, Told("good", lambda task, rollout: SOLVED), Told("my:bad", lambda task, rollout: LOST))
    return folder / name


def test_a_system_of_a_run_with_its_tasks_limits_and_models(tmp_path: Path) -> None:
    path = two(tmp_path)
    (side,) = sides_of("two:good", tmp_path)
    assert side.name == "two:good" and side.run_dir == path and side.result.mean == 1.0
    assert side.tasks["t1"].goal == "Get out, 1." and side.limits["t1"] == 9 and side.models == ("told",)
    assert side.prompt_set.startswith("good") and side.tasks_hash
    assert sides_of(f"{path}:good", Path("elsewhere"))[0].name == "two:good"


@pytest.mark.parametrize(
    ("settings", "server"),
    [
        ({"model": "m@http://u:secret@127.0.0.1:8000/v1"}, "http://127.0.0.1:8000/v1"),
        ({"model": "https://host/v1?key=x"}, "https://host/v1"),
        ({"model": "m", "limits": {"base_url": "http://127.0.0.1:9/v1"}}, "http://127.0.0.1:9/v1"),
        ({"model": "openai/gpt-5-mini"}, ""),
    ],
)
def test_the_server_is_told_without_what_is_secret(
    settings: dict[str, Any], server: str, tmp_path: Path
) -> None:
    with make.new_run(tmp_path / "r", from_mapping({"tasks": "t", **settings})) as run:
        make.play(run, make.episode(make.task(1), make.SEED))
        run.results.put(Result("s", "a", {"test1": (1.0,)}, 1.0, 0.2, 1.0, 1, Usage(0, 0, 0, 0, 0.0)))
    (side,) = sides_of(tmp_path / "r")
    assert side.server == server


def test_a_systems_name_may_hold_a_colon(tmp_path: Path) -> None:
    two(tmp_path)
    assert sides_of("two:my:bad", tmp_path)[0].result.system == "my:bad"


def test_a_run_alone_is_all_of_its_systems_beside_another_it_must_say_which(tmp_path: Path) -> None:
    two(tmp_path)
    assert [s.result.system for s in sides_of("two", tmp_path, alone=True)] == ["good", "my:bad"]
    with pytest.raises(ConfigError, match="say which \\(two:good, two:my:bad\\)"):
        sides_of("two", tmp_path)


def test_a_wrong_name_gets_the_nearest(tmp_path: Path) -> None:
    two(tmp_path)
    with pytest.raises(ConfigError, match="has no system 'god'; did you mean 'good'"):
        sides_of("two:god", tmp_path)
    with pytest.raises(ConfigError, match=r"no run 'tow'.*did you mean 'two'"):
        sides_of("tow:good", tmp_path)


@pytest.mark.parametrize(("accepted", "meant"), [(True, "best"), (False, "seed")])
def test_an_evolution_stands_for_its_final_prompt(accepted: bool, meant: str, tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        for name in ("seed", "best"):
            run.results.put(Result("test", name, {"a": (1.0,)}, 1.0, 0.2, 1.0, 1))
        run.record("final", "final", {"accepted": accepted})
    assert sides_of("r", tmp_path)[0].result.system == meant


def test_a_run_without_a_result_says_so(tmp_path: Path) -> None:
    make.new_run(tmp_path / "r").close()
    with pytest.raises(ConfigError, match="has no scored system yet"):
        sides_of("r", tmp_path)


def test_a_row_of_an_older_version_still_compares(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        run.results.put(Result("test", "seed", {"a": (1.0,)}, 1.0, 0.2, 1.0, 1))
    (side,) = sides_of("r", tmp_path)
    assert (side.limits, side.models, side.prompt_set) == ({}, (), "")
    with Run.open(tmp_path / "r") as run:
        assert run.results.get("test/seed") == side.result
