"""Comparisons: counts that mirror, no winner in the noise, warnings of what is unequal, episodes named."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from roleagent_lite.errors import ConfigError
from roleagent_lite.evals import compare
from roleagent_lite.evals.compare import compare_sides
from roleagent_lite.evals.sides import sides_of
from roleagent_lite.store import Run
from roleagent_lite.types import Outcome, Task
from tests.evals.make import BROKEN, LOST, SOLVED, Told, told


def first(n: int) -> Callable[[Task, int], Outcome]:
    """Solves the first n tasks."""
    return lambda task, rollout: SOLVED if int(task.id[1:]) < n else LOST


def coin(seed: str, chance: float = 0.5) -> Callable[[Task, int], Outcome]:
    return lambda t, r: SOLVED if random.Random(f"{seed}/{t.id}/{r}").random() < chance else LOST


def test_evl_02_one_win_one_loss_and_98_ties_are_a_half(tmp_path: Path) -> None:
    def but(task: str, other: str) -> Callable[[Task, int], Outcome]:
        return lambda t, r: (
            SOLVED if t.id == task or (t.id not in (task, other) and int(t.id[1:]) % 2) else LOST
        )

    told(tmp_path, "r", Told("a", but("t1", "t2")), Told("b", but("t2", "t1")), n=100)
    there, back = (compare(*names, runs=tmp_path).pairs[0] for names in (("r:a", "r:b"), ("r:b", "r:a")))
    assert there.success is not None and back.success is not None
    assert (there.success.wins, there.success.losses, there.success.ties) == (1, 1, 98)
    assert there.success.win_rate == back.success.win_rate == 0.5
    assert "1 won, 1 lost, 98 tied (50 % with ties as half)" in there.words
    assert (there.success.difference, there.success.low) == (
        -back.success.difference,
        -(back.success.high or 0),
    )
    assert [d.task for d in there.gained] == [d.task for d in back.lost] == ["t2"]


def test_evl_02_scores_that_are_equal_but_for_rounding_tie(tmp_path: Path) -> None:
    told(tmp_path, "r", Told("a", first(0), score=0.1 + 0.2), Told("b", first(0), score=0.3))
    (pair,) = compare("r", runs=tmp_path).pairs
    assert pair.score is not None and (pair.score.wins, pair.score.losses, pair.score.ties) == (0, 0, 6)


def test_evl_01_two_runs_of_a_server_that_is_never_the_same_are_within_noise(tmp_path: Path) -> None:
    told(tmp_path, "one", Told("prompt", coin("x")), n=40)
    told(tmp_path, "two", Told("prompt", coin("y")), n=40)
    found = compare("one", "two", runs=tmp_path)
    means = [one.rate.mean for one in found.summaries]
    assert means[0] != means[1], "they do differ"
    (pair,) = found.pairs
    assert "within noise" in pair.words and "more than noise" not in pair.words
    assert any("the same system (prompt) in 2 runs" in text for text in found.spread)


def test_a_clear_difference_names_the_better_one(tmp_path: Path) -> None:
    told(tmp_path, "r", Told("a", first(2)), Told("b", first(11)), n=12)
    (pair,) = compare("r", runs=tmp_path).pairs
    assert "That is more than noise" in pair.words and "r:b solved more tasks than r:a" in pair.words
    assert pair.p == pytest.approx(2 / 2**9)


def test_several_systems_are_corrected_for(tmp_path: Path) -> None:
    told(tmp_path, "r", Told("a", first(2)), Told("b", first(8)), Told("c", first(2)), n=12)
    pairs = {(p.first, p.second): p for p in compare("r", runs=tmp_path).pairs}
    ab = pairs["r:a", "r:b"]
    assert (
        ab.success is not None and ab.success.p == pytest.approx(2 / 2**6) and ab.p == pytest.approx(6 / 2**6)
    )
    assert not ab.success.within_noise() and ab.success.within_noise(ab.p)
    assert "within noise (two-sided p, corrected, = 0.09)" in ab.words and "3 comparisons (Holm)" in ab.words


def test_where_they_differ_both_episodes_are_named(tmp_path: Path) -> None:
    told(tmp_path, "r", Told("a", first(1)), Told("b", first(3)))
    (pair,) = compare("r", runs=tmp_path).pairs
    assert [(d.task, d.first, d.second) for d in pair.gained] == [("t1", 0.0, 1.0), ("t2", 0.0, 1.0)]
    assert pair.lost == () and pair.gained[0].goal == "Get out, 1."
    with Run.open(tmp_path / "r") as run:
        one, two = (
            run.trajectories.get(id)
            for id in (pair.gained[0].first_trajectory, pair.gained[0].second_trajectory)
        )
    assert (
        one is not None and two is not None and not one.solved and two.solved and one.task == two.task == "t1"
    )


def test_with_repetitions_the_episode_shown_is_one_that_shows_it(tmp_path: Path) -> None:
    def last(task: Task, rollout: int) -> Outcome:
        return SOLVED if rollout == 2 else LOST

    told(tmp_path, "r", Told("a", first(0)), Told("b", last), repetitions=3, temperature=0.9)
    found = compare("r", runs=tmp_path)
    assert found.pairs[0].gained[0].second == pytest.approx(1 / 3)
    assert found.pairs[0].gained[0].second_trajectory.endswith("#2")
    assert found.pairs[0].success is not None and found.pairs[0].success.test == "sign-flip permutation"
    assert any("over 3 repetitions" in text for text in found.spread)


def test_errors_are_no_pair_and_all_errors_say_nothing(tmp_path: Path) -> None:
    def broken(task: Task, rollout: int) -> Outcome:
        return BROKEN if task.id == "t0" else SOLVED

    told(tmp_path, "r", Told("a", broken), Told("b", first(6)), Told("c", lambda t, r: BROKEN))
    pairs = {(p.first, p.second): p for p in compare("r", runs=tmp_path).pairs}
    ab = pairs["r:a", "r:b"].success
    assert ab is not None and ab.n == 5
    nothing = pairs["r:a", "r:c"]
    assert nothing.success is None and "nothing can be said" in nothing.words and nothing.p is None


def test_unequal_conditions_are_warned_of(tmp_path: Path) -> None:
    other = Told("b", first(3))
    other.model = "another"
    told(tmp_path, "one", Told("a", first(3)), n=6)
    told(tmp_path, "two", other, n=8, file="u.jsonl", temperature=0.5, budget="calls=3")
    found = compare("one", "two", runs=tmp_path)
    text = "\n".join(found.warnings)
    assert found.words.startswith("warning: only 6 tasks") and found.words.endswith(found.pairs[0].words)
    for words in ("only 6 tasks are common", "task files differ", "models differ: one:a told, two:b another",
                  "temperatures differ: one:a 0, two:b 0.5", "budgets differ"):  # fmt: skip
        assert words in text
    assert "step limits" not in text and len(found.tasks) == 6


def test_step_limits_that_differ_are_warned_of(tmp_path: Path) -> None:
    from dataclasses import replace

    told(tmp_path, "r", Told("a", first(3)), Told("b", first(3)))
    sides = [*sides_of("r:a", tmp_path), *sides_of("r:b", tmp_path)]
    sides[1] = replace(sides[1], limits=dict.fromkeys(sides[1].limits, 4))
    assert any(
        "step limits differ on 6 tasks (task t0: r:a 9, r:b 4)" in w for w in compare_sides(sides).warnings
    )


def test_servers_and_reply_limits_that_differ_are_warned_of(tmp_path: Path) -> None:
    from dataclasses import replace

    told(tmp_path, "r", Told("a", first(3)), Told("b", first(3)))
    sides = [*sides_of("r:a", tmp_path), *sides_of("r:b", tmp_path)]
    assert (sides[0].server, sides[0].max_tokens) == ("", 1024)
    sides[1] = replace(sides[1], server="http://127.0.0.1:8000/v1", max_tokens=256)
    said = compare_sides(sides).warnings
    assert "servers differ: r:a the provider's own, r:b http://127.0.0.1:8000/v1" in said
    assert "reply limits differ: r:a 1024 tokens, r:b 256 tokens" in said


def test_tasks_of_one_id_and_another_content_are_left_out(tmp_path: Path) -> None:
    told(tmp_path, "one", Told("a", first(3)))
    told(tmp_path, "two", Told("b", first(3)), file="u.jsonl", params={"goal": "Leave, {}."})
    with pytest.raises(ConfigError, match="no task is common to one:a, two:b"):
        compare("one", "two", runs=tmp_path)


def test_equal_conditions_need_no_warning(tmp_path: Path) -> None:
    told(tmp_path, "r", Told("a", first(3)), Told("b", first(4)))
    assert compare("r", runs=tmp_path).warnings == ()


def test_too_few_or_one_and_the_same_is_refused(tmp_path: Path) -> None:
    told(tmp_path, "r", Told("a", first(3)))
    with pytest.raises(ConfigError, match="at least two systems"):
        compare("r", runs=tmp_path)
    with pytest.raises(ConfigError, match=r"'.*r:a' is named twice"):
        compare("r:a", "r", runs=tmp_path)


def test_runs_of_one_name_are_told_apart_by_their_folder(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        told(tmp_path / folder, "r", Told("a", first(3)))
    found = compare(tmp_path / "x" / "r", tmp_path / "y" / "r", runs=tmp_path)
    assert found.sides[0].name.endswith("x/r:a") and found.sides[1].name.endswith("y/r:a")


def test_evaluations_compare_as_they_are_and_give_data(tmp_path: Path) -> None:
    one = told(tmp_path, "one", Told("a", first(3)), Told("b", first(4)))
    two = told(tmp_path, "two", Told("c", first(5)))
    found = compare(one, two, runs=tmp_path)
    assert [side.name for side in found.sides] == ["one:a", "one:b", "two:c"] and len(found.pairs) == 3
    data = json.loads(json.dumps(found.as_data()))
    assert data["sides"][0]["rate"]["n"] == 6 and data["pairs"][0]["success"]["n"] == 6
    pytest.importorskip("pandas")
    frame = found.to_dataframe()
    assert len(frame) == 18 and frame[frame.name == "two:c"].solved.sum() == 5


@pytest.mark.slow
def test_evl_01_equal_systems_are_called_different_about_one_time_in_twenty(tmp_path: Path) -> None:
    """200 pairs of equal coins on 200 tasks, through the whole path but for the files."""
    told(tmp_path, "r", *(Told(f"s{i:03}", coin(f"c{i}", 0.4)) for i in range(60)), n=200)
    sides = sides_of("r", tmp_path, alone=True)
    named = 0
    for i in range(200):
        a, b = random.Random(i).sample(sides, 2)
        (pair,) = compare_sides([a, b]).pairs
        named += "That is more than noise" in pair.words
    assert 0 < named <= 16
