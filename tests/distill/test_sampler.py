"""sampler: the curriculum as indices of rows, by the house's own curriculum and by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.aiw.curriculum import Curriculum
from roleagent_lite.distill.sampler import CurriculumSampler, Learning, for_trl
from roleagent_lite.distill.worlds import worlds
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.types import Diagnosis, Task
from tests import toy
from tests.distill import make


def tasks(n: int = 6, families: int = 2) -> list[Task]:
    return [Task(f"t{k}", "tests.toy:Toy", "", params={"type": f"kind{k % families}"}) for k in range(n)]


def counts(sampler: CurriculumSampler) -> dict[str, float]:
    return {id: c for id, c in zip(sampler.curriculum.task_ids, sampler.curriculum.counts, strict=True) if c}


def test_rounds_of_distinct_tasks_each_repeated_and_the_whole_again() -> None:
    sampler = CurriculumSampler(tasks(), batch=2, repeat=3, passes=2, seed=5)
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == 3 * 2 * 3 * 2
    curriculum = Curriculum.start([t.id for t in tasks()], 0.3, 0.9, 5)
    for k in range(3):
        own = drawn[k * 12 : k * 12 + 12]
        first, second = (int(id[1:]) for id in curriculum.draw(2, k + 1))
        assert own == [first] * 3 + [second] * 3 + [first] * 3 + [second] * 3 and first != second
    assert list(sampler) != drawn, "the next iteration draws anew"
    assert list(CurriculumSampler(tasks(), batch=2, repeat=3, passes=2, seed=5)) == drawn


def test_a_batch_may_be_larger_than_the_tasks_are_many() -> None:
    drawn = list(CurriculumSampler(tasks(2), batch=5, rounds=4))
    assert len(drawn) == 20 and Counter(drawn).keys() == {0, 1}
    assert all(set(drawn[k : k + 2]) == {0, 1} for k in (0, 5, 10, 15))


def test_of_a_tasks_rows_one_is_drawn() -> None:
    rows = ["t0", "t1", "t0", "t1", "t1"]
    drawn = list(CurriculumSampler(tasks(2), rows, batch=2, repeat=2, rounds=60))
    seen = Counter(drawn)
    assert set(seen) == set(range(5)) and len(drawn) == 240
    assert seen[0] + seen[2] == seen[1] + seen[3] + seen[4] == 120
    for k in range(0, 240, 4):
        assert drawn[k] == drawn[k + 1] and {rows[drawn[k]], rows[drawn[k + 2]]} == {"t0", "t1"}


def test_what_failed_counts_and_so_does_its_family() -> None:
    """6 tasks of 2 families: t0 fails once of twice, t1 is solved; t2 and t4 are of t0's family."""
    sampler = CurriculumSampler(tasks(), batch=2)
    sampler.learn(["t0", "t0", "t1"], [True, False, True])
    assert counts(sampler) == {"t0": 1.0, "t2": 1.0, "t4": 1.0}
    sampler.learn(["t2", "t2"], [True, True])
    assert counts(sampler) == pytest.approx({"t0": 0.9, "t2": 0.45, "t4": 0.9})
    p = sampler.curriculum.probabilities()
    assert p["t0"] > p["t2"] > p["t1"] == p["t3"]
    drawn = Counter(next(iter(CurriculumSampler(tasks(), batch=1, seed=s))) for s in range(40))
    assert len(drawn) == 6


def test_a_failures_mode_leads_to_where_it_was_seen() -> None:
    known = {"navigation_loop": ["t0", "t3", "gone"], "wrong_receptacle": ["t5"]}
    sampler = CurriculumSampler(tasks(), batch=2, modes=known)
    sampler.learn(["t0"], [False])
    assert counts(sampler) == {"t0": 1.0, "t3": 1.0}, "t3 is of another family"
    told = CurriculumSampler(tasks(), batch=2, modes=known)
    told.learn(["t0", "t1"], [False, False], ["wrong_receptacle", None])
    assert counts(told) == {"t0": 1.0, "t1": 1.0, "t3": 1.0, "t5": 2.0}
    told.learn(["t2"], [False], ["wrong_receptacle"])
    assert counts(told)["t0"] == pytest.approx(1.9), "seen on t0 in the round before"


def test_a_run_of_evolve_is_gone_on_from(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r", aiw={"rho": 0.5, "decay": 0.5}, seed=9)
    for task in tasks():
        run.tasks.put(task)
    for id, mode in (("t0", "navigation_loop"), ("t3", "navigation_loop"), ("t5", "other")):
        failed = make.episode(run, id, 0, False)
        run.diagnoses.put(Diagnosis(failed.id, mode, "", 1, "", ""))
    for k, found in ((2, {"t1": 2.0, "gone": 1.0}), (1, {"t4": 1.0})):
        run.record(f"curriculum/{k}", "curriculum", {"round": k, "counts": found})
    sampler = CurriculumSampler.of(run, tasks(), batch=2, repeat=4)
    assert counts(sampler) == {"t1": 2.0} and sampler.repeat == 4
    assert (sampler.curriculum.rho, sampler.curriculum.decay, sampler.curriculum.seed) == (0.5, 0.5, 9)
    sampler.learn(["t0"], [False])
    assert counts(sampler) == {"t0": 1.0, "t1": 1.0, "t3": 1.0}
    fresh = make.new_run(tmp_path / "s")
    assert counts(CurriculumSampler.of(fresh, tasks(), batch=2)) == {}


def test_a_state_goes_on_as_if_nothing_had_been_between() -> None:
    one, other = (CurriculumSampler(tasks(), batch=2, rounds=2) for _ in range(2))
    list(one)
    one.learn(["t0", "t1"], [False, False], ["navigation_loop", None])
    other.load_state_dict(one.state_dict())
    assert list(one) == list(other)
    for sampler in (one, other):
        sampler.learn(["t5"], [False], ["navigation_loop"])
    assert counts(one) == counts(other) and one.state_dict() == other.state_dict()


def test_a_reward_function_teaches_it() -> None:
    sampler = CurriculumSampler(tasks(4), batch=2)

    def fixed(prompts: Any, completions: Any, *, task: Any, **row: Any) -> list[float | None]:
        return [1.0, 0.5, 0.0, None]

    taught = Learning(fixed, sampler)
    assert taught.__name__ == "fixed"
    assert taught([], [], task=["t0", "t0", "t1", "t2"], extra=[1]) == [1.0, 0.5, 0.0, None]
    assert counts(sampler) == {"t1": 1.0, "t3": 1.0}
    own = [worlds([toy.task("t0")])() for _ in range(2)]
    for world, moves in zip(own, (["take key", "open door"], ["look around"]), strict=True):
        world.reset(task="t0")
        for move in moves:
            world.act(move)
    taught.reward = lambda *_, **__: [0.5, -0.5]
    taught([], [], task=["t2", "t0"], environments=own)
    assert counts(sampler)["t0"] == 1.0, "solved is what the world says"
    taught.reward = lambda *_, **__: [None]
    taught([], [], task=["t2"])
    assert sampler.learned == 2, "a batch that says nothing is no round"


def test_torch_takes_it_as_it_is() -> None:
    data = pytest.importorskip("torch.utils.data", reason="needs the distill extra", exc_type=ImportError)
    sampler = CurriculumSampler(tasks(4), batch=2, repeat=2)
    loader = data.DataLoader([t.id for t in tasks(4)], sampler=sampler, batch_size=4)
    batches = list(loader)
    assert len(batches) == len(loader) == 2
    assert all(b[0] == b[1] and b[2] == b[3] and b[0] != b[2] for b in batches)


def test_numbers_of_a_trl_config() -> None:
    class Arguments:
        generation_batch_size, num_generations, num_iterations, steps_per_generation = 32, 8, 2, 4

    assert for_trl(Arguments()) == {"batch": 4, "repeat": 8, "passes": 8}


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(RoleAgentError, match="whole numbers from 1 on"):
        CurriculumSampler(tasks(), batch=0)
    with pytest.raises(RoleAgentError, match="no row is of the task 't2'"):
        CurriculumSampler(tasks(3), ["t0", "t1"], batch=1)
    with pytest.raises(RoleAgentError, match="'q', which is unknown"):
        CurriculumSampler(tasks(1), ["q"], batch=1)
    with pytest.raises(RoleAgentError, match="'q', which is unknown"):
        CurriculumSampler(tasks(1), batch=1).learn(["q"], [True])
    with pytest.raises(RoleAgentError, match="not of split train"):
        CurriculumSampler([Task("x", "tests.toy:Toy", "", split="dev")], batch=1)
