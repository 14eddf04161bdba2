"""Reading prompts that begin alike: what was read once is kept, block by block, until the weights change.

Owns the key-value blocks of a prompt, the scores of choices behind it, and a reply written token by token.
Leaves out messages and requests (local.py) and everything with a gradient (policy.py, tree.py).

A prompt is read in blocks of `BLOCK` tokens, always cut at the same places, and a block is kept under all the
tokens up to its end. So what a block holds depends on the prompt alone, never on who asked before: a resumed
run finds bit for bit the same scores, whatever part of them it already has on the disk. For the same reason
several threads may read at once: a block that two of them lack is read twice, and comes out the same.
"""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tree import Tree, chain, distinct, logps_at, mask

BLOCK = 64  # tokens
ROOM = 160  # blocks that stay, the last used; of a model of 135M parameters 3 MB each in float32

Layers = list[tuple[Any, Any]]  # keys and values of each layer, (1, heads, tokens, size)


class _Counts(threading.local):
    """Tokens of prompts that the present thread asked about."""

    read = reused = 0


class Reader:
    """Reads with `policy` as it is inside `acting`, a context manager (None: as it is now).

    `read`, `reused`: prompt tokens that went through the model, and that did not have to; of this thread.
    """

    def __init__(
        self,
        policy: Policy,
        acting: Callable[[], AbstractContextManager[None]] | None = None,
        room: int = ROOM,
    ) -> None:
        self._policy = policy
        self._acting = acting
        self._room = room
        self._blocks: OrderedDict[tuple[int, ...], Layers] = OrderedDict()
        self._counts = _Counts()
        self._lock = threading.Lock()
        self._readers = 0  # threads that read at present
        self._open = ExitStack()  # what makes the policy ready; closed by the last of them

    @property
    def read(self) -> int:
        return self._counts.read

    @property
    def reused(self) -> int:
        return self._counts.reused

    def forget(self) -> None:
        """To be called whenever the weights have changed."""
        self._blocks.clear()

    def score(self, prompt: Sequence[int], choices: Sequence[Sequence[int]]) -> list[list[float]]:
        """log p of each token of each choice behind `prompt` (nats). Neither may be empty."""
        with self._ready():
            past, tail = self._known(prompt)
            below = Tree(first=len(prompt) - len(tail))
            before, targets = below.choose(choices, below.add(tail)[-1])
            nodes, rows = distinct(before)
            logits, _ = self._forward(past, below, nodes)
            each = logps_at(logits[0], rows, targets)
            return [part.tolist() for part in each.split([len(c) for c in choices])]

    def write(
        self,
        prompt: Sequence[int],
        *,
        most: int,
        temperature: float,
        seed: str,
        done: Callable[[Sequence[int]], bool],
    ) -> list[tuple[int, float]]:
        """Tokens behind `prompt`, each with its log-probability: drawn at `temperature`, at 0 the best one.

        Ends after `most` tokens, or where `done` says so of the tokens written.
        """
        drawer, out = random.Random(seed), []
        with self._ready():
            past, tail = self._known(prompt)
            ids = list(tail)
            for _ in range(most):
                first = past[0][0].shape[2] if past else 0
                logits, past = self._forward(past, chain(first, ids), [len(ids) - 1])
                logps = logits[0, -1].float().log_softmax(-1)
                token = int(logps.argmax()) if temperature <= 0 else _drawn(logps / temperature, drawer)
                out.append((token, float(logps[token])))
                ids = [token]
                if done([t for t, _ in out]):
                    break
        return out

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """The policy as it acts, from the first of the threads inside to the last."""
        with self._lock:
            if not self._readers:
                with ExitStack() as ready:
                    ready.enter_context(self._policy.resting())
                    if self._acting is not None:
                        ready.enter_context(self._acting())
                    self._open = ready.pop_all()
            self._readers += 1
        try:
            with load("torch").no_grad():
                yield
        finally:
            with self._lock:
                self._readers -= 1
                if not self._readers:
                    self._open.close()

    def _known(self, prompt: Sequence[int]) -> tuple[Layers, list[int]]:
        """Keys and values of all whole blocks that end before the prompt's last token, and what is left."""
        torch = load("torch")
        end = (len(prompt) - 1) // BLOCK * BLOCK
        kept: list[Layers] = []
        past: Layers = []
        for at in range(0, end, BLOCK):
            key = tuple(prompt[: at + BLOCK])
            with self._lock:
                block = self._blocks.get(key)
            if block is None:
                if kept and (not past or past[0][0].shape[2] < at):
                    past = _joined(torch, kept)
                ids = list(prompt[at : at + BLOCK])
                _, whole = self._forward(past, chain(at, ids), [BLOCK - 1])
                block = [(k[:, :, at:].clone(), v[:, :, at:].clone()) for k, v in whole]
                past = whole
                self._counts.read += BLOCK
            else:
                self._counts.reused += BLOCK
            kept.append(block)
            with self._lock:
                self._blocks[key] = block
                self._blocks.move_to_end(key)
        with self._lock:
            while len(self._blocks) > self._room:
                self._blocks.popitem(last=False)
        self._counts.read += len(prompt) - end
        if not past or past[0][0].shape[2] != end:
            past = _joined(torch, kept)
        return past, list(prompt[end:])

    def _forward(self, past: Layers, below: Tree, keep: Sequence[int]) -> tuple[Any, Layers]:
        """(logits (1, len(keep), V) at the nodes `keep` of what stands below `past`, keys and values of
        both)."""
        torch, transformers = load("torch"), load("transformers")
        model, device = self._policy.model, self._policy.device
        cache = transformers.DynamicCache()
        for number, (keys, values) in enumerate(past):
            cache.update(keys, values, number)
        before = past[0][0].shape[2] if past else 0
        sees = torch.nn.functional.pad(below.sees(), (before, 0), value=True).to(device)
        logits = model(
            input_ids=torch.tensor([below.ids], device=device),
            position_ids=torch.tensor([below.positions], device=device),
            attention_mask=mask(sees, model.get_input_embeddings().weight.dtype),
            past_key_values=cache,
            logits_to_keep=torch.tensor(list(keep), device=device),
            use_cache=True,
        ).logits
        return logits, [(layer.keys, layer.values) for layer in cache.layers]


def _joined(torch: Any, blocks: Sequence[Layers]) -> Layers:
    return [
        (torch.cat([k for k, _ in pairs], dim=2), torch.cat([v for _, v in pairs], dim=2))
        for pairs in zip(*blocks, strict=True)
    ]


def _drawn(values: Any, drawer: random.Random) -> int:
    """An index drawn from softmax(values (V,)), by a generator that is the same on every machine."""
    weights = values.softmax(-1).double().cumsum(-1)
    point = drawer.random() * float(weights[-1])
    index = int(load("torch").searchsorted(weights, point))
    return min(index, int(values.numel()) - 1)
