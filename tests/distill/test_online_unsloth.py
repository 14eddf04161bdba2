"""Online GRPO with Unsloth's stand-in (stand_in_unsloth.py): the same loop, another back end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill.online import train_online
from tests.distill import online_world, stand_in_unsloth


def played(folder: Path, backend: str) -> dict[str, Any]:
    folder.mkdir()
    tasks = online_world.write_tasks(folder / "tasks.jsonl", train=2, dev=1)
    recipe = online_world.recipe(folder, online={"updates": 2}).model_copy(update={"backend": backend})
    return train_online(recipe, str(tasks), folder / "run")


def test_it_plays_and_learns_what_the_plain_back_end_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = stand_in_unsloth.put_in(monkeypatch)
    monkeypatch.setattr("roleagent_lite.distill.online.device_for", lambda recipe: "cpu")
    fast, plain = (played(tmp_path / backend, backend) for backend in ("unsloth", "plain"))
    assert fast["backend"].startswith("Unsloth") and plain["backend"] == "transformers and peft"
    assert fast["updates"] == plain["updates"] == 2 and not fast["stopped"]
    assert {"for_training", "for_inference"} <= set(stand_in.names())
    curves = [
        [json.loads(line) for line in (tmp_path / of / "run/curve.jsonl").read_text("utf-8").splitlines()]
        for of in ("unsloth", "plain")
    ]
    for one, other in zip(*curves, strict=True):
        assert one.get("solved") == other.get("solved") and one.get("drift", 0.0) < 1e-3
