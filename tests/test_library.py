"""`from roleagent_lite import evolve` is the job, whatever was imported before it."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


def test_other_names_are_refused() -> None:
    import roleagent_lite

    assert roleagent_lite.RunConfig().model == "embedded"
    with pytest.raises(AttributeError, match="no attribute 'evlove'"):
        _ = roleagent_lite.evlove
