"""`from roleagent_lite import evolve` is the job, whatever was imported before it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys

import pytest

from roleagent_lite.errors import ConfigError
from tests.cli.make import environment

CALL = (
    "try:\n    evolve({'no': 'config'})\nexcept Exception as error:\n    print(type(error).__name__, error)\n"
)


@pytest.mark.parametrize(
    "first",
    [
        "from roleagent_lite import evolve",
        "import roleagent_lite.evolve.select\nfrom roleagent_lite import evolve",
        "from roleagent_lite import evolve\nfrom roleagent_lite import evolve",
        "import roleagent_lite\nroleagent_lite.evolve\nevolve = roleagent_lite.evolve",
    ],
)
def test_evolve_can_be_called_in_any_order(first: str) -> None:
    code = first + "\n" + CALL + "import roleagent_lite.evolve.select as room\nprint(room.NOISE)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    said = done.stdout.splitlines()
    assert "Error" in said[0] and "not callable" not in said[0], said
    assert said[1] == "0.1"


def test_where_a_loop_runs_the_way_that_is_named_can_be_imported() -> None:
    """As in a notebook: `evolve` says what to await, and the package has it."""
    import roleagent_lite

    async def cell() -> str:
        with pytest.raises(ConfigError, match="an event loop is running") as caught:
            roleagent_lite.evaluate({"model": "openai/x"})
        named = re.findall(r"await (\w+)\(", str(caught.value))
        with pytest.raises(ConfigError, match="unknown setting 'modle'; did you mean 'model'"):
            await getattr(roleagent_lite, named[0])({"modle": "openai/x"})
        return str(named[0])

    assert asyncio.run(cell()) == "evaluate_async"
    assert set(roleagent_lite.__all__) <= {*dir(roleagent_lite), *roleagent_lite._WHERE}
    assert roleagent_lite.evolve_async is not None


def test_other_names_are_refused() -> None:
    import roleagent_lite

    assert roleagent_lite.RunConfig().model == "embedded"
    with pytest.raises(AttributeError, match="no attribute 'evlove'"):
        _ = roleagent_lite.evlove
