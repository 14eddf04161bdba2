"""reflexion: what a failed try taught is shown to the next; the best try counts, all tries are kept apart."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from roleagent_lite.errors import FatalModelError, TransientModelError
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.systems import make_system
from roleagent_lite.systems.reflexion import MEMORY, Reflexion, best
from roleagent_lite.types import Outcome, Reply, Request, Trajectory
from tests.systems import make


def learner(request: Request) -> str:
    """Opens the first box, unless its lessons name another; reads in its failed try where the prize was."""
    text = request.messages[-1].content
    if request.module == "reflexion":
        found = re.search(r"The prize was in the (\w+) box", text)
        return json.dumps({"reflection": f"The prize is in the {found[1]} box." if found else "Be careful."})
    lesson = re.search(r"The prize is in the (\w+) box", text)
    return make.move(f"open {lesson[1]} box" if lesson else make.offered(request)[0])


async def test_it_learns_from_its_failed_try_and_react_does_not(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", learner) as setting:
        react = await make_system("react", setting).solve(
            make.task("Boxes"), round=0, rollout=0, temperature=0.0
        )
        system = make_system("reflexion", setting)
        played = await system.solve(make.task("Boxes"), round=0, rollout=0, temperature=0.0)
        trials = list(setting.run.trials)
        assert not react.solved and played.solved and system.sees_score
        assert [t.id for t in trials] == [f"{played.id}/trial1", f"{played.id}/trial2"]
        assert [t.outcome for t in trials] == [Outcome("failed", "lost"), Outcome("solved")]
        assert played.id == f"0/{system.prompt_set.id[:8]}/t1#0" and played.steps == trials[1].steps
        # One move, one reflection, one move: every call is told, the path's own in its step.
        assert len(played.other_calls) == 2 and len(played.steps[0].call_ids) == 1
        modules = [setting.run.calls.get(c).request.module for c in played.other_calls]  # type: ignore[union-attr]
        assert modules == ["react", "reflexion"]
        assert len(setting.run.trajectories) == 0  # the harness stores the one that counts


async def test_endless_failure_stops_after_its_tries_and_shows_three_lessons_at_most(
    tmp_path: Path,
) -> None:
    shown: list[int] = []

    def rule(request: Request) -> str:
        text = request.messages[-1].content
        if request.module == "reflexion":
            return json.dumps({"reflection": f"Lesson {request.sample[-1]}."})
        shown.append(len(re.findall(r"^- Lesson \d\.$", text, re.MULTILINE)))
        return make.move("open red box")

    async with make.setting(tmp_path / "run", rule) as setting:
        system = make_system("reflexion", setting)
        assert isinstance(system, Reflexion)
        system.trials = 6
        played = await system.solve(make.task("Boxes"), round=0, rollout=0, temperature=0.0)
        assert len(setting.run.trials) == 6
        assert len(setting.run.calls) == 11 <= (system.most_calls(make.task("Boxes")) or 0)
    assert shown == [0, 1, 2, 3, 3, 3] and MEMORY == 3
    assert played.outcome == Outcome("failed", "lost")


@pytest.mark.parametrize(("amount", "trials", "kind"), [(1, 1, "failed"), (2, 1, "failed"), (3, 2, "solved")])
async def test_it_stops_at_its_budget(tmp_path: Path, amount: int, trials: int, kind: str) -> None:
    async with make.setting(tmp_path / "run", learner, budget=make.calls(amount)) as setting:
        played = await make_system("reflexion", setting).solve(
            make.task("Boxes"), round=0, rollout=0, temperature=0.0
        )
        assert len(setting.run.calls) == amount and len(setting.run.trials) == trials
    assert played.outcome.kind == kind and len(played.steps) == 1


async def test_a_try_cut_by_the_budget_is_one_of_the_tries(tmp_path: Path) -> None:
    """Two moves are needed; the second try has calls left for one."""

    def rule(request: Request) -> str:
        if request.module == "reflexion":
            return json.dumps({"reflection": "Try again."})
        return make.move(make.offered(request)[0])

    async with make.setting(tmp_path / "run", rule, budget=make.calls(4)) as setting:
        played = await make_system("reflexion", setting).solve(
            make.task("Maze"), round=0, rollout=0, temperature=0.0
        )
        assert [t.outcome.reason for t in setting.run.trials] == ["lost", "budget"]
        assert len(setting.run.calls) == 4
    assert played.outcome == Outcome("failed", "budget") and len(played.steps) == 1


async def test_killed_in_the_second_try_it_pays_nothing_twice(tmp_path: Path) -> None:
    model = ScriptedModel(learner)

    def dying(request: Request) -> str:
        if model.requests == 3:
            raise FatalModelError("gone")
        return learner(request)

    model._rule = dying
    with pytest.raises(FatalModelError):
        async with make.setting(tmp_path / "run", learner, model=model) as setting:
            await make_system("reflexion", setting).solve(
                make.task("Boxes"), round=0, rollout=0, temperature=0.0
            )
    async with make.setting(tmp_path / "run", learner, model=model) as setting:
        played = await make_system("reflexion", setting).solve(
            make.task("Boxes"), round=0, rollout=0, temperature=0.0
        )
        assert len(setting.run.trials) == 2 and len(setting.run.calls) == 3
    assert played.solved and model.requests == 4  # three, the last refused; then that one alone


async def test_a_reflection_that_cannot_be_had_breaks_the_attempt_and_an_unusable_one_does_not(
    tmp_path: Path,
) -> None:
    def broken(request: Request) -> str:
        if request.module == "reflexion":
            raise TransientModelError("overloaded")
        return learner(request)

    async with make.setting(tmp_path / "a", broken, limits={"retries": 0}) as setting:
        played = await make_system("reflexion", setting).solve(
            make.task("Boxes"), round=0, rollout=0, temperature=0.0
        )
    assert played.outcome == Outcome("infrastructure_error", "provider") and played.score == 0.0

    def speechless(request: Request) -> str:
        return "no form" if request.module == "reflexion" else learner(request)

    async with make.setting(tmp_path / "b", speechless) as setting:
        system = make_system("reflexion", setting)
        again = await system.solve(make.task("Boxes"), round=0, rollout=0, temperature=0.0)
        assert again.outcome == Outcome("failed", "lost") and len(setting.run.trials) == 4


def test_the_best_try_counts_and_of_equals_the_last() -> None:
    def tried(number: int, score: float, kind: str = "failed") -> Trajectory:
        outcome = Outcome(kind)  # type: ignore[arg-type]
        return Trajectory(str(number), "t", "p", "m", 0, 0, "test", (), score, outcome)

    assert best([tried(1, 0.5), tried(2, 0.2)]).id == "1"
    assert best([tried(1, 0.5), tried(2, 0.5)]).id == "2"
    assert best([tried(1, 0.5), tried(2, 0.0, "infrastructure_error")]).id == "2"


async def test_a_model_that_chooses_reads_its_lessons_in_the_log(tmp_path: Path) -> None:
    def rule(request: Request) -> str | Reply:
        text = request.messages[-1].content
        if request.module == "reflexion":
            return learner(request)
        if request.choices is None:
            return json.dumps({"thought": "which one?"})
        blue = "Lesson: The prize is in the blue box." in text
        return Reply("", scores=tuple((-1.0 if ("blue" in c) == blue else -3.0,) for c in request.choices))

    async with make.setting(tmp_path / "run", rule, prompts="embedded", can_score=True) as setting:
        played = await make_system("reflexion", setting).solve(
            make.task("Boxes"), round=0, rollout=0, temperature=0.0
        )
        assert played.solved and len(setting.run.calls) == 5
