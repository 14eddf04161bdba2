"""Many states of one task in one forward pass: what any of them begin alike with is read once.

Owns the tree of tokens, which states go together, and the log-probabilities of their choices, with gradient.
The same numbers as `Policy.choice_sums` gives one by one. Leaves out what is done with them (choices.py,
online_loss.py).

States of one task share their prompt's head, a later state of an episode goes on from an earlier one, and
choices begin alike ("go to", "take"): a node of the tree is a token, and sees what stands above it. A
choice's last token is only ever foretold, so it is no node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roleagent_lite.distill.choices import alike, key_of
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokens import Tokens

ROOT = -1


class Tree:
    """Tokens `ids` in the order of their coming, each below its `parents` (`ROOT`: below nothing, or below
    what a cache holds) at its place in the text, `positions`."""

    def __init__(self, first: int = 0) -> None:
        """first: how many tokens stand before the root."""
        self.ids: list[int] = []
        self.parents: list[int] = []
        self.positions: list[int] = []
        self._first = first
        self._known: dict[tuple[int, int], int] = {}

    def add(self, ids: Sequence[int], below: int = ROOT) -> list[int]:
        """The node of each of `ids`, one below the other, those that are there already among them."""
        out = []
        for token in ids:
            node = self._known.get((below, token))
            if node is None:
                node = self._known[below, token] = len(self.ids)
                self.ids.append(token)
                self.parents.append(below)
                self.positions.append(self._first if below == ROOT else self.positions[below] + 1)
            out.append(node)
            below = node
        return out

    def sees(self) -> Any:
        """(N, N) bool: whether a node (row) sees another: itself and all above it."""
        torch = load("torch")
        count = len(self.ids)
        out = torch.zeros(count, count, dtype=torch.bool)
        rows = out.numpy()  # the same memory: assignment row by row is faster there
        for node, parent in enumerate(self.parents):
            if parent != ROOT:
                rows[node] = rows[parent]
            rows[node, node] = True
        return out

    def choose(self, choices: Sequence[Sequence[int]], below: int) -> tuple[list[int], list[int]]:
        """Adds choices below a node; for each token of each, in order: the node before it, and itself."""
        before: list[int] = []
        targets: list[int] = []
        for choice in choices:
            before += [below, *self.add(choice[:-1], below)]
            targets += choice
        return before, targets


def chain(first: int, ids: Sequence[int]) -> Tree:
    """Plain text from place `first` on, one token below the other."""
    made = Tree(first)
    made.add(ids)
    return made


def tree(states: Sequence[Tokens]) -> tuple[Tree, list[int], list[int]]:
    """The tree of all states with their choices; for each token of the choices, state by state, the node
    before it, and itself."""
    made, before, targets = Tree(), list[int](), list[int]()
    for state in states:
        last = made.add(state.ids[: state.start])[-1]
        some, own = made.choose(state.choices, last)
        before += some
        targets += own
    return made, before, targets


def size(states: Sequence[Tokens]) -> int:
    """Nodes of their tree."""
    return len(tree(states)[0].ids)


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


def with_rows(batch: Sequence[Tokens], room: int) -> list[list[Tokens]]:
    """`batch` in the packs of its states, rows of one state together."""
    behind = {key_of(same[0]): same for same in alike(batch)}
    firsts = [same[0] for same in behind.values()]
    return [[row for t in pack for row in behind[key_of(t)]] for pack in packs(firsts, room)]


def mask(sees: Any, kind: Any) -> Any:
    """(1, 1, N, past + N) of the number type `kind`: 0 where a position sees another, its lowest number where
    not."""
    torch = load("torch")
    blank = torch.zeros(sees.shape, dtype=kind, device=sees.device)
    return blank.masked_fill(~sees, torch.finfo(kind).min)[None, None]


def logps_at(logits: Any, rows: Sequence[int], targets: Sequence[int]) -> Any:
    """log p (T,) of each target, nats, float32, from logits (U, V) and the row that each stands in."""
    torch = load("torch")
    places, ids = (torch.tensor(v, device=logits.device) for v in (rows, targets))
    logits = logits.float()  # half precision loses what the ratio is about
    return logits[places, ids] - logits.logsumexp(-1)[places]


def distinct(before: Sequence[int]) -> tuple[list[int], list[int]]:
    """(the nodes of `before` once each, ascending; of each of `before` its place among them)."""
    nodes = sorted(set(before))
    places = {node: number for number, node in enumerate(nodes)}
    return nodes, [places[node] for node in before]


def choice_sums(policy: Policy, states: Sequence[Tokens]) -> list[Any]:
    """log p (C,) of each choice of each state, nats, float32, with gradient where it is enabled.

    One pass; one a state where the back end takes no mask of ours (`Policy.packs`).
    """
    torch = load("torch")
    if not policy.packs:
        return [policy.choice_sums(state) for state in states]
    made, before, targets = tree(states)
    nodes, rows = distinct(before)
    logits = policy.model(
        input_ids=torch.tensor([made.ids], device=policy.device),
        position_ids=torch.tensor([made.positions], device=policy.device),
        attention_mask=mask(made.sees().to(policy.device), policy.model.get_input_embeddings().weight.dtype),
        logits_to_keep=torch.tensor(nodes, device=policy.device),
        use_cache=False,
    ).logits[0]
    each = logps_at(logits, rows, targets)
    lengths = [len(c) for t in states for c in t.choices]
    sums = torch.stack([part.sum() for part in each.split(lengths)])
    return list(sums.split([len(t.choices) for t in states]))
