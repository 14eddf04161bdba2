"""examples/trl_states.py in TRL 1.14 itself: from a run's file to a model that earns more in its states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples import trl_states
from roleagent_lite.distill import table
from roleagent_lite.distill.recipe import from_mapping
from roleagent_lite.distill.state_reward import StateReward
from roleagent_lite.store import Run
from roleagent_lite.wia.advantage import relative
from tests.examples import hall
from tests.toy import ACTIONS

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("ignore")]
LEARN: dict[str, Any] = {
    **hall.QUIET,
    "num_generations": 8,
    "learning_rate": 1e-3,
    "max_completion_length": 8,
}


def expected(folder: Path, rows: Any, reward: StateReward) -> float:
    """What the model in `folder` earns on average in the run's distinct states, by its exact likelihoods."""
    states = {str(row["actions"]): row for row in rows}
    total = 0.0
    for row in states.values():
        n = len(ACTIONS)
        earned = reward([[]] * n, list(ACTIONS), task=[row["task"]] * n, actions=[row["actions"]] * n)
        weights = hall.likelihoods(folder, row["prompt"], ACTIONS)
        total += sum(w * (r or 0.0) for w, r in zip(weights, earned, strict=True))
    return total / len(states)


def test_a_model_learns_from_the_states_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl import GRPOTrainer

    run, samples = hall.run(tmp_path / "r"), tmp_path / "s.jsonl"
    with Run.open(run) as opened:
        for file in (samples, tmp_path / "s.parquet"):
            assert table.write(opened, from_mapping({"model": "any"}), file) == (48, ())
        reward = StateReward.of(opened)
    rows = trl_states.load(samples, tmp_path)
    assert trl_states.load(tmp_path / "s.parquet", tmp_path).to_list() == rows.to_list()
    model = str(hall.model(tmp_path / "m"))
    start = trl_states.imitate(model, rows, tmp_path / "i", 60, **hall.QUIET, learning_rate=1e-2, seed=0)
    given: list[Any] = []
    inner, judge = GRPOTrainer._generate_and_score_completions, StateReward.__call__

    def seen(self: Any, inputs: Any) -> Any:
        output = inner(self, inputs)
        given.append(output["advantages"].tolist())
        return output

    def judged(self: StateReward, *arguments: Any, **row: Any) -> Any:
        given.append(judge(self, *arguments, **row))
        return given[-1]

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", seen)
    monkeypatch.setattr(StateReward, "__call__", judged)
    trainer = trl_states.train(start, run, samples, tmp_path / "o", 30, **LEARN, seed=0)
    first = trainer.state.log_history[0]
    assert first["wia/read"] > 0.5 and first["reward_std"] > 0 and first["rewards/wia_state/mean"] > 0
    for earned, advantages in zip(given[::2], given[1::2], strict=True):
        own = [a for k in (0, 8) for a in relative(earned[k : k + 8], "mean_std")]
        assert advantages == pytest.approx(own, rel=0.01), "A^S, but for TRL's epsilon; 0 among equals"
    monkeypatch.undo()
    before, after = (expected(Path(folder), rows, reward) for folder in (start, tmp_path / "o"))
    print(f"expected R {before:.3f} before, {after:.3f} after")
    assert after > before + 0.02
