"""The best prompt of a run in forms that other programs read: text, JSON, DSPy state.

Owns the three forms. Reads the run directory alone. Leaves out how a prompt is rendered (ask).
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from roleagent_lite.ask import Prompts, load_prompts
from roleagent_lite.ask.prompts import fill
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.store import Run
from roleagent_lite.types import PromptSet

MODULE = "act"


def final_set(run: Run) -> PromptSet:
    """The prompt set a run ended with. Raises ConfigError where it has not got that far."""
    final = run.events.get("final")
    found = run.prompt_sets.get(str(final.data["final"])) if final is not None else None
    if found is None:
        raise ConfigError(
            f"run {run.dir} has no final prompt yet (it is {run.status}); resume it with the same command"
        )
    return found


def as_text(prompt_set: PromptSet, prompts: Prompts) -> str:
    """The texts under their names; for reading. Empty texts are left out."""
    parts = [f"# {name}\n\n{text.strip()}" for name, text in prompt_set.texts.items() if text.strip()]
    return "\n\n".join(parts) + "\n"


def as_json(prompt_set: PromptSet, prompts: Prompts) -> str:
    """The texts by name: what `--prompt FILE` starts from."""
    return json.dumps(dict(prompt_set.texts), ensure_ascii=False, indent=1) + "\n"


def as_dspy(prompt_set: PromptSet, prompts: Prompts) -> str:
    """State of a `dspy.Predict` over the fields of the module `act`, in the order of its prompt file.

    `predict = dspy.Predict("task, progress, ... -> thought, action, predictions"); predict.load("x.json")`
    then asks with our instructions, playbook and demonstrations as its instructions. Our own reply form is
    left out: DSPy's adapters say their own.
    """
    file = prompts.module(MODULE)
    texts = {**prompts.texts(MODULE, prompt_set), **dict.fromkeys(file.inputs, "")}
    kept = [p for p in file.system.split("\n\n") if "{reply_form}" not in p]
    fields = [(name, what) for name, what in file.inputs.items()]
    fields += [(output.name, output.description) for output in file.outputs]
    state: dict[str, Any] = {
        "traces": [],
        "train": [],
        "demos": [],
        "signature": {
            "instructions": fill("\n\n".join(kept), {**texts, "reply_form": ""}),
            "fields": [
                {"prefix": f"{name.replace('_', ' ').capitalize()}:", "description": what}
                for name, what in fields
            ],
        },
        "lm": None,
        "metadata": {
            "dependency_versions": {
                "python": ".".join(platform.python_version_tuple()[:2]),
                "dspy": version("dspy"),
            }
        },
    }
    return json.dumps(state, ensure_ascii=False, indent=1) + "\n"


FORMATS: dict[str, Callable[[PromptSet, Prompts], str]] = {"text": as_text, "json": as_json, "dspy": as_dspy}


def export(run_dir: str | Path, format: str = "text") -> str:
    """The final prompt of a finished run in one of FORMATS. Raises ConfigError for a wrong name or run."""
    if format not in FORMATS:
        raise ConfigError(f"no export format '{format}'{nearest(format, FORMATS)}")
    with Run.open(Path(run_dir)) as run:
        return FORMATS[format](final_set(run), load_prompts(run.config.prompts))
