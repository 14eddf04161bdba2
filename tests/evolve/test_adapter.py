"""Our half of GEPA's engine: what each hook returns, records and refuses. GEPA itself is in test_loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from roleagent_lite.ask import Asker, load_prompts
from roleagent_lite.errors import BudgetStop, TransientModelError
from roleagent_lite.evolve import adapter as adapter_room
from roleagent_lite.evolve.accept import paired
from roleagent_lite.evolve.adapter import Acceptance, Adapter, Proposer, RoundEnd, Shop, Silence
from roleagent_lite.evolve.bridge import Bridge
from roleagent_lite.evolve.player import Player
from roleagent_lite.evolve.pool import Pool
from roleagent_lite.evolve.propose import Material, Means, Proposal
from roleagent_lite.evolve.sampler import Clock
from roleagent_lite.evolve.tasks import TaskSets, task_sets
from roleagent_lite.evolve.world import World
from roleagent_lite.store import Run
from roleagent_lite.types import Request, Task
from tests.evolve.kitchen import settings
from tests.scripted_world import LESSON, provider, rule

T = TypeVar("T")
PROMPTS = load_prompts()
SEED = PROMPTS.seed_set()
FIRST = "act.instructions"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", settings(tmp_path)) as run:
        yield run


def sets(run: Run) -> TaskSets:
    return task_sets(run.config.tasks, dev=3, test=2)


def shop(run: Run, answer: Callable[[Request], Any] = rule) -> Shop:
    config = run.config
    asker = Asker(provider(answer), PROMPTS)
    made = Shop(
        run,
        Bridge(),
        Clock(),
        Pool(run, SEED, config.evolve.components),
        Player(config, run, asker, None),
        World(config, run, asker, sets(run).train, None),
        Means(asker, 0.5, 2000),
        config.wia.feedback,
    )
    made.clock.round = 1
    return made


def batch(run: Run) -> list[Task]:
    """One task that fails and one that is solved."""
    train = sets(run).train
    return [next(t for t in train if t.params["family"] == family) for family in ("heat", "fetch")]


async def off(here: Shop, work: Callable[[], T]) -> T:
    """As GEPA does it: from a thread of its own."""
    return await here.bridge.run(work)


async def test_evaluate_scores_tasks_and_shows_what_was_played(run: Run) -> None:
    here = shop(run)
    adapter = Adapter(here)
    result = await off(here, lambda: adapter.evaluate(batch(run), here.pool.candidate(SEED), True))
    assert result.scores == [0.0, 1.0]
    assert [p.task for p in result.trajectories] == batch(run) and result.outputs == result.trajectories
    assert len(here.solved) == 2 and here.parent == SEED
    assert len(here.world.diagnoses) == 2


async def test_dev_scores_go_to_the_pool_and_teach_nothing(run: Run) -> None:
    here = shop(run)
    dev = list(sets(run).dev)
    await off(here, lambda: Adapter(here).evaluate(dev, here.pool.candidate(SEED)))
    assert list(here.pool.dev[SEED.id]) == [t.id for t in dev]
    assert here.solved == [] and here.world.diagnoses == {} and here.parent is None


async def test_a_task_that_could_not_be_scored_is_0_for_gepa_and_unknown_for_us(run: Run) -> None:
    def down(request: Request) -> str:
        raise TransientModelError("503")

    here = shop(run, down)
    dev = list(sets(run).dev)[:1]
    result = await off(here, lambda: Adapter(here).evaluate(dev, here.pool.candidate(SEED)))
    assert result.scores == [0.0]
    assert here.pool.dev[SEED.id] == {dev[0].id: None}


async def test_the_feedback_holds_failing_tasks_with_diagnosis_and_wrong_prediction(run: Run) -> None:
    here = shop(run)
    adapter = Adapter(here)

    def work() -> Any:
        result = adapter.evaluate(batch(run), here.pool.candidate(SEED), True)
        return adapter.make_reflective_dataset(here.pool.candidate(SEED), result, [FIRST])

    dataset = await off(here, work)
    (row,) = dataset[FIRST]
    assert row["task"] == batch(run)[0].id
    assert "missing_precondition" in row["diagnoses"][0]
    assert "the microwave is closed" in row["mispredictions"][0]


async def test_a_fault_while_building_the_feedback_is_remembered(run: Run) -> None:
    here = shop(run)
    with pytest.raises(AttributeError):
        await off(here, lambda: Adapter(here).make_reflective_dataset({}, SimpleNamespace(), [FIRST]))
    assert isinstance(here.bridge.error, AttributeError)


def one_round(here: Shop, run: Run, compare: Any = paired) -> bool:
    """Play, feedback, propose, play, accept: what GEPA does in one iteration."""
    adapter, parent = Adapter(here), here.pool.candidate(SEED)
    before = adapter.evaluate(batch(run), parent, True)
    rows = adapter.make_reflective_dataset(parent, before, [FIRST])
    texts = Proposer(here)(parent, rows, [FIRST])
    if not texts:
        return False
    child = {**parent, **texts}
    after = adapter.evaluate(batch(run), child, True)
    proposal = SimpleNamespace(eval_before=before, eval_after=after, parent_program_ids=[0], candidate=child)
    return Acceptance(here, compare).should_accept(proposal, SimpleNamespace(program_candidates=[parent]))


def candidates(run: Run) -> list[dict[str, Any]]:
    return [dict(e.data) | {"key": e.key} for e in run.events if e.kind == "candidate"]


async def test_an_accepted_child_enters_and_the_event_says_why(run: Run) -> None:
    here = shop(run)
    assert await off(here, lambda: one_round(here, run))
    child = here.pool.entered[1]
    assert LESSON.search(child.texts[FIRST]) and here.accepted == child
    (event,) = candidates(run)
    assert event["key"] == f"candidate/1/{child.id[:8]}"
    assert (event["parent"], event["child"], event["component"]) == (SEED.id, child.id, FIRST)
    assert (event["accepted"], event["wins"], event["losses"], event["ties"]) == (True, 1, 0, 1)
    assert child.parent == SEED.id and "rewritten" in child.why


async def test_a_task_whose_solution_the_child_is_shown_does_not_count_for_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def show(components: Any, material: Material, means: Any) -> Proposal:
        failing = material.failing[0].id
        return Proposal(FIRST, "Open the microwave before you heat.", "shows it", shown=failing)

    monkeypatch.setattr(adapter_room, "propose", show)
    here = shop(run)
    assert not await off(here, lambda: one_round(here, run))
    (event,) = candidates(run)
    assert (event["wins"], event["losses"], event["ties"]) == (0, 0, 1)


async def test_wm_05_a_worse_child_is_not_adopted(run: Run) -> None:
    def worsened(request: Request) -> str:
        if request.module == "reflect":
            return '{"text": "Be silent."}'
        if request.module == "act" and "Be silent." in request.messages[0].content:
            return '{"action": "look"}'
        return rule(request)

    here = shop(run, worsened)
    assert not await off(here, lambda: one_round(here, run))
    assert here.pool.entered == [SEED] and here.accepted is None
    (event,) = candidates(run)
    assert not event["accepted"] and event["losses"] == 1 and event["child"] is not None


async def test_wm_05_a_cut_off_proposal_leaves_the_round_without_a_child(run: Run) -> None:
    def cut(request: Request) -> Any:
        from roleagent_lite.types import Reply

        return Reply('{"text": "Open the', finish="length") if request.module == "reflect" else rule(request)

    here = shop(run, cut)
    assert not await off(here, lambda: one_round(here, run))
    (event,) = candidates(run)
    assert event["key"] == "candidate/1/none" and event["child"] is None
    assert "output cut at max tokens" in event["reason"]


async def test_a_proposal_gets_what_retrieval_chose_and_the_solved_episodes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Material] = []

    async def keep(components: Any, material: Material, means: Any) -> Proposal:
        seen.append(material)
        return Proposal(components[0], None, "kept")

    monkeypatch.setattr(adapter_room, "propose", keep)
    here = shop(run)
    here.world.related = ("train-heat-cup",)
    await off(here, lambda: one_round(here, run))
    (material,) = seen
    assert material.related == ("train-heat-cup",)
    assert [task.id for task in material.failing] == [batch(run)[0].id]
    assert {demo.task.id for demo in material.candidates} == {batch(run)[1].id}


async def test_a_prompt_set_that_is_in_the_pool_is_not_played_again(run: Run) -> None:
    here = shop(run)
    await off(here, lambda: one_round(here, run))
    here.clock.round = 2
    again = await here.bridge.run(lambda: one_round(here, run))
    assert not again
    assert candidates(run)[1]["reason"] == "this prompt set is in the pool"


async def test_the_end_of_a_round_turns_the_curriculum_and_stops_after_the_last(run: Run) -> None:
    here = shop(run)
    here.clock.round = 0
    end = RoundEnd(here, 2)
    assert not await off(here, lambda: end(None))
    assert "curriculum/0" not in run.events
    here.clock.round = 1
    await off(here, lambda: one_round(here, run))
    assert not await off(here, lambda: end(None))
    assert "curriculum/1" in run.events
    assert (here.parent, here.accepted, here.proposal) == (None, None, None)
    here.clock.round = 2
    solved = batch(run)[1:]
    await off(here, lambda: Adapter(here).evaluate(solved, here.pool.candidate(SEED)))
    assert await off(here, lambda: end(None))
    assert candidates(run)[-1]["reason"] == "no failures to learn from: every attempt was solved"


async def test_the_end_of_a_round_raises_what_gepa_swallowed(run: Run) -> None:
    here = shop(run)
    here.bridge.error = BudgetStop("cap")
    with pytest.raises(BudgetStop, match="cap"):
        RoundEnd(here, 2)(None)


def test_gepas_log_goes_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    Silence().log("a proposed text")
    assert capsys.readouterr() == ("", "")
