"""Demonstrations: which solved episode fits a failure, how it reads, and what a swap keeps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.agents.show import log
from roleagent_lite.evolve.demos import MOST, Demo, demo, fit, likeness, rank, render, swap, words
from roleagent_lite.types import Observation, View
from tests.evolve.make import credit, episode, step, task


def solved(id: str, goal: str, alignment: float | None = None, steps: int = 2) -> Demo:
    of = task(id, goal)
    return Demo(of, episode(of, steps=[step(f"move {n}", f"saw {n}") for n in range(steps)]), alignment)


FAILING = [task("f1", "put a hot mug on desk 1")]


def test_alignment_is_the_mean_over_known_predictions() -> None:
    of = task()
    trajectory = episode(of, steps=[step(), step(), step()])
    assert demo(of, trajectory, credit(trajectory, [0.2, None, 0.6])).alignment == 0.4
    assert demo(of, trajectory, None).alignment is None


def test_what_is_held_of_a_solved_episode_reads_the_same_and_is_small() -> None:
    of = task()
    whole = episode(of, steps=[step(f"move {n}", f"saw {n}") for n in range(3)])
    held = demo(of, whole, None)
    assert render(held) == render(Demo(of, whole, None))
    assert rank([held], [of]) == [held] and held.trajectory.id == whole.id
    assert not any(
        s.admissible or s.observation or s.said or s.thought or s.predictions for s in held.trajectory.steps
    )


def test_numbers_do_not_tell_goals_apart() -> None:
    assert words("Put a Mug 2 in desk 1") == {"put", "a", "mug", "in", "desk"}
    assert likeness("put mug 1 on desk 2", "put mug 3 on desk 4") == 1.0
    assert likeness("", "") == 0.0
    assert fit(solved("a", "g"), [], []) == 0.0


def test_fit_prefers_the_failing_task_then_what_retrieval_chose_then_like_goals() -> None:
    same, related = solved("f1", "x"), solved("r1", "look at a book")
    like, other = solved("l1", "put a hot pan on desk 2"), solved("o1", "look at a book")
    fits = [fit(d, FAILING, ["r1"]) for d in (same, related, like, other)]
    assert fits[0] == 1.0 and fits[1] == 0.9
    assert fits[1] > fits[2] > fits[3]


def test_among_equal_fits_the_well_predicted_then_the_short_comes_first() -> None:
    vague, sharp = solved("a", "put a hot mug on desk 1", 0.2), solved("b", "put a hot mug on desk 1", 0.9)
    assert [d.task.id for d in rank([vague, sharp], FAILING)] == ["b", "a"]
    long, short = solved("a", "g", 0.5, steps=5), solved("b", "g", 0.5, steps=2)
    assert [d.task.id for d in rank([long, short], FAILING)] == ["b", "a"]


def test_without_predictions_an_episode_counts_as_half_foreseen() -> None:
    low, silent, high = solved("a", "g", 0.4), solved("b", "g", None), solved("c", "g", 0.6)
    assert [d.task.id for d in rank([low, silent, high], FAILING)] == ["c", "b", "a"]


def test_foresight_weighs_half_as_much_as_fit() -> None:
    like, sharp = solved("f1", "other words", 0.0), solved("r1", "other words", 0.1)
    assert [d.task.id for d in rank([like, sharp], FAILING, ["r1"])] == ["f1", "r1"]
    sharper = solved("r1", "other words", 0.3)
    assert [d.task.id for d in rank([like, sharper], FAILING, ["r1"])] == ["r1", "f1"]


def test_one_episode_a_task() -> None:
    assert len(rank([solved("a", "g", 0.1), solved("a", "g", 0.9)], FAILING)) == 1


def test_invalid_moves_are_not_shown() -> None:
    of = task(goal="put a mug away")
    trajectory = episode(
        of, steps=[step("fly", "Nothing happens.", valid=False), step("take mug", "You take it.")]
    )
    assert render(Demo(of, trajectory, None)) == "Goal: put a mug away\n> take mug\nYou take it."


def test_swap_puts_the_new_one_first_and_keeps_the_old_as_room_allows() -> None:
    first = swap("", [solved("a", "one")], 500)
    assert first is not None
    second = swap(first[0], [solved("a", "one"), solved("b", "two")], 500)
    assert second is not None
    text, chosen = second
    assert chosen.task.id == "b"
    assert text.index("two") < text.index("one")
    tight = swap(first[0], [solved("b", "two")], len(first[0]) + 5)
    assert tight is not None and "one" not in tight[0]


def test_no_new_or_no_short_episode_changes_nothing() -> None:
    only = solved("a", "one")
    assert swap(render(only), [only], 500) is None
    assert swap("", [only], 10) is None
    assert swap("", [], 500) is None


@given(st.lists(st.text("abc ", min_size=1, max_size=40), max_size=12), st.integers(50, 400))
def test_a_swap_never_exceeds_its_bounds(goals: list[str], max_chars: int) -> None:
    text = ""
    for n, goal in enumerate(goals):
        made = swap(text, [solved(f"t{n}", goal)], max_chars)
        if made is not None:
            text = made[0]
        assert len(text) <= max_chars
        assert text.count("Goal: ") <= MOST


def test_an_episode_reads_as_the_log_that_agents_write() -> None:
    """A model that continues a log must find in a demonstration what it has in front of it."""
    of = task(goal="put a mug away")
    steps = (step("take mug", "You take it."), step("put mug", "It is away."))
    view = View(of, Observation("It is away."), steps, 3, 8, 1, 0.0, "s")
    first_sight, _, moves = log(view).partition("\n")
    assert first_sight and moves.startswith("> take mug")
    assert render(Demo(of, episode(of, steps=steps), None)) == f"Goal: {of.goal}\n{moves}"
