"""The player: groups in training with credits, dev once without, in the order given, nothing played twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from roleagent_lite.ask import Asker, load_prompts
from roleagent_lite.evolve.player import Player, manners
from roleagent_lite.evolve.tasks import task_sets
from roleagent_lite.store import Run
from roleagent_lite.types import Progress, Request
from tests.evolve.kitchen import settings
from tests.scripted_world import provider, rule

PROMPTS = load_prompts()
SEED = PROMPTS.seed_set()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", settings(tmp_path)) as run:
        yield run


def player(run: Run, told: list[Progress] | None = None, asked: list[str] | None = None) -> Player:
    def answer(request: object) -> str:
        if asked is not None:
            asked.append("call")
        return rule(request)  # type: ignore[arg-type]

    listener = told.append if told is not None else None
    return Player(run.config, run, Asker(provider(answer), PROMPTS), listener)


def test_how_the_splits_are_played(tmp_path: Path) -> None:
    config = settings(tmp_path)
    train, dev = manners(config)["train"], manners(config)["dev"]
    assert (train.group, train.temperature, train.predict, train.credit) == (2, 0.9, True, True)
    assert (dev.group, dev.temperature, dev.predict, dev.credit) == (1, 0.0, False, False)
    assert not manners(settings(tmp_path, {"wia": {"predict": "off"}}))["train"].predict


async def test_training_groups_come_in_order_with_credits(run: Run) -> None:
    told: list[Progress] = []
    tasks = task_sets(run.config.tasks, dev=2, test=2).train[:3]
    played = await player(run, told).play(tasks, SEED, 4)
    assert [p.task.id for p in played] == [t.id for t in tasks]
    for group in played:
        assert [t.id for t in group.trajectories] == [f"4/{SEED.id[:8]}/{group.task.id}#{n}" for n in (0, 1)]
        assert set(group.credits) == {t.id for t in group.trajectories}
        for id in group.credits:
            assert run.credits.get(id) == group.credits[id]
    assert told[-1].stage == "train" and (told[-1].done, told[-1].total) == (6, 6)


async def test_dev_has_one_rollout_and_no_credit(run: Run) -> None:
    tasks = task_sets(run.config.tasks, dev=3, test=2).dev
    played = await player(run).play(tasks, SEED, 0)
    assert [len(p.trajectories) for p in played] == [1, 1, 1]
    assert len(run.credits) == 0 and all(not p.credits for p in played)


async def test_what_was_played_is_not_played_again(run: Run) -> None:
    tasks = task_sets(run.config.tasks, dev=2, test=2).train[:2]
    first = await player(run).play(tasks, SEED, 1)
    asked: list[str] = []
    again = await player(run, asked=asked).play(tasks, SEED, 1)
    assert asked == []
    assert [p.credits for p in again] == [p.credits for p in first]
    await player(run, asked=asked).play(tasks, SEED, 2)
    assert asked != []


async def test_wm_03_no_prediction_at_all_is_said_after_the_first_episode(run: Run) -> None:
    def silent(request: Request) -> str:
        reply = json.loads(rule(request))
        reply.pop("predictions", None)
        return json.dumps(reply)

    told: list[Progress] = []
    tasks = task_sets(run.config.tasks, dev=2, test=2).train[:2]
    await Player(run.config, run, Asker(provider(silent), PROMPTS), told.append).play(tasks, SEED, 1)
    warned = [p for p in told if "100 % missing" in p.note]
    assert len(warned) == 1 and warned[0].done == 1
    assert run.events.get("note/predictions") is not None


async def test_predictions_that_come_bring_no_warning(run: Run) -> None:
    told: list[Progress] = []
    await player(run, told).play(task_sets(run.config.tasks, dev=2, test=2).train[:2], SEED, 1)
    assert not [p for p in told if p.note] and run.events.get("note/predictions") is None


async def test_a_resume_judges_the_same_episode_and_not_the_last_one_stored(run: Run) -> None:
    sets = task_sets(run.config.tasks, dev=2, test=2)
    await player(run).play(sets.train[:2], SEED, 1)
    await player(run).play(sets.dev, SEED, 1)  # foretells nothing, and stands last in the table
    told: list[Progress] = []
    await player(run, told).play(sets.train[:2], SEED, 1)
    assert not [p for p in told if p.note] and run.events.get("note/predictions") is None
