"""`export`: the final prompt in three forms, to the screen or a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roleagent_lite.cli import export_
from roleagent_lite.config import from_mapping
from roleagent_lite.errors import ConfigError, RoleAgentError
from tests.report import make


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make.whole_run(tmp_path / "r", config=from_mapping({"tasks": "t"})).close()
    return tmp_path


def test_text_json_and_dspy(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export_.command("r", runs=root)
    assert "- Open it first." in capsys.readouterr().out
    export_.command("r", runs=root, json=True)
    assert json.loads(capsys.readouterr().out)["act.playbook"] == "- Open it first."
    export_.command("r", format="dspy", runs=root)
    assert "signature" in json.loads(capsys.readouterr().out)


def test_to_a_file_that_prompt_reads_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from roleagent_lite.ask import load_prompts

    export_.command("r", format="json", out=root / "p.json", runs=root)
    assert capsys.readouterr().out == ""
    assert load_prompts(root / "p.json").seed_set().texts["act.playbook"] == "- Open it first."


def test_what_cannot_be_is_said(root: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'text'"):
        export_.command("r", format="txt", runs=root)
    with pytest.raises(ConfigError, match="no run 'q'"):
        export_.command("q", runs=root)
    with pytest.raises(RoleAgentError, match="cannot write"):
        export_.command("r", out=root / "no" / "p.txt", runs=root)
    make.new_run(root / "new").close()
    with pytest.raises(ConfigError, match="no final prompt yet"):
        export_.command("new", runs=root)
