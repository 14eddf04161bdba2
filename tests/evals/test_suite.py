"""Suites: shipped ones fit their task sets, a changed set is named with both hashes, a wrong key by its
nearest."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite.content import room
from roleagent_lite.errors import ConfigError
from roleagent_lite.evals.suite import (
    Suite,
    TaskSource,
    adjusted,
    from_data,
    load_suite,
    parse_budget,
    suite_hash,
    suite_of,
    tasks_of,
)
from roleagent_lite.systems.make import check_name
from roleagent_lite.tasksets import family_of, file_hash
from roleagent_lite.types import TaskBudget
from tests.evals.make import toy_file

SHIPPED = sorted(path.stem for path in room("evals").glob("*.toml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_suite_fits_its_task_sets_and_knows_its_systems(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name and suite.about and all(one.hash for one in suite.sets)
    checked, tasks = tasks_of(suite)
    assert checked == suite and len(tasks) > 0
    assert all(a.task.split == "test" for a in tasks), "sealed tasks alone"
    for system in suite.systems:
        check_name(system)


def test_the_shipped_suites_have_their_sizes() -> None:
    assert {"quick", "household-easy", "household"} <= set(SHIPPED)
    sizes = {name: len(tasks_of(load_suite(name))[1]) for name in SHIPPED}
    assert (sizes["quick"], sizes["household-easy"], sizes["household"]) == (3, 60, 162)
    assert len({family_of(a.task) for a in tasks_of(load_suite("quick"))[1]}) == 3, "each of another family"


def test_a_changed_task_set_is_named_with_both_hashes(tmp_path: Path) -> None:
    tasks = toy_file(tmp_path / "t.jsonl")
    before = file_hash(tasks)
    suite = Suite("mine", (TaskSource(tasks, hash=before),))
    assert tasks_of(suite)[0] == suite
    toy_file(tmp_path / "t.jsonl", goal="Leave, {}.")
    with pytest.raises(ConfigError, match=rf"'mine': task set .*{before} then, {file_hash(tasks)} now"):
        tasks_of(suite)


def test_without_a_hash_it_is_filled_in(tmp_path: Path) -> None:
    tasks = toy_file(tmp_path / "t.jsonl")
    suite, assigned = tasks_of(suite_of(tasks, limit=4))
    assert suite.name == "t" and suite.sets[0].hash == file_hash(tasks) == suite_hash(suite)
    assert len(assigned) == 4 and assigned[0].max_steps == 0


def test_a_suite_file_finds_its_tasks_beside_it_and_limits_their_steps(tmp_path: Path) -> None:
    toy_file(tmp_path / "t.jsonl")
    (tmp_path / "mine.toml").write_text(
        'about = "x"\nrepetitions = 2\nseeds = [1, 2, 3]\ntemperature = 0.9\nsystems = ["random"]\n'
        '[budget]\nrule = "calls"\namount = 12\n[[sets]]\ntasks = "t.jsonl"\nmax_steps = 3\n'
    )
    suite = load_suite(tmp_path / "mine.toml")
    assert (suite.name, suite.rollouts, suite.budget.words) == ("mine", 6, "12 calls a task")
    _, assigned = tasks_of(suite)
    assert [a.max_steps for a in assigned] == [3] * 6
    assert from_data(suite.as_data()) == suite


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = [", "not valid TOML"),
        ('[[sets]]\ntasks = "t"\nsplt = "dev"', r"unknown key 'sets\.0\.splt'; did you mean 'split'"),
        ('repetition = 2\n[[sets]]\ntasks = "t"', "unknown key 'repetition'; did you mean 'repetitions'"),
        (
            '[budget]\nruel = "calls"\n[[sets]]\ntasks = "t"',
            r"unknown key 'budget\.ruel'; did you mean 'rule'",
        ),
        ("about = 'x'", "the key 'sets' is missing"),
        ('temperature = -1\n[[sets]]\ntasks = "t"', "'temperature' is -1"),
        ('[budget]\nrule = "calls"\n[[sets]]\ntasks = "t"', "give an amount with calls or dollars"),
        ('[budget]\namount = 3\n[[sets]]\ntasks = "t"', "none with unlimited"),
        ('systems = ["a", "a"]\n[[sets]]\ntasks = "t"', "systems names a twice"),
        ('seeds = [1, 1]\n[[sets]]\ntasks = "t"', "seeds names 1 twice"),
    ],
)
def test_what_is_wrong_in_a_suite_is_named(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words) as fault:
        load_suite(file)
    assert str(file) in str(fault.value)


def test_an_unknown_suite_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'quick'"):
        load_suite("quik")


def test_tasks_that_clash_or_lack_are_refused(tmp_path: Path) -> None:
    one, two = toy_file(tmp_path / "a.jsonl"), toy_file(tmp_path / "b.jsonl")
    with pytest.raises(ConfigError, match=r"both hold a task 't0'"):
        tasks_of(Suite("s", (TaskSource(one), TaskSource(two))))
    with pytest.raises(ConfigError, match="no tasks of split 'dev'"):
        tasks_of(Suite("s", (TaskSource(one, "dev"),)))


def test_flags_change_a_suite_and_nothing_else(tmp_path: Path) -> None:
    suite = suite_of(toy_file(tmp_path / "t.jsonl"))
    new = adjusted(
        suite, systems=["oracle"], repetitions=3, temperature=0.9, budget="calls=4", limit=2, seeds=[7]
    )
    assert (new.systems, new.rollouts, new.temperature, new.seeds) == (("oracle",), 3, 0.9, (7,))
    assert new.budget == TaskBudget("calls", 4) and new.sets[0].limit == 2 and new.name == suite.name
    assert adjusted(suite) == suite
    with pytest.raises(ConfigError, match="'repetitions' is 0"):
        adjusted(suite, repetitions=0)


def test_budgets_are_read_or_refused() -> None:
    assert parse_budget("unlimited") == TaskBudget()
    assert parse_budget("calls=30") == TaskBudget("calls", 30)
    assert parse_budget("dollars=0.05").words == "0.05 dollars a task"
    for wrong in (
        "calls",
        "calls=",
        "calls=0",
        "calls=1.5",
        "calls=nan",
        "dollars=-1",
        "tokens=3",
        "unlimited=1",
    ):
        with pytest.raises(ConfigError, match="--budget takes unlimited, calls=N or dollars=X"):
            parse_budget(wrong)
