"""Export: the three forms, each read by the program it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite.ask import load_prompts, make_prompt_set
from roleagent_lite.config import RunConfig
from roleagent_lite.errors import ConfigError
from roleagent_lite.evolve.export import export
from roleagent_lite.store import Run

TEXTS = {
    "act.instructions": 'Act {"a": 1} well.\nLook first.',
    "act.playbook": "- heat the mug",
    "act.demonstrations": "",
}


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    best = make_prompt_set(TEXTS, "seed", "rewritten")
    with Run.create(tmp_path / "run", RunConfig()) as run:
        run.prompt_sets.put(best)
        run.record("final", "final", {"seed": "seed", "best": best.id, "final": best.id})
    return tmp_path / "run"


def test_text_is_for_reading_and_leaves_out_what_is_empty(finished: Path) -> None:
    text = export(finished)
    assert "# act.instructions\n\nAct" in text and "- heat the mug" in text
    assert "demonstrations" not in text


def test_json_starts_another_run(finished: Path, tmp_path: Path) -> None:
    file = tmp_path / "best.json"
    file.write_text(export(finished, "json"), encoding="utf-8")
    assert load_prompts().override(file).seed_set().texts["act.instructions"] == TEXTS["act.instructions"]
    again = make_prompt_set({**load_prompts().seed_set().texts, **TEXTS})
    assert load_prompts().override(file).seed_set().id == again.id


def test_dspy_loads_the_state(finished: Path, tmp_path: Path) -> None:
    import dspy

    file = tmp_path / "best.json"
    file.write_text(export(finished, "dspy"), encoding="utf-8")
    act = load_prompts().module("act")
    fields = f"{', '.join(act.inputs)} -> {', '.join(o.name for o in act.outputs)}"
    predict = dspy.Predict(fields)
    predict.load(str(file))
    instructions = predict.signature.instructions
    assert instructions.startswith('Act {"a": 1} well.') and "- heat the mug" in instructions
    assert "JSON" not in instructions and "Examples" not in instructions
    found = {n: f.json_schema_extra["desc"] for n, f in predict.signature.fields.items()}
    assert found["task"] == act.inputs["task"] and found["action"] == act.outputs[1].description


def test_wrong_format_and_unfinished_run_are_clear_errors(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'dspy'"):
        export(finished, "dspi")
    with Run.create(tmp_path / "new", RunConfig()):
        pass
    with pytest.raises(ConfigError, match="no final prompt yet"):
        export(tmp_path / "new")
