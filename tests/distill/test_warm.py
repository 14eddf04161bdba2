"""warm: the model imitates its own solved episodes, and what follows starts from there."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

from roleagent_lite.distill import online, warm
from roleagent_lite.distill.choices import OfflineChoices, alike, drawn
from roleagent_lite.distill.online import train_online
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.distill.tree import choice_sums
from roleagent_lite.envs import registry
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Outcome, Step, Trajectory
from tests.distill import local, online_world
from tests.distill.test_online import equal, lines, trained, weights
from tests.distill.test_tree import states

WARM = {"group": 16, "temperature": 2.0, "epochs": 12, "lr": 0.01, "batch": 16, "per_task": 8}


def recipe(folder: Path, **online: Any) -> Recipe:
    settings: dict[str, Any] = {"updates": 2, "temperature": 1.0, **online}
    return online_world.recipe(folder, warm=WARM, online=settings)


def test_imitation_makes_a_start_that_the_base_was_far_from(tmp_path: Path) -> None:
    told = trained(tmp_path, recipe(tmp_path))
    start = told["warm"]
    assert start["dev"]["solved"] == 0.0 and start["played"]["solved"] < 0.3
    assert (
        start["imitated"]["episodes"] <= 6 * 8
        and start["imitated"]["moves"] == 2 * start["imitated"]["episodes"]
    )
    assert told["dev"][0]["update"] == 0 and told["dev"][0]["solved"] == 1.0  # on tasks it never played
    assert told["reference"] == "the adapter after the warm start"
    with Run.open(tmp_path / "run") as run:
        by_round = {t.round: t.model.rpartition("+")[2] for t in run.trajectories if t.split == "train"}
        assert by_round == {0: "base", 3: "0", 4: "1"}
    assert json.loads((tmp_path / "run" / "warm.json").read_text(encoding="utf-8")) == start


def test_its_loss_is_minus_the_mean_log_probability_of_the_moves() -> None:
    made = local.policy(local.recipe())
    local.disturb(made)
    rows = [replace(t, sample=replace(t.sample, temperature=0.5)) for t in states()]
    objective = warm.ImitatedChoices(room=10_000)
    totals = objective.totals(rows, local.recipe())
    loss = torch.stack([objective.loss(made, part, totals)[0] for part in objective.parts(rows, 1)]).sum()
    each = [drawn(t, sums) for t, sums in zip(rows, choice_sums(made, rows), strict=True)]
    assert float(loss.detach()) == pytest.approx(-float(torch.cat(each).detach().mean()), abs=1e-5)
    assert objective.report({"moves": 3.0}, totals) == {"moves": 3.0} and objective.limit({}) == ""
    assert len(alike(rows)) == 3


@pytest.mark.parametrize("where", ["play", "imitate", "update"])
def test_a_kill_in_it_changes_nothing(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        """Stands for the end of the process: nothing catches it."""

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    settings = recipe(whole)
    trained(whole, settings)
    count = [0]

    def dying(real: Any, at: int) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            count[0] += 1
            if count[0] == at:
                raise Killed
            return real(*arguments, **named)

        return call

    owner, name, at = {
        "play": (warm, "prepare", 1),
        "imitate": (warm._Imitation, "_measure", 5),
        "update": (online.Loop, "_learn", 2),
    }[where]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dying(getattr(owner, name), at))
        with pytest.raises(Killed):
            trained(parts, settings)
    trained(parts, settings)
    assert equal(weights(parts), weights(whole))
    assert lines(parts) == lines(whole)


def test_nothing_solved_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    tasks = online_world.write_tasks(tmp_path / "tasks.jsonl", flat=True)
    with pytest.raises(RoleAgentError, match="solved none of 6 training tasks in 16 tries"):
        train_online(recipe(tmp_path), str(tasks), tmp_path / "run")


def test_the_sealed_set_has_a_row_of_its_own_for_the_start(tmp_path: Path) -> None:
    told = trained(tmp_path, recipe(tmp_path, updates=1), sealed=True)
    assert list(told["sealed"]["systems"]) == ["base", "start", "adapter"]
    assert [(p["first"], p["second"]) for p in told["sealed"]["pairs"]] == [
        ("base", "start"), ("base", "adapter"), ("start", "adapter")
    ]  # fmt: skip
    assert told["sealed"]["systems"]["start"]["solved"] == 1.0 > told["sealed"]["systems"]["base"]["solved"]


def hindsight(folder: Path, most: int) -> Recipe:
    settings = recipe(folder, updates=1)
    return settings.model_copy(update={"warm": settings.warm.model_copy(update={"hindsight": most})})


def test_failed_episodes_are_imitated_under_the_task_that_they_solved(tmp_path: Path) -> None:
    told = trained(tmp_path, hindsight(tmp_path, 2))
    plain = tmp_path / "plain"
    plain.mkdir()
    without = trained(plain, recipe(plain, updates=1))
    assert without["warm"]["imitated"]["relabelled"] == 0 < told["warm"]["imitated"]["relabelled"] <= 2 * 6
    more = told["warm"]["imitated"]["episodes"] - without["warm"]["imitated"]["episodes"]
    assert more == told["warm"]["imitated"]["relabelled"]
    with Run.open(tmp_path / "run") as run:
        made = [t for t in run.trajectories if t.round == warm.HINDSIGHT]
        assert len(made) == more and all(t.solved and len(t.steps) == 1 for t in made)
        played = {parent(run, t) for t in made}
        assert played <= {t.id for t in run.tasks if t.parent is None and t.split == "train"}
        failed = {(t.task, t.steps[0].action) for t in run.trajectories if t.round == 0 and not t.solved}
        assert {(parent(run, t), t.steps[0].action) for t in made} <= failed  # its own moves


def parent(run: Run, trajectory: Trajectory) -> str | None:
    task = run.tasks.get(trajectory.task)
    assert task is not None
    return task.parent


def steps(plan: list[str]) -> tuple[Step, ...]:
    return tuple(Step("seen", action, "came") for action in plan)


def test_relabelled_tasks_are_few_new_and_short() -> None:
    tasks = [t for t in load_tasks("household-easy") if t.split == "train"][:6]
    plans = [registry.spec(t.env).make(t).walkthrough() for t in tasks]  # type: ignore[attr-defined]
    groups = [
        [
            Trajectory(
                f"0/p/{task.id}#0", task.id, "p", "m", 0, 0, "train", steps(plan), 0.0, Outcome("failed")
            )
        ]
        for task, plan in zip(tasks, plans, strict=True)
    ]
    found, moves = warm.relabelled(tasks, groups, 1)
    assert found and len({t.parent for t in found}) == len(found) == len({t.id for t in found})
    for task in found:
        env = registry.spec(task.env).make(task)
        ends = [env.step(a).done for a in moves[task.id]]
        assert ends == [False] * (len(ends) - 1) + [True] and task.split == "train"
    assert warm.relabelled(tasks, groups, 0) == ([], {})
    solved = [[replace(t, outcome=Outcome("solved"), score=1.0) for t in g] for g in groups]
    assert warm.relabelled(tasks, solved, 3) == ([], {})


def test_moves_that_it_was_sure_of_are_left_out() -> None:
    tokens = states()[1]
    sums = (-0.1, -3.0)  # of the two choices of one and two tokens

    def row(probability_of_first: bool) -> Tokens:
        scores = tuple(
            (value / len(ids),) * len(ids) for value, ids in zip(sums, tokens.choices, strict=True)
        )
        text = tokens.sample.choices[0 if probability_of_first else 1]
        return replace(tokens, sample=replace(tokens.sample, scores=scores, text=text))

    sure, odd = row(True), row(False)
    p = math.exp(float(OfflineChoices.recorded(sure)))
    assert 0.5 < p < 1
    assert not warm._unsure(sure, p - 0.01) and warm._unsure(sure, p + 0.01) and warm._unsure(odd, p)
    assert warm._unsure(sure, 1.0)  # 1: none is left out
    assert warm._unsure(replace(sure, sample=replace(sure.sample, scores=())), 0.1)  # not known
