"""prefix: scores behind kept blocks are those of the whole prompt, and no order of asking changes a bit."""

from __future__ import annotations

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from concurrent.futures import ThreadPoolExecutor

import torch

from roleagent_lite.distill import lora
from roleagent_lite.distill.folded import Folded
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.prefix import BLOCK, Reader
from tests.distill import local

TEXT = "You are in a hall. There is a key and a door. take key open door look around. "
CHOICES = (" take key", " open door and look around", " say hello.")


def made(kind: str = "llama") -> tuple[Policy, list[int], list[list[int]]]:
    policy = local.policy(local.recipe(model=str(local.model(kind))))
    local.disturb(policy)
    use = local.tokenizer()
    return policy, use.prompt_ids(TEXT * 6), [use.encode(c) for c in CHOICES]


def alone(policy: Policy, prompt: list[int], choice: list[int]) -> list[float]:
    ids = [*prompt, *choice]
    with policy.frozen():
        logps = policy.model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    return [float(logps[k - 1, ids[k]]) for k in range(len(prompt), len(ids))]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("length", [1, BLOCK, BLOCK + 1, 2 * BLOCK + 7])
def test_scores_are_those_of_the_whole_prompt(kind: str, length: int) -> None:
    policy, prompt, choices = made(kind)
    reader = Reader(policy)
    for _ in range(2):  # read, then from what is kept
        found = reader.score(prompt[:length], choices)
        for choice, scores in zip(choices, found, strict=True):
            assert scores == pytest.approx(alone(policy, prompt[:length], choice), abs=1e-5)
    whole = (length - 1) // BLOCK * BLOCK
    assert (reader.read, reader.reused) == (2 * length - whole, whole)


def test_what_was_asked_before_changes_no_bit() -> None:
    policy, prompt, choices = made()
    fresh = Reader(policy).score(prompt, choices)
    used = Reader(policy, room=2)
    for end in (40, len(prompt) - 3, 70, len(prompt)):
        used.score(prompt[:end], choices[:1])
    assert used.score(prompt, choices) == fresh
    assert len(used._blocks) == 2  # what is over the limit goes


@pytest.mark.parametrize("acting", ["now", "start", "folded"])
def test_threads_that_read_at_once_change_no_bit(acting: str) -> None:
    """Blocks go and come under their hands; afterwards the policy is as it was."""
    policy, prompt, choices = made()
    ways = {"now": None, "start": policy.at_the_start, "folded": Folded(policy, lora.TRAINED).play}
    ends = [40, len(prompt) - 3, 70, len(prompt), BLOCK + 1, len(prompt) - 20]
    alone = Reader(policy, ways[acting])
    wanted = {end: alone.score(prompt[:end], choices) for end in ends}
    policy.model.train()
    shared = Reader(policy, ways[acting], room=2)
    with ThreadPoolExecutor(4) as crew:
        found = list(crew.map(lambda end: shared.score(prompt[:end], choices), ends * 5))
    assert found == [wanted[end] for end in ends * 5]
    assert policy.model.training and torch.is_grad_enabled()
    assert all(p.requires_grad for p in policy.parameters.values())
    assert shared.read == 0  # this thread asked nothing
    assert len(shared._blocks) == 2


def test_changed_weights_need_a_word() -> None:
    policy, prompt, choices = made()
    reader = Reader(policy)
    before = reader.score(prompt, choices)
    local.disturb(policy, seed=2)
    stale = reader.score(prompt, choices)
    reader.forget()
    after = reader.score(prompt, choices)
    assert after[0] == pytest.approx(alone(policy, prompt, choices[0]), abs=1e-5)
    assert stale != after != before


def test_it_reads_as_another_state_of_the_policy() -> None:
    policy, prompt, choices = made()
    base = Reader(policy, policy.at_the_start).score(prompt, choices)
    assert base != Reader(policy).score(prompt, choices)
    untouched = local.policy(local.recipe())
    assert base[0] == pytest.approx(alone(untouched, prompt, choices[0]), abs=1e-5)


def test_writing_is_what_the_model_itself_would_write() -> None:
    policy, prompt, _ = made()
    written = Reader(policy).write(prompt, most=6, temperature=0.0, seed="", done=lambda ids: False)
    with policy.frozen():
        whole = policy.model.generate(input_ids=torch.tensor([prompt]), max_new_tokens=6, do_sample=False)
    ids = [token for token, _ in written]
    assert ids == whole[0, len(prompt) :].tolist()
    assert [p for _, p in written] == pytest.approx(alone(policy, prompt, ids), abs=1e-5)
    short = Reader(policy).write(prompt, most=6, temperature=0.0, seed="", done=lambda ids: len(ids) == 2)
    assert short == written[:2]


def test_a_draw_follows_its_seed() -> None:
    policy, prompt, _ = made()

    def drawn(seed: str) -> list[int]:
        made = Reader(policy).write(prompt, most=5, temperature=1.5, seed=seed, done=lambda ids: False)
        return [token for token, _ in made]

    assert drawn("a") == drawn("a") and len({tuple(drawn(s)) for s in "abcd"}) > 1
