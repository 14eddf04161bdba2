"""rehearsal: the heaviest pass is made once before training, measured, and refused with the way down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

from roleagent_lite.distill import rehearsal
from roleagent_lite.distill import size as sizes
from roleagent_lite.distill.plan import Size
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.rehearsal import GIB, DoesNotFit, heaviest, rehearse
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.errors import ConfigError
from tests.distill import local

CHOICES = ("take key", "open door and look around", "say hello.")
BIG = Size(layers=28, hidden=1024, feed_forward=3072, heads=16, kv_heads=8, head_size=128,
           vocabulary=151936, tied=True)  # fmt: skip


def choosing() -> list[Tokens]:
    return local.rows(["take key", "say hello."] * 3, choices=CHOICES, penalties=(0.0,) * 3)


def room(monkeypatch: pytest.MonkeyPatch, count: float, size: Size = BIG) -> None:
    monkeypatch.setattr(sizes, "memory", lambda recipe: (int(count), "the card X", True))
    monkeypatch.setattr(sizes, "size_of", lambda model: size)


def measured(monkeypatch: pytest.MonkeyPatch, found: Any) -> list[Any]:
    """`found` in place of what would be measured; the passes that were asked for."""
    asked: list[Any] = []

    def instead(policy: Policy, pass_: Any) -> tuple[float, int]:
        asked.append(pass_)
        if isinstance(found, Exception):
            raise found
        return 2.0, int(found)

    monkeypatch.setattr(rehearsal, "_measured", instead)
    return asked


def refused(recipe: Recipe, by_choice: bool = False) -> DoesNotFit:
    made = local.policy(local.recipe())
    with pytest.raises(DoesNotFit) as error:
        rehearse(made, choosing() if by_choice else local.rows(), recipe, by_choice)
    return error.value


# --- which pass ---------------------------------------------------------------------------------------


def test_the_longest_samples_make_the_heaviest_pass() -> None:
    rows, recipe = local.rows(), local.recipe()
    found = heaviest(rows, recipe, by_choice=False)
    longest = max(len(t.ids) for t in rows)
    assert (found.rows, found.tokens) == (2, 2 * longest)
    assert found.reply == max(len(t.ids) - t.start for t in rows)
    one = heaviest(rows[:1], recipe, by_choice=False)
    assert (one.rows, one.tokens) == (1, len(rows[0].ids))


def test_a_long_reply_behind_a_short_prompt_joins_the_longest_sample() -> None:
    """Logits are kept from the earliest reply of a batch on: together they take most."""
    rows = local.rows()
    wide = replace(rows[1], start=5)
    found = heaviest([rows[0], wide], local.recipe(), by_choice=False)
    assert found.reply == max(len(t.ids) for t in rows[:2]) - 5


def test_choices_count_with_their_prompt_once_or_each() -> None:
    rows, recipe = choosing(), local.recipe()
    most = max(rows, key=lambda t: t.start)
    packed, apart = (heaviest(rows, recipe, by_choice=True, packs=packs) for packs in (True, False))
    assert (packed.rows, packed.tokens) == (1, most.start + sum(map(len, most.choices)))
    assert (apart.rows, apart.tokens) == (3, 3 * (most.start + max(map(len, most.choices))))


# --- what is measured ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by_choice", [False, True])
def test_a_rehearsal_measures_and_leaves_all_as_it_was(by_choice: bool) -> None:
    recipe = local.recipe(adapter={"dropout": 0.5}, train={"recompute": True})
    made = local.policy(recipe)
    local.disturb(made)
    before = {name: p.detach().clone() for name, p in made.parameters.items()}
    state = torch.random.get_rng_state()
    found = rehearse(made, choosing() if by_choice else local.rows(), recipe, by_choice)
    assert all(torch.equal(before[name], p) for name, p in made.parameters.items())
    assert all(p.grad is None for p in made.parameters.values())
    assert torch.equal(state, torch.random.get_rng_state()) and not made.model.training
    assert found.seconds > 0 and found.hours > 0 and found.tokens > 0
    assert 50 << 20 < found.peak < found.room and found.planned is not None and found.planned > 0
    assert found.planned_seconds is not None and found.planned_seconds > 0
    assert f"{found.rows} x {found.tokens // found.rows} tokens" in found.words
    assert "planned)" in found.words and "forward and back" in found.words


def test_the_peak_is_that_of_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that takes 200 MiB more is seen to take them, and one before it is forgotten."""
    made, rows, recipe = local.policy(local.recipe()), local.rows(), local.recipe()
    quiet = rehearse(made, rows, recipe, False)
    plain = Policy.logps

    def hungry(self: Policy, batch: Any) -> Any:
        torch.ones(200 << 18)
        return plain(self, batch)

    monkeypatch.setattr(Policy, "logps", hungry)
    assert 150 << 20 < rehearse(made, rows, recipe, False).peak - quiet.peak < 300 << 20
    monkeypatch.setattr(Policy, "logps", plain)
    assert abs(rehearse(made, rows, recipe, False).peak - quiet.peak) < 100 << 20


def test_time_of_all_updates_goes_by_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, 1 << 30)
    made, rows = local.policy(local.recipe()), local.rows()
    every = sum(len(t.ids) for t in rows)
    for steps, passes in ((0, 2.0), (1, 0.5), (99, 2.0)):  # batches of 3 of 6 samples, 2 epochs
        found = rehearse(made, rows, local.recipe(train={"steps": steps}), False)
        assert 3600 * found.hours == pytest.approx(2.0 / found.tokens * passes * every)


def test_a_model_that_the_plan_does_not_know_is_measured_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(model: str) -> Size:
        raise ConfigError("has no 'hidden_size'")

    monkeypatch.setattr(sizes, "size_of", unknown)
    found = rehearse(local.policy(local.recipe()), local.rows(), local.recipe(), False)
    assert found.planned is None and found.planned_seconds is None and "planned" not in found.words
    monkeypatch.setattr(sizes, "memory", lambda recipe: (1, "the card X", True))
    error = refused(local.recipe())
    assert "make train.micro_batch or data.max_tokens smaller" in str(error) and error.smaller is None


# --- what does not fit --------------------------------------------------------------------------------


def test_what_cannot_fit_is_not_even_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 0.5 * GIB)
    asked = measured(monkeypatch, 0)
    error = refused(local.recipe())
    assert not asked and "does not fit the card X (0.50 GiB may be used)" in str(error)
    assert "by the plan it takes" in str(error) and "nor does its smallest form" in str(error)
    assert error.smaller is None and "train.micro_batch 2 -> 1" in error.steps[0]


def test_what_took_too_much_names_the_steps_down_corrected_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 3.3 * GIB)
    asked = measured(monkeypatch, 3.4 * GIB)
    recipe = local.recipe(data={"max_tokens": 2048}, adapter={"rank": 16, "alpha": 32})
    error = refused(recipe)
    assert len(asked) == 1 and "it took 3." in str(error) and "--smaller takes these steps" in str(error)
    smaller = error.smaller
    assert smaller is not None and smaller.train.micro_batch == 1
    assert (smaller.online, smaller.method) == (recipe.online, recipe.method)
    assert (smaller.train.epochs, smaller.train.batch) == (recipe.train.epochs, recipe.train.batch)
    totals = [float(step.rpartition("(")[2].removesuffix(" GiB)")) for step in error.steps]
    assert totals == sorted(totals, reverse=True) and totals[-1] <= 3.3
    assert all(f"\n  {step}" in str(error) for step in error.steps)


def test_a_card_that_runs_out_of_memory_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 8 * GIB)
    measured(monkeypatch, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB\nmore"))
    error = refused(local.recipe())
    assert "CUDA out of memory. Tried to allocate 9 GiB;" in str(error) and "more" not in error.steps
    assert error.steps and error.smaller is not None


def test_choices_go_down_by_what_makes_their_passes_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A micro-batch of choices holds one prompt whatever train.micro_batch says."""
    room(monkeypatch, 3.3 * GIB)
    measured(monkeypatch, 3.4 * GIB)
    recipe = local.recipe(data={"max_tokens": 2048})
    error = refused(recipe, by_choice=True)
    assert not any("micro_batch" in step for step in error.steps) and "recompute" in error.steps[0]
    assert error.smaller is None or error.smaller.train.micro_batch == recipe.train.micro_batch


def test_no_steps_are_lost_between_two_rehearsals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refusal gives a smaller recipe until there is none: taking them one after another ends."""
    room(monkeypatch, 3.3 * GIB)
    measured(monkeypatch, 3.5 * GIB)
    recipe: Recipe | None = local.recipe(data={"max_tokens": 2048}, adapter={"rank": 16, "alpha": 32})
    seen = []
    while recipe is not None:
        seen.append(recipe)
        recipe = refused(recipe).smaller
        assert len(seen) < 12
    assert len(seen) > 1 and len({r.model_dump_json() for r in seen}) == len(seen)
