"""lats: the arithmetic of the search; it recovers by going back and stops at its budget."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from roleagent_lite.errors import FatalModelError
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.stage import Mark
from roleagent_lite.systems import make_system
from roleagent_lite.systems.lats import Lats, Node, backpropagate, close, select, uct
from roleagent_lite.systems.setting import Setting
from roleagent_lite.types import Observation, Outcome, Reply, Request, Trajectory
from tests.systems import make

MARK = Mark((), Observation(""), 0.0)


def walker(request: Request) -> str:
    """Greedy where it is not warm: always the first door. Warm, it takes the k-th for its k-th sample.

    It judges by what it sees: a bright room looks best. Nothing it reads tells of the way out.
    """
    text = request.messages[-1].content
    if request.module == "value":
        shown = text.partition("Now is seen:")[2]
        score = 9 if "bright" in shown else 5 if "dark" in shown else 3
        return json.dumps({"thought": "so it looks", "score": score})
    if request.module == "reflexion":
        return json.dumps({"reflection": "That was a dead end."})
    actions = make.offered(request)
    k = int(request.sample.rpartition(".")[2]) if request.temperature > 0 else 0
    return make.move(actions[k % len(actions)])


async def solve(setting: Setting, name: str = "lats", world: str = "Maze", **changes: int) -> Trajectory:
    system = make_system(name, setting)
    for key, value in changes.items():
        setattr(system, key, value)
    return await system.solve(make.task(world), round=0, rollout=0, temperature=0.0)


# --- arithmetic ---------------------------------------------------------------------------------------


def tree() -> tuple[Node, Node, Node]:
    root = Node(MARK, 0, visits=4)
    left, right = Node(MARK, 1, root, value=0.5, visits=3), Node(MARK, 2, root, value=0.4, visits=1)
    root.children = [left, right]
    return root, left, right


def test_uct_weighs_value_against_visits() -> None:
    _, left, right = tree()
    assert uct(left) == pytest.approx(0.5 + math.sqrt(math.log(4) / 3))
    assert uct(right) == pytest.approx(0.4 + math.sqrt(math.log(4)))
    assert uct(Node(MARK, 3, Node(MARK, 0), value=0.7)) == pytest.approx(0.7)  # nothing visited yet


def test_selection_goes_down_the_open_children_to_a_leaf() -> None:
    root, left, right = tree()
    assert select(root) is right
    deep = Node(MARK, 3, right, value=0.1)
    right.children = [deep]
    assert select(root) is deep
    close(deep)
    assert right.closed and not root.closed and select(root) is left
    close(left)
    assert root.closed


def test_the_score_of_an_end_becomes_a_running_mean_up_to_the_root() -> None:
    root, left, _ = tree()
    backpropagate(left, 1.0)
    assert (left.visits, root.visits) == (4, 5)
    assert left.value == pytest.approx((0.5 * 3 + 1.0) / 4)
    assert root.value == pytest.approx(1.0 / 5)
    fresh = Node(MARK, 4, value=0.9)
    backpropagate(fresh, 0.0)
    assert fresh.value == 0.0  # at the first visit the estimate gives way to what was seen


# --- searching ----------------------------------------------------------------------------------------


async def test_it_recovers_by_going_back_where_react_and_reflexion_are_lost(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", walker) as setting:
        for name in ("react", "reflexion"):
            lost = await solve(setting, name)
            assert lost.outcome == Outcome("failed", "lost") and lost.steps[0].action == "take left door"
        before = len(setting.run.trials)
        played = await solve(setting)
        searched = list(setting.run.trials)[before:]
    assert played.solved and [s.action for s in played.steps] == ["take right door", "climb"]
    assert [t.id for t in searched] == [f"{played.id}/search{n}" for n in (1, 2)]
    assert [t.steps[0].action for t in searched] == ["take left door", "take middle door"]
    assert all(t.outcome == Outcome("failed", "lost") for t in searched)
    calls = {c for s in played.steps for c in s.call_ids}
    assert calls.isdisjoint(played.other_calls) and len(calls) == 2


async def test_all_calls_of_the_search_are_told(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", walker) as setting:
        played = await solve(setting)
        own = {c for s in played.steps for c in s.call_ids} | set(played.other_calls)
        assert own == set(setting.run.calls.keys())
        bound = make_system("lats", setting).most_calls(make.task("Maze"))
        assert bound is not None and len(own) <= bound


async def test_reflections_reach_later_moves(tmp_path: Path) -> None:
    told: list[int] = []

    def rule(request: Request) -> str:
        if request.module == "react":
            told.append(request.messages[-1].content.count("- That was a dead end."))
        return walker(request)

    async with make.setting(tmp_path / "run", rule) as setting:
        await solve(setting)
    assert told == [0] * 10 + [1] * 5 + [2] * 5  # root and left room; middle room; right room


@pytest.mark.parametrize("amount", [1, 4, 5, 6, 9, 14, 19, 24])
async def test_it_stops_at_its_budget_exactly(tmp_path: Path, amount: int) -> None:
    async with make.setting(tmp_path / "run", walker, budget=make.calls(amount)) as setting:
        played = await solve(setting)
        assert len(setting.run.calls) == amount
        assert make_system("lats", setting).most_calls(make.task("Maze")) == amount
    assert not played.solved and played.outcome.kind == "failed"
    assert played.outcome.reason in ("budget", "lost")


async def test_a_large_enough_budget_is_not_used_up(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", walker, budget=make.calls(60)) as setting:
        assert (await solve(setting)).solved and len(setting.run.calls) == 25


async def test_snapshots_save_environments_and_find_the_same(tmp_path: Path) -> None:
    make.SavedMaze.made = 0
    found = []
    for number, world in enumerate(("Maze", "SavedMaze")):
        async with make.setting(tmp_path / str(number), walker) as setting:
            played = await solve(setting, world=world)
            found.append([s.action for s in played.steps])
            assert played.solved
    assert found[0] == found[1] and make.SavedMaze.made == 1


async def test_a_world_that_is_not_deterministic_is_said(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", walker) as setting:
        played = await solve(setting, world="Fickle")
    assert played.outcome == Outcome("infrastructure_error", "environment")
    assert "is not deterministic: at the start" in (played.error or "")


async def test_a_hopeless_tree_is_given_up_when_all_of_it_was_seen(tmp_path: Path) -> None:
    """Every sample is the same: one path, searched once."""

    def rule(request: Request) -> str:
        return make.move(make.offered(request)[0]) if request.module == "react" else walker(request)

    async with make.setting(tmp_path / "run", rule) as setting:
        played = await solve(setting)
        assert len(setting.run.trials) == 1
        react = [c for c in setting.run.calls if c.request.module == "react"]
        assert len(react) == 10 and len(setting.run.calls) == 12  # two points, a value, a reflection
    assert played.outcome == Outcome("failed", "lost") and len(played.steps) == 2


async def test_out_of_iterations_the_most_promising_point_is_shown(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", walker) as setting:
        played = await solve(setting, iterations=1)
    assert played.outcome == Outcome("failed", "gave_up") and len(played.steps) == 1
    assert played.steps[0].action == "take middle door"  # the bright room has led to a pit


async def test_a_known_dead_end_takes_no_iteration(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "run", walker) as setting:
        played = await solve(setting, world="Ends", iterations=2)
        assert [[s.action for s in t.steps] for t in setting.run.trials] == [["go far", "go left", "go on"]]
    assert played.solved and [s.action for s in played.steps] == ["go far", "go right", "go on"]


async def test_unusable_samples_are_left_out_and_none_at_all_is_an_outcome(tmp_path: Path) -> None:
    def some(request: Request) -> str:
        first = re.search(r"node0\.[01]$", request.sample)
        return "no form" if first else walker(request)

    async with make.setting(tmp_path / "a", some) as setting:
        assert (await solve(setting)).solved
    async with make.setting(tmp_path / "b", lambda _: "no form") as setting:
        played = await solve(setting)
    assert played.outcome == Outcome("bad_format", "wrong form") and len(played.other_calls) == 10


async def test_killed_in_its_search_it_pays_nothing_twice(tmp_path: Path) -> None:
    async with make.setting(tmp_path / "whole", walker) as setting:
        whole = await solve(setting)
    model = ScriptedModel(walker)

    def dying(request: Request) -> str:
        if model.requests == 20:
            raise FatalModelError("gone")
        return walker(request)

    model._rule = dying
    with pytest.raises(FatalModelError):
        async with make.setting(tmp_path / "run", walker, model=model) as setting:
            await solve(setting)
    async with make.setting(tmp_path / "run", walker, model=model) as setting:
        again = await solve(setting)
        assert model.requests == len(setting.run.calls) + 1
    assert (again.steps, again.other_calls) == (whole.steps, whole.other_calls)


async def test_a_model_that_chooses_searches_too(tmp_path: Path) -> None:
    def rule(request: Request) -> str | Reply:
        if request.module == "reflexion":
            return walker(request)
        if request.choices is None:
            return json.dumps({"thought": f"thought {request.sample[-1]}"})
        return Reply("", scores=tuple((-1.0 - 0.1 * k,) for k in range(len(request.choices))))

    async with make.setting(tmp_path / "run", rule, prompts="embedded", can_score=True) as setting:
        system = make_system("lats", setting)
        assert isinstance(system, Lats) and system.kind == "choose"
        played = await system.solve(make.task("SavedMaze"), round=0, rollout=0, temperature=0.0)
        modules = {c.request.module for c in setting.run.calls}
    assert played.solved and modules == {"think", "choose", "value", "reflexion"}
