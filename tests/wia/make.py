"""Builders for the tests of wia: short steps and rollouts, and the cases of the vector files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roleagent_lite.config import Wia
from roleagent_lite.types import Kind, Outcome, Step, Trajectory

VECTORS = Path(__file__).resolve().parent.parent / "vectors"


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def settings(**values: Any) -> Wia:
    return Wia(**values)


def steps(
    states: Sequence[str],
    rewards: Sequence[float],
    predictions: Sequence[Sequence[str | None] | None] | None = None,
    actions: Sequence[str] | None = None,
    keys: Sequence[str | None] | None = None,
) -> tuple[Step, ...]:
    """`states` holds s_1..s_{T+1}; the rest one entry a step."""
    return tuple(
        Step(
            observation=states[t],
            action=actions[t] if actions else "look",
            outcome=states[t + 1],
            reward=r,
            predictions=tuple((predictions[t] if predictions else None) or ()),
            state_key=keys[t] if keys else None,
        )
        for t, r in enumerate(rewards)
    )


def rollout(
    number: int,
    its: tuple[Step, ...],
    kind: Kind = "failed",
    score: float = 0.0,
    max_steps: int = 20,
    task: str = "t",
    split: Any = "train",
    round: int = 0,
) -> Trajectory:
    return Trajectory(
        id=f"{round}/abcdefgh/{task}#{number}",
        task=task,
        prompt_set="abcdefgh",
        model="m",
        round=round,
        rollout=number,
        split=split,
        steps=its,
        score=score,
        outcome=Outcome(kind),
        max_steps=max_steps,
    )


def of_case(case: Any) -> tuple[list[Trajectory], Wia]:
    """One case of wia.json as rollouts and settings."""
    group = [
        rollout(
            i,
            steps(t["states"], t["rewards"], t["predictions"]),
            kind="infrastructure_error" if t.get("infrastructure_error") else "failed",
            score=t["outcome"],
            max_steps=case["horizon"] * 20,
        )
        for i, t in enumerate(case["trajectories"])
    ]
    wia = Wia(
        gamma=case["gamma"],
        alpha=case["alpha"],
        normalise=case["normalise"],
        merge_above=1.0 if case["merge_above"] is None else case["merge_above"],
        states="text",
        outcome="score",
    )
    return group, wia
