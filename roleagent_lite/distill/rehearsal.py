"""The rehearsal: the heaviest pass of a training once, forward and back, before anything is learnt.

Owns its measured memory and time beside the plan's, and what is said where it does not fit: the ladder down,
corrected by what was measured. Leaves out the formulas and the rungs (plan.py), and taking them (cli).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roleagent_lite.distill import size as sizes
from roleagent_lite.distill.choices import alike
from roleagent_lite.distill.plan import WITHIN, Load, Plan, Size, ladder, plan
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.errors import RoleAgentError

GIB = float(2**30)


class DoesNotFit(RoleAgentError):
    """`steps`: the ladder down to the first form that would fit, in words; `smaller`: that form, None where
    none would."""

    def __init__(self, words: str, steps: Sequence[str] = (), smaller: Recipe | None = None) -> None:
        super().__init__(words)
        self.steps = tuple(steps)
        self.smaller = smaller


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """One pass of `rows` samples, `tokens` in all. seconds: forward and back; peak: bytes of the whole
    process at most (on a card: of the card), the optimiser's moments among them though they come later.
    planned, planned_seconds: the same by the plan, None where config.json lacks its numbers. hours: of all
    updates at this pace, other samples counted by their tokens."""

    rows: int
    tokens: int
    seconds: float
    peak: int
    room: int
    on: str
    planned: int | None
    planned_seconds: float | None
    hours: float

    @property
    def words(self) -> str:
        memory, pace = f"{self.peak / GIB:.2f} GiB", f"{self.seconds:.2f} s"
        if self.planned is not None:
            memory += f" ({self.planned / GIB:.2f} planned)"
        if self.planned_seconds is not None:
            pace += f" (at least {self.planned_seconds:.2f} planned)"
        return (
            f"the longest of all, {self.rows} x {self.tokens // self.rows} tokens: {memory} of "
            f"{self.room / GIB:.2f} GiB of {self.on}, {pace} forward and back; "
            f"at this pace all updates take {60 * self.hours:.1f} minutes"
        )


@dataclass(frozen=True, slots=True)
class Heaviest:
    """The pass that takes most. tokens: positions in it; reply: those whose logits are kept, of one row."""

    run: Callable[[Policy], Any]
    rows: int
    tokens: int
    reply: int


def heaviest(rows: Sequence[Tokens], recipe: Recipe, by_choice: bool, packs: bool = True) -> Heaviest:
    """The longest micro-batch that `rows` allow. by_choice: the policy is over choices (choices.py), whose
    micro-batches hold one prompt; packs: `Policy.packs`."""
    if by_choice and any(t.choices for t in rows):

        def weight(t: Tokens) -> int:
            if packs:
                return t.start + sum(map(len, t.choices))
            return len(t.choices) * (t.start + max(map(len, t.choices)))

        one = max((same[0] for same in alike([t for t in rows if t.choices])), key=weight)
        many = 1 if packs else len(one.choices)
        return Heaviest(
            lambda policy: policy.choice_sums(one).mean(), many, weight(one), sum(map(len, one.choices))
        )
    longest = max(rows, key=lambda t: len(t.ids))
    widest = max(rows, key=lambda t: len(t.ids) - t.start)  # a batch keeps logits from its earliest reply on
    count = min(recipe.train.micro_batch, len(rows))
    batch = [longest] * (count - 1) + [widest] if count > 1 else [longest]

    def run(policy: Policy) -> Any:
        placed = policy.rows(batch)
        return (policy.logps(placed) * placed.mask).sum() / placed.mask.sum().clamp(min=1.0)

    width = max(len(t.ids) for t in batch)
    return Heaviest(run, count, count * width, width - min(t.start for t in batch))


def rehearse(policy: Policy, rows: Sequence[Tokens], recipe: Recipe, by_choice: bool) -> Rehearsal:
    """The heaviest pass of `rows` with `policy`, whose weights, draws and mode stay as they were.

    Raises DoesNotFit, with the ladder down, where it takes more than may be used (`size.memory`), and before
    it is run where by the plan it cannot fit.
    """
    pass_ = heaviest(rows, recipe, by_choice, policy.packs)
    paper = _Paper.of(recipe, pass_)
    planned = paper.made.total if paper.made else None
    if planned is not None and planned > WITHIN * paper.room:
        raise paper.refused(f"by the plan it takes {planned / GIB:.2f} GiB", planned)
    torch = load("torch")
    out_of_memory = ""
    try:
        if policy.device.startswith("cuda"):  # kernels are made at their first use
            _measured(
                policy, heaviest([min(rows, key=lambda t: len(t.ids))], recipe, by_choice, policy.packs)
            )
        seconds, peak = _measured(policy, pass_)
    except torch.OutOfMemoryError as error:
        out_of_memory = str(error).partition("\n")[0][:200]
    if out_of_memory:  # here, where nothing holds its tensors any more
        raise paper.refused(out_of_memory, 1.05 * paper.room)  # at least so much, more is not known
    peak += 8 * sum(p.numel() for p in policy.parameters.values())  # AdamW's moments
    if peak > paper.room:
        raise paper.refused(f"it took {peak / GIB:.2f} GiB", peak)
    pace = sizes.speed(recipe)
    once = paper.made.operations / pace if paper.made and pace else None
    return Rehearsal(
        pass_.rows, pass_.tokens, seconds, peak, paper.room, paper.where, planned, once,
        hours=seconds / pass_.tokens * _trained(rows, recipe, by_choice) / 3600,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Paper:
    """The plan of a pass. recipe: as the pass has it, with nobody playing beside it."""

    wanted: Recipe
    recipe: Recipe
    load: Load
    room: int
    where: str
    card: bool
    size: Size | None
    made: Plan | None

    @classmethod
    def of(cls, recipe: Recipe, pass_: Heaviest) -> _Paper:
        room, where, card = sizes.memory(recipe)
        train = recipe.train.model_copy(update={"micro_batch": pass_.rows, "epochs": 1, "steps": 0})
        online = recipe.online.model_copy(update={"group": 2, "vllm": False})
        alone = recipe.model_copy(update={"train": train, "online": online, "method": "sft"})
        count = Load(pass_.rows, pass_.tokens, pass_.tokens // pass_.rows, pass_.reply)
        try:
            size = sizes.size_of(recipe.model)
        except RoleAgentError:  # a model of a kind that the plan has no formulas for may still train
            return cls(recipe, alone, count, room, where, card, None, None)
        return cls(recipe, alone, count, room, where, card, size, plan(size, alone, count, card=card))

    def refused(self, why: str, peak: float) -> DoesNotFit:
        """peak: bytes that were measured; what is above the plan is laid to what a pass keeps, for weights
        and libraries are known."""
        rows, longest = self.recipe.train.micro_batch, self.load.longest
        words = (
            f"the training does not fit {self.where} ({self.room / GIB:.2f} GiB may be used): of its longest "
            f"pass, {rows} x {longest} tokens, {why}"
        )
        if self.size is None or self.made is None:
            return DoesNotFit(words + "; make train.micro_batch or data.max_tokens smaller")
        kept = self.made.activations + self.made.logits
        over = max(1.0, 1 + (peak - self.made.total) / kept)
        steps, found = [], None
        for rung in ladder(self.size, self.recipe, self.load, card=self.card):
            total = rung.plan.total + (over - 1) * (rung.plan.activations + rung.plan.logits)
            steps.append(f"{rung.words} ({total / GIB:.2f} GiB)")
            if total <= self.room:
                found = self._kept(rung.recipe)
                break
        told = "".join(f"\n  {step}" for step in steps)
        if found is None:
            return DoesNotFit(f"{words}, nor does its smallest form; take a smaller model:{told}", steps)
        return DoesNotFit(f"{words}; --smaller takes these steps:{told}", steps, found)

    def _kept(self, smaller: Recipe) -> Recipe:
        """`smaller` with what was changed only to plan the pass as it was wanted."""
        rows, train = smaller.train.micro_batch, self.wanted.train
        kept = {"epochs": train.epochs, "steps": train.steps}
        if rows == self.recipe.train.micro_batch:
            kept["micro_batch"] = train.micro_batch
        return smaller.model_copy(
            update={
                "train": smaller.train.model_copy(update=kept), "online": self.wanted.online,
                "method": self.wanted.method,
            }
        )  # fmt: skip


def _trained(rows: Sequence[Tokens], recipe: Recipe, by_choice: bool) -> float:
    """Positions that all updates go through."""
    passes = float(recipe.train.epochs)
    if recipe.train.steps:
        passes = min(passes, recipe.train.steps * recipe.train.batch / len(rows))
    return passes * sum(_positions(t, by_choice) for t in rows)


def _positions(tokens: Tokens, by_choice: bool) -> int:
    return tokens.start + sum(map(len, tokens.choices)) if by_choice and tokens.choices else len(tokens.ids)


def _measured(policy: Policy, pass_: Heaviest) -> tuple[float, int]:
    """(seconds, peak bytes) of the pass, forward and back; gradients are dropped again."""
    torch = load("torch")
    card = policy.device.startswith("cuda")
    state = torch.random.get_rng_state()
    policy.learn()
    try:
        if card:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        _forget_peak()
        start = time.perf_counter()
        (-pass_.run(policy)).backward()
        if card:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        return seconds, _card_peak(torch) if card else _peak()
    finally:
        for parameter in policy.parameters.values():
            parameter.grad = None
        policy.rest()
        torch.random.set_rng_state(state)
        gc.collect()
        if card:
            torch.cuda.empty_cache()


def _card_peak(torch: Any) -> int:
    """Bytes of the card in use, by others too: what the allocator once held it has not given back yet."""
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


def _forget_peak() -> None:
    """Lets the kernel count this process's peak from here on; where it does not, the peak is that of all so
    far, which is no smaller."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def _peak() -> int:
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource
    import sys

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most if sys.platform == "darwin" else most * 1024)
