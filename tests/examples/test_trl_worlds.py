"""examples/trl_worlds.py in TRL 1.14 itself: TINY plays whole episodes through TRL's tool loop and learns."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from examples import trl_worlds
from roleagent_lite.config import Wia
from roleagent_lite.distill.worlds import OVER, task_rows, worlds
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Task
from roleagent_lite.wia import credit_group
from tests.examples import hall
from tests.toy import ACTIONS

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("ignore")]
LEARN: dict[str, Any] = {
    **hall.QUIET,
    "learning_rate": 1e-3,
    "max_completion_length": 300,
    "per_device_train_batch_size": 8,
}
TEXTS = {"act.instructions": "Act"}


def tasks(path: Path) -> Path:
    rows = [
        {"id": f"t{k}", "env": "tests.toy:Toy", "goal": "Get out of the hall", "params": {"type": "hall"}}
        for k in range(4)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def episode(own: list[Task], moves: list[str]) -> list[dict[str, Any]]:
    """The messages of an episode by these moves, each foretelling."""
    world = worlds(own)()
    prompt = task_rows(own, TEXTS)[0]["prompt"]
    chat = [prompt[0], {"role": "user", "content": prompt[1]["content"] + world.reset(task=own[0].id)}]
    for action in moves:
        foretold = {"take key": "You take the key.", "open door": "The door opens."}.get(action, "Nothing")
        said: dict[str, Any] = {"action": action, "predictions": [foretold]}
        call = {"type": "function", "function": {"name": "act", "arguments": said}}
        chat.append({"role": "assistant", "content": "", "tool_calls": [call]})
        chat.append({"role": "tool", "name": "act", "content": world.act(**said)})
        if OVER in chat[-1]["content"]:
            break
    return chat


def turns(said: list[int], values: list[float]) -> list[float]:
    """The value of each run of 1s in `said`, the same on all its tokens."""
    found: list[list[float]] = []
    for k, (mark, value) in enumerate(zip(said, values, strict=True)):
        if mark and (k == 0 or not said[k - 1]):
            found.append([])
        if mark:
            found[-1].append(value)
        else:
            assert value == 0.0
    assert all(len(set(own)) == 1 for own in found)
    return [own[0] for own in found]


def test_episodes_in_a_world_become_steps_of_credit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl import GRPOTrainer

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    file = tasks(tmp_path / "t.jsonl")
    own = load_tasks(file, "train")
    rng = random.Random(0)
    ways = [["take key", "open door"]] * 16 + [[rng.choice(ACTIONS) for _ in range(3)] for _ in range(16)]
    model = hall.caller(tmp_path / "m")
    hall.fit(model, [episode(own, way) for way in ways], 100)
    batches: list[tuple[list[list[float]], list[list[float]]]] = []
    longest: list[int] = []
    inner = GRPOTrainer._compute_loss

    def seen(self: Any, spoken: Any, inputs: Any) -> Any:
        said = (inputs["completion_mask"] * inputs["tool_mask"]).tolist()
        got = [turns(s, v) for s, v in zip(said, inputs["advantages"].tolist(), strict=True)]
        batches.append((got, [world._turn_values() for world in self.environments]))
        longest.append(max(len(world.advantages) for world in self.environments))
        return inner(self, spoken, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", seen)
    monkeypatch.setattr(trl_worlds, "task_rows", lambda some: task_rows(some, TEXTS))
    trainer = trl_worlds.train(str(model), str(file), tmp_path / "o", 3, 4, **LEARN, seed=0)
    log = [row for row in trainer.state.log_history if "wia/solved" in row]
    assert len(log) == len(batches) == trainer._get_train_sampler().learned == 3
    assert any(0 < row["wia/solved"] < 1 and row["grad_norm"] > 0 for row in log)
    assert max(row["wia/predictive"] for row in log) > 0.3, "its predictions come through the tool"
    for got, wanted in batches:  # TRL shuffles the rows of a batch
        for own_turns, theirs in zip(sorted(got), sorted(wanted), strict=True):
            assert own_turns == pytest.approx(theirs, abs=1e-6)
    played = [world._played(k) for k, world in enumerate(trainer.environments)]
    for name in {episode.task for episode in played}:
        group = [k for k, episode in enumerate(played) if episode.task == name]
        for k, credit in zip(group, credit_group([played[k] for k in group], Wia()), strict=True):
            assert trainer.environments[k].advantages == credit.advantage
    assert max(longest) > 1, "some episode has several steps"
