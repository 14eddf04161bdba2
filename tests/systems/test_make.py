"""Systems by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite.errors import ConfigError
from roleagent_lite.systems import SYSTEMS, make_system
from roleagent_lite.types import System
from tests.systems import make


async def test_every_name_makes_a_system_that_says_what_it_is(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", lambda _: "") as setting:
        made: list[System] = [make_system(name, setting) for name in SYSTEMS]
        for name, system in zip(SYSTEMS, made, strict=True):
            base = make_system(name, setting)
            assert system.name == name and base.keeps
            assert (base.paper == "") == (name in ("random", "prompt", "oracle"))
            assert system.model == ("" if name in ("random", "oracle") else "scripted")
            bound = system.most_calls(make.task("Maze"))
            assert bound is not None and (bound > 0) == bool(system.model)
        assert len({system.prompt_set.id for system in made}) == len(SYSTEMS)
        assert all(system.prompt_set.id in setting.run.prompt_sets for system in made)


@pytest.mark.parametrize("name", ["reakt", "react:runs/x", "oracle:"])
async def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path, name: str) -> None:
    async with make.setting(tmp_path / "run", lambda _: "") as setting:
        with pytest.raises(ConfigError, match=r"did you mean '(react|oracle)'"):
            make_system(name, setting)


async def test_a_users_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", lambda _: "") as setting:
        with pytest.raises(ConfigError, match="cannot import module 'no_such_module'"):
            make_system("no_such_module:play", setting)
