"""The pool: candidates of GEPA as prompt sets, each stored once with where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from roleagent_lite.ask import make_prompt_set
from roleagent_lite.config import RunConfig
from roleagent_lite.errors import ConfigError
from roleagent_lite.evolve.pool import Pool
from roleagent_lite.store import Run

SEED = make_prompt_set({"act.instructions": "Act.", "act.playbook": "", "predict.style": "fixed"})
PARTS = ("act.playbook", "act.instructions")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", RunConfig()) as run:
        yield run


def test_a_candidate_holds_the_evolving_texts_in_the_order_asked_for(run: Run) -> None:
    pool = Pool(run, SEED, PARTS)
    assert list(pool.candidate(SEED).items()) == [("act.playbook", ""), ("act.instructions", "Act.")]
    assert pool.child(pool.candidate(SEED)) == SEED


def test_a_child_keeps_what_does_not_evolve_and_says_where_it_came_from(run: Run) -> None:
    pool = Pool(run, SEED, PARTS)
    child = pool.child({"act.playbook": "- look", "act.instructions": "Act."}, SEED, "rewritten")
    assert child.texts == {**SEED.texts, "act.playbook": "- look"}
    assert (child.parent, child.why) == (SEED.id, "rewritten")
    assert run.prompt_sets.get(child.id) == child


def test_equal_texts_are_one_prompt_set_with_its_first_parent(run: Run) -> None:
    pool = Pool(run, SEED, PARTS)
    texts = {"act.playbook": "- look", "act.instructions": "Act."}
    first = pool.child(texts, SEED, "first")
    assert pool.child(texts) is first
    assert pool.child(texts, first, "second") is first
    assert len(run.prompt_sets) == 2


def test_only_accepted_children_enter_and_once(run: Run) -> None:
    pool = Pool(run, SEED, PARTS)
    child = pool.child({"act.playbook": "- look", "act.instructions": "Act."}, SEED)
    assert pool.entered == [SEED]
    pool.enter(child)
    pool.enter(child)
    assert pool.entered == [SEED, child]


@pytest.mark.parametrize(
    ("names", "words"), [(("act.playbok",), "did you mean 'act.playbook'"), ((), "names no text")]
)
def test_unknown_components_are_refused(run: Run, names: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Pool(run, SEED, names)
