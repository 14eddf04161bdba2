"""Many states of one task in one forward pass: what their prompts begin with stands there once.

Owns which states go together and the log-probabilities of their choices, with gradient. The same numbers as
`Policy.choice_sums` gives one by one. Leaves out what is done with them (choices.py, online_loss.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from roleagent_lite.distill.loss import token_logps
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokens import Tokens


@dataclass(slots=True)
class Tree:
    """One row for the model. branch: the state that a position belongs to, leaf: its choice; -1 = what all
    share. before, targets: for each token of the choices, state by state, the position before it and
    itself."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    branch: list[int] = field(default_factory=list)
    leaf: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)

    def add(self, ids: Sequence[int], first: int, branch: int, leaf: int) -> None:
        """`ids` at the places from `first` on."""
        self.ids += ids
        self.positions += range(first, first + len(ids))
        self.branch += [branch] * len(ids)
        self.leaf += [leaf] * len(ids)


def shared(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with."""
    if not prompts:
        return 0
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*prompts, strict=False)))


def tree(states: Sequence[Tokens]) -> Tree:
    """What the states share, then each state's own rest of the prompt with its choices."""
    prompts = [t.ids[: t.start] for t in states]
    common = shared(prompts)
    made = Tree()
    made.add(prompts[0][:common], 0, -1, -1)
    leaf = 0
    for number, (state, prompt) in enumerate(zip(states, prompts, strict=True)):
        made.add(prompt[common:], common, number, -1)
        last = len(made.ids) - 1 if len(prompt) > common else common - 1
        for choice in state.choices:
            first = len(made.ids)
            made.add(choice, len(prompt), number, leaf)
            made.before += [last, *range(first, first + len(choice) - 1)]
            made.targets += choice
            leaf += 1
    return made


def size(states: Sequence[Tokens]) -> int:
    """Tokens of their tree."""
    common = shared([t.ids[: t.start] for t in states])
    return common + sum(t.start - common + sum(map(len, t.choices)) for t in states)


def packs(states: Sequence[Tokens], room: int) -> list[list[Tokens]]:
    """`states` in trees of at most `room` tokens where they allow it, each of one task, in order."""
    out: list[list[Tokens]] = []
    for state in states:
        fits = bool(out) and out[-1][0].sample.task == state.sample.task and size([*out[-1], state]) <= room
        if fits:
            out[-1].append(state)
        else:
            out.append([state])
    return out


def choice_sums(policy: Policy, states: Sequence[Tokens]) -> list[Any]:
    """log p (C,) of each choice of each state, nats, float32, with gradient where it is enabled.

    One pass; one a state where the back end takes no mask of ours (`Policy.packs`).
    """
    torch = load("torch")
    if not policy.packs:
        return [policy.choice_sums(state) for state in states]
    made = tree(states)
    device = policy.device
    branch, leaf = (torch.tensor(v, device=device) for v in (made.branch, made.leaf))
    place = torch.arange(len(made.ids), device=device)

    def own(of: Any) -> Any:
        return (of[None, :] == -1) | (of[:, None] == of[None, :])

    sees = (place[:, None] >= place[None, :]) & own(branch) & own(leaf)
    kind = policy.model.get_input_embeddings().weight.dtype
    blank = torch.zeros(sees.shape, dtype=kind, device=device)
    logits = policy.model(
        input_ids=torch.tensor([made.ids], device=device),
        position_ids=torch.tensor([made.positions], device=device),
        attention_mask=blank.masked_fill(~sees, torch.finfo(kind).min)[None, None],
        logits_to_keep=torch.tensor(made.before, device=device),
        use_cache=False,
    ).logits
    each = token_logps(logits, torch.tensor([made.targets], device=device))[0]
    lengths = [len(c) for t in states for c in t.choices]
    sums = torch.stack([part.sum() for part in each.split(lengths)])
    return list(sums.split([len(t.choices) for t in states]))
