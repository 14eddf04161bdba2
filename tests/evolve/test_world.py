"""The world's half of the loop: draws are recorded, failures read, the curriculum turns, dev stays out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from roleagent_lite.ask import Asker, load_prompts
from roleagent_lite.config import from_mapping
from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.evolve import world as world_room
from roleagent_lite.evolve.played import Played
from roleagent_lite.evolve.player import Player
from roleagent_lite.evolve.tasks import TaskSets, task_sets
from roleagent_lite.evolve.world import World, vocabulary_of
from roleagent_lite.store import Run
from tests.evolve.kitchen import settings
from tests.scripted_world import Kitchen, provider

PROMPTS = load_prompts()
SEED = PROMPTS.seed_set()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", settings(tmp_path)) as run:
        yield run


def sets(run: Run) -> TaskSets:
    return task_sets(run.config.tasks, dev=2, test=2)


def world(run: Run) -> World:
    return World(run.config, run, Asker(provider(), PROMPTS), sets(run).train, None)


async def failing(run: Run, round: int = 1) -> list[Played]:
    """One heat task (fails) and one fetch task (solved), played for real."""
    train = sets(run).train
    tasks = [next(t for t in train if t.params["family"] == family) for family in ("heat", "fetch")]
    return await Player(run.config, run, Asker(provider(), PROMPTS), None).play(tasks, SEED, round)


async def test_a_draw_is_recorded_with_its_probabilities(run: Run) -> None:
    drawn = world(run).draw(1)
    event = run.events.get("round/1")
    assert event is not None and event.data["drawn"] == drawn
    assert len(drawn) == len(set(drawn)) == 5
    assert set(event.data["p"].values()) == {1 / 20} and event.data["counts"] == {}


async def test_failures_are_read_and_the_next_round_draws_what_shares_them(run: Run) -> None:
    here = world(run)
    played = await failing(run)
    await here.learn(played, 1)
    failed = played[0].failures
    assert set(here.diagnoses) == {t.id for t in failed} and len(failed) == 2
    assert {d.mode for d in here.diagnoses.values()} == {"missing_precondition"}
    assert here.related == ()
    await here.end_round(1, None)
    assert here.related and all("heat" in id for id in here.related)
    here.draw(2)
    event = run.events.get("round/2")
    assert event is not None
    p = event.data["p"]
    assert p[played[0].task.id] > 1 / 20 > p[played[1].task.id] >= 0.7 / 20


async def test_a_mode_that_an_accepted_child_got_over_is_marked(run: Run) -> None:
    here = world(run)
    played = await failing(run)
    await here.learn(played, 1)
    child = replace(SEED, id="c" * 12)
    solved = tuple(
        replace(
            t,
            id=t.id.replace(SEED.id[:8], "c" * 8),
            prompt_set=child.id,
            outcome=played[1].trajectories[0].outcome,
        )
        for t in played[0].trajectories
    )
    await here.learn([Played(played[0].task, solved)], 1)
    await here.end_round(1, child)
    fixed = [dict(event.data) for event in run.events if event.kind == "fixed"]
    assert fixed == [{"mode": "missing_precondition", "prompt_set": child.id, "round": 1}]


async def test_dev_episodes_are_refused(run: Run) -> None:
    dev = await Player(run.config, run, Asker(provider(), PROMPTS), None).play(sets(run).dev, SEED, 0)
    with pytest.raises(RoleAgentError, match="never enter the atlas"):
        await world(run).learn(dev, 1)


async def test_unknown_names_are_refused(run: Run) -> None:
    for over, words in (
        ({"diagnose": "lm"}, "aiw.diagnose"),
        ({"retrieve": "vectors"}, "did you mean 'vector'"),
    ):
        config = run.config.model_copy(update={"aiw": run.config.aiw.model_copy(update=over)})
        with pytest.raises(ConfigError, match=words):
            World(config, run, Asker(provider(), PROMPTS), sets(run).train, None)


def test_an_environment_has_its_own_vocabulary_or_the_general_one() -> None:
    assert "wrong_receptacle" in vocabulary_of("household").modes
    assert vocabulary_of("household:alfworld") == vocabulary_of("household")
    assert vocabulary_of("tests.scripted_world:Kitchen").name == "general"


def test_an_environment_may_declare_its_own_failure_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(Kitchen, "failure_modes", {"cold_food": "serves what  was not heated"}, raising=False)
    vocabulary = vocabulary_of("tests.scripted_world:Kitchen")
    assert dict(vocabulary.modes) == {"cold_food": "serves what was not heated"}
    for wrong in ({"Cold food": "x"}, {"other": "x"}, {"cold": ""}, ["cold"]):
        monkeypatch.setattr(registry, "_registered", {})
        monkeypatch.setattr(Kitchen, "failure_modes", wrong)
        with pytest.raises(ConfigError, match="scripted_world:Kitchen, failure_modes: "):
            vocabulary_of("tests.scripted_world:Kitchen")


def test_auto_stays_the_embedder_it_was_at_the_start(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def opened(name: str, listener: object = None) -> None:
        asked.append(name)

    monkeypatch.setattr(world_room, "make_embedder", opened)
    run.config = from_mapping({**run.config.model_dump(), "aiw": {"embedder": "auto"}})
    world(run)
    world(run)
    assert asked == ["auto", "none"]


@pytest.mark.parametrize("aiw", [{"retrieve": "random"}, {"retrieve": "none"}, {"diagnose": "none"}], ids=str)
def test_no_embedder_is_opened_where_nothing_is_searched(
    run: Run, monkeypatch: pytest.MonkeyPatch, aiw: dict[str, str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(world_room, "make_embedder", lambda name, listener=None: asked.append(name))
    run.config = from_mapping({**run.config.model_dump(), "aiw": {"embedder": "hf:big", **aiw}})
    world(run)
    assert asked == ["none"]
