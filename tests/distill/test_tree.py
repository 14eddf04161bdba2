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


def test_what_prompts_begin_with_stands_there_once() -> None:
    rows = states()
    made = tree.tree(rows)
    common = tree.shared([t.ids[: t.start] for t in rows])
    assert made.branch.count(-1) == common > 10 and made.ids[:common] == list(rows[0].ids[:common])
    assert len(made.ids) == tree.size(rows) < sum(tree.size([t]) for t in rows)
    assert made.targets == [i for t in rows for c in t.choices for i in c]
    assert sorted(set(made.leaf)) == list(range(-1, 6))


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
    assert tree.shared([]) == 0
