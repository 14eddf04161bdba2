"""tree: states that share a forward pass get the numbers and the gradient that each would get alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

from roleagent_lite.distill import tree
from roleagent_lite.distill.tokens import Tokens, tokenise
from roleagent_lite.types import Message
from tests.distill import local, make
from tests.distill.test_tokens import SAMPLE

LOGS = ("", " take key\nYou took the key.\n>", " look around\nNothing happens.\n> say hello\n>")


def states(task: str = "a") -> list[Tokens]:
    out = []
    for number, log in enumerate(LOGS):
        choices = (" take key", " open door", " look around the hall")[: number + 1]
        messages = (*make.chat(), Message("assistant", f"Goal: Get out\n>{log}"))
        sample = replace(
            SAMPLE, id=f"{task}/{number}", task=task, text=" take key", messages=messages, ended=False,
            choices=choices, penalties=(0.0,) * len(choices),
        )  # fmt: skip
        out.append(tokenise(sample, local.tokenizer(), 500))
    return out


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_together_is_as_one_by_one(kind: str) -> None:
    made = local.policy(local.recipe(model=str(local.model(kind))))
    local.disturb(made)
    rows = states()
    whole = tree.choice_sums(made, rows)
    torch.cat(whole).sum().backward()
    together = [p.grad.clone() for p in made.parameters.values()]
    for parameter in made.parameters.values():
        parameter.grad = None
    single = [made.choice_sums(t) for t in rows]
    torch.cat(single).sum().backward()
    for a, b in zip(whole, single, strict=True):
        assert a.tolist() == pytest.approx(b.tolist(), abs=1e-4)
    for grad, parameter in zip(together, made.parameters.values(), strict=True):
        assert float((grad - parameter.grad).abs().max()) < 1e-3


def test_what_states_begin_alike_with_stands_there_once() -> None:
    rows = states()
    made, before, targets = tree.tree(rows)
    paths = {
        (*t.ids[: t.start], *choice[:k])
        for t in rows for choice in t.choices for k in range(len(choice))
    }  # fmt: skip
    beginnings = {path[: k + 1] for path in paths for k in range(len(path))}
    assert len(made.ids) == len(beginnings) == tree.size(rows) < sum(tree.size([t]) for t in rows)
    assert targets == [i for t in rows for c in t.choices for i in c] and len(before) == len(targets)
    for node, parent in enumerate(made.parents):
        assert parent < node and made.positions[node] == (0 if parent < 0 else made.positions[parent] + 1)


def test_a_node_sees_itself_and_what_stands_above_it() -> None:
    made = tree.Tree(first=5)
    stem = made.add([7, 8])
    before, targets = made.choose([[1, 2, 3], [1, 4], [9]], stem[-1])
    assert (made.ids, made.parents) == ([7, 8, 1, 2], [-1, 0, 1, 2])
    assert made.positions == [5, 6, 7, 8]
    assert (before, targets) == ([1, 2, 3, 1, 2, 1], [1, 2, 3, 1, 4, 9])
    made.add([6])  # beside the stem
    assert made.sees().int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [0, 0, 0, 0, 1],
    ]
    assert tree.distinct([4, 1, 4]) == ([1, 4], [1, 0, 1])
    assert tree.chain(3, [5, 5]).parents == [-1, 0] and tree.chain(3, [5, 5]).positions == [3, 4]


def test_equal_prompts_with_other_choices_and_prompts_inside_others() -> None:
    made = local.policy(local.recipe())
    first = states()[1]
    other = replace(first, choices=first.choices[:1])
    inside = replace(first, ids=first.ids[: first.start - 3], start=first.start - 3)
    rows = [first, other, inside]
    with made.frozen():
        for found, row in zip(tree.choice_sums(made, rows), rows, strict=True):
            assert found.tolist() == pytest.approx(made.choice_sums(row).tolist(), abs=1e-4)


def test_packs_keep_to_their_room_and_to_one_task() -> None:
    rows = [*states("a"), *states("b")]
    room = tree.size(rows[:2])
    assert [[t.sample.id for t in p] for p in tree.packs(rows, room)] == [
        ["a/0", "a/1"],
        ["a/2"],
        ["b/0", "b/1"],
        ["b/2"],
    ]
    assert len(tree.packs(rows, 10_000)) == 2 and len(tree.packs(rows, 1)) == 6
    assert tree.packs([], 10) == []


def test_rows_of_one_state_stay_together_in_a_pack() -> None:
    rows = states()
    again = replace(rows[0], sample=replace(rows[0].sample, id="a/again"))
    packs = tree.with_rows([rows[0], rows[1], again], tree.size(rows[:2]))
    assert [[t.sample.id for t in p] for p in packs] == [["a/0", "a/again", "a/1"]]
