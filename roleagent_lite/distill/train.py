"""The update loop that both methods share: order, accumulation, clipping, checkpoints, and when to stop.

Owns one optimiser step made of micro-batches and everything that must hold at a kill. What is minimised is an
`Objective` (sft.py, grpo.py). Leaves out loading (policy.py) and samples (prepare.py).

The order of samples is a function of seed and pass, and dropout is seeded by the step, so that a step needs
nothing but the checkpoint before it. A loss or a gradient that is not finite ends the training with the last
adapter that still had both.
"""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from roleagent_lite.distill import checkpoint, lora
from roleagent_lite.distill.loss import Totals
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.types import Listener, Progress


class Objective(Protocol):
    """What is minimised. `loss` gives the micro-batch's share of the update's loss (a scalar with gradient)
    and sums to report, by name; `limit` says why training must stop after a step's report, or ""."""

    name: str

    def totals(self, batch: Sequence[Tokens], recipe: Recipe) -> Totals: ...
    def parts(self, batch: Sequence[Tokens], size: int) -> list[list[Tokens]]: ...
    def loss(
        self, policy: Policy, batch: Sequence[Tokens], totals: Totals
    ) -> tuple[Any, dict[str, float]]: ...
    def report(self, sums: Mapping[str, float], totals: Totals) -> dict[str, float]: ...
    def limit(self, report: Mapping[str, float]) -> str: ...


@dataclass(frozen=True, slots=True)
class Trained:
    """How a training ended. steps: optimiser steps done in all, resumed ones included; stopped: why it ended
    before its last step, "" for a regular end; adapter: the folder to play with."""

    steps: int
    total: int
    stopped: str
    adapter: Path
    last: Mapping[str, float] = field(default_factory=dict)


def schedule(count: int, recipe: Recipe) -> int:
    """Optimiser steps for `count` samples."""
    steps = recipe.train.epochs * math.ceil(count / recipe.train.batch)
    return min(steps, recipe.train.steps) if recipe.train.steps else steps


def behind_prompt(tokens: Tokens) -> object:
    return tokens.ids[: tokens.start]


def batch_at(
    rows: Sequence[Tokens], step: int, recipe: Recipe, behind: Callable[[Tokens], object] = behind_prompt
) -> list[Tokens]:
    """The samples of optimiser step `step` (from 0): each pass is a shuffle of its own.

    Samples for which `behind` is the same, their prompt, stay together, so that its forward pass can be
    shared.
    """
    a_pass = math.ceil(len(rows) / recipe.train.batch)
    prompts: dict[object, list[Tokens]] = {}
    for row in rows:
        prompts.setdefault(behind(row), []).append(row)
    order = list(prompts.values())
    random.Random(f"{recipe.train.seed}/{step // a_pass}").shuffle(order)
    at = step % a_pass * recipe.train.batch
    return [row for behind in order for row in behind][at : at + recipe.train.batch]


def chunks(batch: Sequence[Tokens], size: int) -> list[list[Tokens]]:
    """`batch` in micro-batches of `size` samples."""
    return [list(batch[at : at + size]) for at in range(0, len(batch), size)]


def totals_of(batch: Sequence[Tokens], recipe: Recipe) -> Totals:
    trained = [sum(t.mask) for t in batch]
    return Totals(
        rows=sum(n > 0 for n in trained),
        tokens=sum(trained),
        predicted=sum(sum(t.predicted) for t in batch),
        length=recipe.loss.length,
    )


class Trainer:
    """One training run in the folder `out`. `identity`: what a resumed run must share, as plain JSON.
    `behind`: as of `batch_at`."""

    behind = staticmethod(behind_prompt)

    def __init__(
        self, policy: Policy, objective: Objective, recipe: Recipe, out: Path, identity: Mapping[str, Any]
    ) -> None:
        self.policy, self.objective, self.recipe, self.out = policy, objective, recipe, out
        self.identity = dict(identity)
        self._torch = load("torch")
        settings = recipe.train
        self.optimizer = self._torch.optim.AdamW(
            list(policy.parameters.values()), lr=settings.lr, weight_decay=settings.weight_decay
        )
        self._good: list[Any] = []

    def run(self, rows: Sequence[Tokens], listener: Listener | None = None) -> Trained:
        """Trains on `rows` to the end, or goes on from the newest checkpoint. Raises what `checkpoint`
        raises.

        Step k first finds the loss and gradient of the adapter after k updates; only when both are finite and
        within the objective's limit is that adapter a good one, and only a good one is kept anywhere.
        """
        total = schedule(len(rows), self.recipe)
        start = self._resumed()
        report: dict[str, float] = {}
        for step in range(start, total + 1):
            batch = batch_at(rows, min(step, total - 1), self.recipe, self.behind)
            report, stopped = self._measure(batch, step, learn=step < total)
            if stopped:
                self._put_back()
                return self._finish(max(step - 1, 0), total, stopped, report)
            self._good = [p.detach().clone() for p in self.policy.parameters.values()]
            if step > start and (step % self.recipe.train.checkpoint_every == 0 or step == total):
                self._checkpoint(step)
            if step < total:
                self._update(step)
                self._log(report)
                if listener is not None:
                    listener(Progress("learn", step + 1, total, note=f"loss {report['loss']:.4f}"))
        return self._finish(total, total, "", report)

    def _measure(self, batch: Sequence[Tokens], step: int, learn: bool) -> tuple[dict[str, float], str]:
        """(the report of one update's samples, why training must stop or ""); gradients are left in place."""
        totals = self.objective.totals(batch, self.recipe)
        self._torch.manual_seed(self.recipe.train.seed * 1_000_003 + step)
        if learn:
            self.policy.learn()
        else:
            self.policy.rest()
        self.optimizer.zero_grad(set_to_none=True)
        sums: dict[str, float] = {}
        whole = 0.0
        for few in self.objective.parts(batch, self.recipe.train.micro_batch):
            with self._torch.set_grad_enabled(learn):
                part, told = self.objective.loss(self.policy, few, totals)
            whole += float(part.detach())
            if not math.isfinite(whole):
                return {
                    "step": step,
                    "loss": whole,
                }, f"the loss of step {step + 1} is {whole}, not a finite number"
            if learn and part.requires_grad:
                part.backward()
            for name, value in told.items():
                sums[name] = sums.get(name, 0.0) + value
        norm = self._clipped() if learn else 0.0
        report = {"step": step, "loss": whole, "gradient": norm, **self.objective.report(sums, totals)}
        if not math.isfinite(norm):
            return report, f"the gradient of step {step + 1} is {norm}, not a finite number"
        return report, self.objective.limit(report)

    def _clipped(self) -> float:
        params = [p for p in self.policy.parameters.values() if p.grad is not None]
        if not params:
            return 0.0
        return float(self._torch.nn.utils.clip_grad_norm_(params, self.recipe.train.clip_norm))

    def _update(self, step: int) -> None:
        warm = min(1.0, (step + 1) / self.recipe.train.warmup) if self.recipe.train.warmup else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.train.lr * warm
        self.optimizer.step()

    def _put_back(self) -> None:
        """The last adapter that was good; the one that training began with, if none was."""
        for parameter, good in zip(self.policy.parameters.values(), self._good, strict=False):
            parameter.data.copy_(good)

    def _resumed(self) -> int:
        found = checkpoint.latest(self.out)
        kept: list[str] = []
        log = self.out / "steps.jsonl"
        if found is not None:
            checkpoint.restore(found, self.policy, self.optimizer, self.identity)
        try:
            if found is not None and log.is_file():  # lines of steps that are done again go
                kept = log.read_text(encoding="utf-8").splitlines(keepends=True)[: found.step]
            self.out.mkdir(parents=True, exist_ok=True)
            log.write_text("".join(kept), encoding="utf-8")
        except OSError as error:
            raise RoleAgentError(
                f"cannot write {log}: {error.strerror}; the last checkpoint is kept"
            ) from None
        return found.step if found is not None else 0

    def _checkpoint(self, step: int) -> None:
        checkpoint.save(self.out, step, self.policy, self.optimizer, self.identity, self.recipe.adapter.dtype)

    def _log(self, report: Mapping[str, float]) -> None:
        try:
            with (self.out / "steps.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(report) + "\n")
        except OSError as error:
            raise RoleAgentError(
                f"cannot write {self.out / 'steps.jsonl'}: {error.strerror}; the last checkpoint is kept"
            ) from None

    def _finish(self, steps: int, total: int, stopped: str, report: Mapping[str, float]) -> Trained:
        folder = self.out / "adapter"
        partial = self.out / "adapter.part"
        try:
            shutil.rmtree(partial, ignore_errors=True)
            lora.save(self.policy.model, partial, self.recipe.adapter.dtype)
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        except OSError as error:
            raise RoleAgentError(
                f"cannot write the adapter to {folder}: {error.strerror or error}; checkpoints are kept, "
                "free some space and resume"
            ) from None
        return Trained(steps, total, stopped, folder, dict(report))
