"""Every setting reaches what it sets: one run with unusual values, read back from its tables."""

from __future__ import annotations

from typing import Any

import pytest

from roleagent_lite.aiw.curriculum import Curriculum
from roleagent_lite.jobs import EvolveResult
from roleagent_lite.store import Run
from roleagent_lite.types import Request
from tests.evolve.kitchen import SMALL, run_kitchen

WIA = {
    "horizon_share": 0.5, "gamma": 0.5, "alpha": 2.0, "scorer": "tokens", "states": "text",
    "merge_above": 0.8, "normalise": "mean", "outcome": "score",
}  # fmt: skip
ODD: dict[str, Any] = {
    "wia": WIA,
    "aiw": {"rho": 0.1, "decay": 0.5, "candidates": 3, "retrieve": "llm"},
    "evolve": {"temperature": 0.4, "reflect_temperature": 0.3, "max_chars": 700, "rounds": 3},
    "limits": {"max_tokens": 321},
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> EvolveResult:
    return run_kitchen(tmp_path_factory.mktemp("odd"), SMALL, ODD)


def asked(run: Run, module: str) -> list[Request]:
    found = [call.request for call in run.calls if call.request.module == module]
    assert found, f"module {module} was never asked"
    return found


def test_temperatures_and_lengths_reach_the_requests(odd: EvolveResult) -> None:
    with Run.open(odd.run_dir) as run:
        split = {t.id: t.split for t in run.trajectories}
        heat: dict[str, set[float]] = {}
        for request in asked(run, "act"):
            heat.setdefault(split[request.sample], set()).add(request.temperature)
        assert heat == {"train": {0.4}, "dev": {0.0}, "test": {0.0}}
        assert {r.max_tokens for r in asked(run, "act")} == {321}
        assert {r.temperature for r in asked(run, "diagnose")} == {0.3}
        assert {r.temperature for r in asked(run, "reflect")} == {0.3}
        assert all("at most 100 words" in r.messages[-1].content for r in asked(run, "reflect"))


def test_the_search_is_narrowed_to_the_candidates(odd: EvolveResult) -> None:
    with Run.open(odd.run_dir) as run:
        for request in asked(run, "retrieve"):
            listed = request.messages[-1].content.rpartition("candidates:\n")[2]
            assert sum(line.startswith("train-") for line in listed.splitlines()) == 3


def test_credits_are_made_by_the_settings_of_wia(odd: EvolveResult) -> None:
    with Run.open(odd.run_dir) as run:
        formulas = [dict(credit.formula) for credit in run.credits]
        assert formulas and all(WIA.items() - {("horizon_share", 0.5)} <= f.items() for f in formulas)
        assert {f["horizon"] for f in formulas} == {3}  # half of 6 steps
        steps = [s for t in run.trajectories if t.split == "train" for s in t.steps]
        assert {len(s.predictions) for s in steps} == {3}


def test_the_curriculum_turns_by_rho_and_decay(odd: EvolveResult) -> None:
    with Run.open(odd.run_dir) as run:
        train = [t.id for t in run.tasks if t.split == "train"]
        now = Curriculum.start(train, rho=0.1, decay=0.5, seed=run.config.seed)
        for number in (1, 2, 3):
            drawn, turned = run.events.get(f"round/{number}"), run.events.get(f"curriculum/{number}")
            assert drawn is not None and turned is not None
            assert drawn.data["p"] == pytest.approx(now.probabilities())
            assert list(drawn.data["drawn"]) == now.draw(4, number)
            now = now.update([c["task_id"] for c in turned.data["chosen"]], turned.data["solved"])
            assert turned.data["counts"] == {i: c for i, c in zip(now.task_ids, now.counts, strict=True) if c}
        assert any(c % 1 for c in now.counts), "nothing ever faded: decay was not tried"


def test_the_sealed_tasks_have_a_round_of_their_own_after_the_last(odd: EvolveResult) -> None:
    with Run.open(odd.run_dir) as run:
        assert {t.round for t in run.trajectories if t.split == "test"} == {4}
