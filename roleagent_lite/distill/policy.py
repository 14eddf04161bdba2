"""The model in training: base, adapter and tokenizer on one device, and the log-probabilities it gives.

Owns the forward passes, on right-padded batches and on choices, for every back end alike. Leaves out loading
(backend.py, unsloth_backend.py), losses, optimiser and files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roleagent_lite.distill import lora
from roleagent_lite.distill.backend import UNSLOTH, Backend, Plain, choose
from roleagent_lite.distill.loss import token_logps
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.stack import device_for, load
from roleagent_lite.distill.tokens import Tokens, collate
from roleagent_lite.distill.unsloth_backend import Unsloth
from roleagent_lite.distill.weights import model_folder
from roleagent_lite.errors import MissingExtra, RoleAgentError
from roleagent_lite.types import Listener, Progress


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch on the device. All but `advantages` (B,) are (B, T) over the T positions that any row trains;
    mask and predicted: 1.0 on trained tokens and on those of true predictions."""

    ids: Any
    attention: Any
    targets: Any
    mask: Any
    predicted: Any
    advantages: Any


@dataclass(frozen=True, slots=True)
class Pack:
    """A prompt and its choices in one row. owner: the choice that a position belongs to, -1 for the prompt;
    before, targets: for each token of the choices, in order, the position before it and the token itself."""

    ids: list[int]
    positions: list[int]
    owner: list[int]
    before: list[int]
    targets: list[int]


def packed(tokens: Tokens) -> Pack:
    """The choices of a sample side by side behind its prompt."""
    prompt = list(tokens.ids[: tokens.start])
    pack = Pack(list(prompt), list(range(len(prompt))), [-1] * len(prompt), [], [])
    for number, choice in enumerate(tokens.choices):
        first = len(pack.ids)
        pack.ids.extend(choice)
        pack.positions.extend(range(len(prompt), len(prompt) + len(choice)))
        pack.owner.extend([number] * len(choice))
        pack.before.extend([len(prompt) - 1, *range(first, first + len(choice) - 1)])
        pack.targets.extend(choice)
    return pack


class Policy:
    """`reference`: what the divergence is measured from, in words. `warnings`: what loading had to say.
    `backend`: see `Backend`; `why` it was taken, in words."""

    def __init__(
        self,
        model: Any,
        *,
        device: str,
        pad_id: int,
        reference: str,
        warnings: Sequence[str] = (),
        backend: Backend | None = None,
        why: str = "",
        recipe: Recipe | None = None,
    ) -> None:
        self.model = model
        self.device = device
        self.pad_id = pad_id
        self.reference = reference
        self.warnings = list(warnings)
        self.backend: Backend = backend or Plain()
        self.why = why
        self.recipe = recipe or Recipe()

    @property
    def parameters(self) -> dict[str, Any]:
        return lora.trained(self.model)

    @property
    def packs(self) -> bool:
        """Whether states and choices may stand side by side in one row, under a mask of their own."""
        return self.backend.packs

    def learn(self) -> None:
        """To be called before passes with gradients: dropout and recomputing as the recipe has them."""
        self.backend.learn(self.model, self.recipe)

    def rest(self) -> None:
        """To be called before passes without gradients that stand outside `frozen`."""
        self.backend.rest(self.model)

    def rows(self, batch: Sequence[Tokens]) -> Rows:
        """`batch` right-padded and on the device; T reaches back to the earliest reply of the batch."""
        torch = load("torch")
        plain = collate(batch, self.pad_id)
        width = self._fits(len(plain.ids[0]))
        keep = max(width - min(t.start for t in batch), 1)

        def tensor(values: Any, kind: Any) -> Any:
            return torch.tensor(values, dtype=kind, device=self.device)

        ids = tensor(plain.ids, torch.long)
        return Rows(
            ids=ids,
            attention=tensor(plain.attention, torch.long),
            targets=ids[:, -keep:],
            mask=tensor(plain.mask, torch.float32)[:, -keep:],
            predicted=tensor(plain.predicted, torch.float32)[:, -keep:],
            advantages=tensor(plain.advantages, torch.float32),
        )

    def logps(self, rows: Rows) -> Any:
        """log p of each trained target (B, T), nats, float32, with gradient where it is enabled; what stands
        where nothing is trained means nothing.

        The output layer reads the trained positions only: with a large vocabulary it costs as much as all
        blocks, and prompts of one batch end at different places.
        """
        keep, head = rows.targets.shape[1], self.model.get_output_embeddings()
        if head is None or not self.packs:
            return token_logps(self._logits(rows, keep)[:, -keep - 1 : -1], rows.targets)
        trained = rows.mask.bool()

        def narrow(layer: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
            return (given[0][:, -keep - 1 : -1][trained].unsqueeze(0), *given[1:])

        hook = head.register_forward_pre_hook(narrow)
        try:
            logits = self._logits(rows, keep)
        finally:
            hook.remove()
        each = token_logps(logits, rows.targets[trained].unsqueeze(0))[0]
        return each.new_zeros(trained.shape).masked_scatter(trained, each)

    def _logits(self, rows: Rows, keep: int) -> Any:
        with self._around():
            return self.model(
                input_ids=rows.ids, attention_mask=rows.attention, logits_to_keep=keep + 1, use_cache=False
            ).logits

    def fixed_logps(self, rows: Rows) -> Any:
        """As `logps`, of the policy as it is, without gradient and dropout."""
        with self.frozen():
            return self.logps(rows)

    def reference_logps(self, rows: Rows) -> Any:
        """As `fixed_logps`, of the policy that training started from."""
        with self.at_the_start():
            return self.fixed_logps(rows)

    def choice_sums(self, tokens: Tokens) -> Any:
        """log p (C,) of each choice of a sample behind its prompt, nats, float32, with gradient where
        enabled.

        One pass: the choices stand behind the prompt side by side, each at the positions it would have alone,
        and see the prompt and themselves. Where the back end cannot (`packs`) each choice has a row of its
        own, with the prompt again.
        """
        torch = load("torch")
        if not self.packs:
            return self.choice_logps(tokens).sum(-1)
        pack = packed(tokens)
        with self._around():
            logits = self.model(
                input_ids=torch.tensor([pack.ids], device=self.device),
                position_ids=torch.tensor([pack.positions], device=self.device),
                attention_mask=self._sight(pack),
                logits_to_keep=torch.tensor(pack.before, device=self.device),
                use_cache=False,
            ).logits
        each = token_logps(logits, torch.tensor([pack.targets], device=self.device))[0]
        return torch.stack([part.sum() for part in each.split([len(c) for c in tokens.choices])])

    def choice_logps(self, tokens: Tokens) -> Any:
        """log p (C, T) of each choice's tokens behind the prompt, nats, 0 beyond a choice's end: each choice
        in a row of its own."""
        torch = load("torch")
        prompt, longest = list(tokens.ids[: tokens.start]), max(map(len, tokens.choices))
        self._fits(len(prompt) + longest)
        ends = [longest - len(c) for c in tokens.choices]
        ids = [[*prompt, *c, *[self.pad_id] * e] for c, e in zip(tokens.choices, ends, strict=True)]
        seen = torch.tensor([[1] * (len(row) - e) + [0] * e for row, e in zip(ids, ends, strict=True)])
        placed, seen = torch.tensor(ids, device=self.device), seen.to(self.device)
        with self._around():
            logits = self.model(
                input_ids=placed, attention_mask=seen, logits_to_keep=longest + 1, use_cache=False
            ).logits
        return token_logps(logits[:, -longest - 1 : -1], placed[:, -longest:]) * seen[:, -longest:]

    def _around(self) -> contextlib.AbstractContextManager[Any]:
        return self.backend.around(self.recipe, self.device)

    def _fits(self, width: int) -> int:
        longest = self.backend.longest
        if longest is not None and width > longest:
            raise RoleAgentError(
                f"a row of {width} tokens is longer than the {longest} that the model was loaded for; "
                "raise data.max_tokens"
            )
        return width

    def _sight(self, pack: Pack) -> Any:
        """(1, 1, T, T), 0 where a position sees another and the lowest number where not."""
        torch = load("torch")
        owner = torch.tensor(pack.owner, device=self.device)
        place = torch.arange(len(pack.owner), device=self.device)
        own = (owner[None, :] == -1) | (owner[:, None] == owner[None, :])
        sees = (place[:, None] >= place[None, :]) & own
        kind = self.model.get_input_embeddings().weight.dtype
        blank = torch.zeros(sees.shape, dtype=kind, device=self.device)
        return blank.masked_fill(~sees, torch.finfo(kind).min)[None, None]

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Without gradient and dropout."""
        with self.resting(), load("torch").no_grad():
            yield

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Without dropout, for all threads; gradients are each thread's own matter."""
        was = bool(self.model.training)
        self.backend.rest(self.model)
        try:
            yield
        finally:
            self.backend.resume(self.model, was)

    @contextlib.contextmanager
    def at_the_start(self) -> Iterator[None]:
        if lora.FROZEN not in self.model.peft_config:
            with self.model.disable_adapter():
                yield
            return
        self.model.set_adapter(lora.FROZEN)
        try:
            yield
        finally:
            self.model.set_adapter(lora.TRAINED)  # makes it trainable again, and the other not


def open_policy(
    recipe: Recipe, pad_id: int, listener: Listener | None = None, *, plays: bool = False
) -> Policy:
    """The recipe's model with its adapter, ready to train. plays: it will also write replies.

    Raises MissingExtra without the libraries, ConfigError before anything loads where the device cannot do
    what the recipe says, and for adapters that do not fit.
    """
    device = device_for(recipe)
    folder = model_folder(recipe.model, listener)
    backend, why = _backend(recipe, device, folder, plays)
    if listener is not None:
        listener(Progress("load", note=f"{recipe.model} with {backend.words} on {device} ({why})"))
    found = backend.load(recipe, folder, device)
    return Policy(
        found.model, device=device, pad_id=pad_id, reference=found.reference, warnings=found.warnings,
        backend=backend, why=why, recipe=recipe,
    )  # fmt: skip


def _backend(recipe: Recipe, device: str, folder: Path, plays: bool) -> tuple[Backend, str]:
    choice = choose(recipe, device, folder)
    if choice.name != UNSLOTH:
        return Plain(), choice.why
    try:
        return Unsloth(vllm=plays and recipe.online.vllm), choice.why
    except MissingExtra as error:
        if recipe.backend == UNSLOTH or recipe.train.four_bit:
            raise
        return Plain(), str(error)
