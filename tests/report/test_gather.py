"""Counts: what enters a mean, what is left out, what is told apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from roleagent_lite.report.gather import gather, share
from roleagent_lite.store import Event
from roleagent_lite.tasksets import family_of
from roleagent_lite.types import Outcome, Task, Usage
from tests.report import make


def test_success_counts_scored_episodes_and_shows_errors_apart(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        tasks = [make.task(i) for i in range(5)]
        ends = [make.SOLVED, make.SOLVED, make.LOST, make.BROKEN, Outcome("cut_off", "filtered")]
        make.play(
            run, *(make.episode(t, make.SEED, e) for t, e in zip(tasks, ends, strict=True)), tasks=tasks
        )
        tally = gather(run).tallies[(make.SEED.id, "test")]
    assert (tally.success.k, tally.success.n, tally.errors) == (2, 4, 1)
    assert (tally.with_errors.k, tally.with_errors.n) == (2, 5)
    assert tally.success.low is not None and tally.success.high is not None
    assert tally.success.low < 0.5 < tally.success.high


def test_dev_episode_played_again_counts_once_but_every_training_episode_counts(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        dev, train = make.task(1, "dev"), make.task(1, "train")
        make.play(
            run, make.episode(dev, make.SEED, round=0), make.episode(dev, make.SEED, make.LOST, round=2)
        )
        make.play(
            run, make.episode(train, make.SEED, round=1), make.episode(train, make.SEED, make.LOST, round=2)
        )
        facts = gather(run)
    assert facts.tallies[(make.SEED.id, "dev")].success.n == 1
    assert facts.tallies[(make.SEED.id, "train")].success.n == 2
    assert {r: t[make.SEED.id].success.k for r, t in facts.train_rounds.items()} == {1: 1, 2: 0}


def test_micro_and_macro_differ_where_types_differ_in_size(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        tasks = [make.task(i, kind="put") for i in range(3)] + [make.task(9, kind="heat")]
        make.play(run, *(make.episode(t, make.SEED) for t in tasks[:3]), tasks=tasks)
        make.play(run, make.episode(tasks[3], make.SEED, make.LOST))
        facts = gather(run)
    tally = facts.tallies[(make.SEED.id, "test")]
    assert tally.success.mean == pytest.approx(0.75)
    assert tally.macro(facts.task_types) == pytest.approx(0.5)
    assert {k: (s.k, s.n) for k, s in tally.by_type(facts.task_types).items()} == {
        "put": (3, 3),
        "heat": (0, 1),
    }


def test_moves_count_invalid_actions_and_missing_predictions(tmp_path: Path) -> None:
    steps = [make.step(), make.step(valid=False), make.step(foretold=None), make.step(foretold="  ")]
    with make.new_run(tmp_path / "r") as run:
        make.play(run, make.episode(make.task(1), make.SEED, steps=steps))
        moves = gather(run).moves["test"]
    assert (moves.steps, moves.invalid, moves.without_prediction) == (4, 1, 2)


def test_acc_01_unknown_usage_is_never_a_zero(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        run.calls.put(make.call(1))
        run.calls.put(make.call(2, usage=Usage()))
        run.calls.put(make.call(3, "world", Usage(input=5, output=None, dollars=0.0)))
        agent, world = gather(run).spend
    assert (agent.role, agent.calls, agent.input, agent.unknown_tokens, agent.unknown_dollars) == (
        "agent",
        2,
        100,
        1,
        1,
    )
    assert agent.dollars == pytest.approx(0.001)
    assert (world.input, world.unknown_tokens, world.unknown_dollars) == (5, 1, 0)


def test_evl_01_dollars_do_not_depend_on_the_order_in_which_replies_came(tmp_path: Path) -> None:
    costs = [0.1, 0.2, 0.3]
    found = []
    for name, order in (("one", costs), ("eight", costs[::-1])):
        with make.new_run(tmp_path / name) as run:
            for number, cost in enumerate(order):
                run.calls.put(make.call(number, usage=Usage(1, 1, 0, 0, cost)))
            found.append(gather(run).spend[0].dollars)
    assert sum(costs) != sum(costs[::-1]), "floats do"
    assert found[0] == found[1] == 0.6


def test_lost_and_failed_requests_are_told_apart(tmp_path: Path) -> None:
    who = {"role": "agent", "model": "toy-model"}
    with make.new_run(tmp_path / "r") as run:
        run.calls.put(make.call(1))
        for event in (Event("c1", "call", who), Event("x", "call", who), Event("y", "call", who)):
            run.dispatched.put(event)
        run.dispatched.put(Event("y!", "failed", {**who, "error": "TransientModelError"}))
        run.record("note/t", "note", {"text": "temperature was not applied"})
        facts = gather(run)
    (spend,) = facts.spend
    assert (spend.calls, spend.lost, spend.failed) == (2, 1, 1)  # x was in flight when the process ended
    assert facts.notes == ["temperature was not applied"]


def test_modes_are_counted_by_the_round_of_their_episode(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        facts = gather(run)
    assert {r: dict(c) for r, c in facts.modes.items()} == {
        1: {"navigation_loop": 2},
        2: {"navigation_loop": 2},
    }
    assert [r["round"] for r in facts.rounds] == [1, 2]
    assert facts.finished and facts.final["best"] == make.CHILD.id


def test_arms_are_told_apart(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        one = make.task(1, "train")
        make.play(
            run,
            make.episode(one, make.SEED, arm="none"),
            make.episode(one, make.SEED, rollout=1, arm="memory"),
        )
        assert {a: t.success.n for a, t in gather(run).arms.items()} == {"none": 1, "memory": 1}


def test_the_last_line_of_an_error_is_kept(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        trace = "Traceback (most recent call last):\n  File x\nValueError: the lamp broke"
        make.play(run, make.episode(make.task(1), make.SEED, make.BROKEN, error=trace))
        assert gather(run).errors == ["1/seed0000/test1#0: ValueError: the lamp broke"]


def test_evl_01_the_first_errors_are_the_same_whatever_ended_first(tmp_path: Path) -> None:
    found = []
    for name, order in (("one", range(8)), ("eight", reversed(range(8)))):
        with make.new_run(tmp_path / name) as run:
            for i in order:
                one = make.episode(make.task(i), make.SEED, make.BROKEN, round=1 + i % 2, error=f"fault {i}")
                make.play(run, one)
            found.append([line.split()[-1] for line in gather(run).errors])
    assert found[0] == found[1] == ["0", "2", "4", "6", "1"], "by round, then by name"


def test_share_without_n_is_unknown_and_out_of_range_is_refused() -> None:
    assert share(0, 0).mean is None
    assert [share(7, 10).low, share(7, 10).high] == pytest.approx([0.397, 0.892], abs=1e-3)
    with pytest.raises(ValueError):
        share(3, 2)


def test_type_falls_back_to_the_environment() -> None:
    assert family_of(Task("a", "toy", "g")) == "toy"
    assert family_of(Task("a", "household", "g", params={"type": "heat"})) == "heat"


def test_an_empty_run_is_no_error(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        facts = gather(run)
    assert not facts.finished and facts.tallies == {} and facts.spend == []


def test_acc_03_episodes_that_a_stop_cut_short_are_named_and_not_scored(tmp_path: Path) -> None:
    begun = f"1/{'ab' * 4}/a task/with #2 in it#0"
    for finished in (False, True):
        with make.whole_run(tmp_path / str(finished), finished=finished) as run:
            for n, sample in enumerate((begun, f"{begun}/plan", "score", "~1"), 50):
                run.calls.put(replace(make.call(n), request=replace(make.call(n).request, sample=sample)))
            facts = gather(run)
        assert facts.in_progress == ([] if finished else [begun])
