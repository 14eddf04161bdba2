"""From a run and a recipe to what training reads: samples in tokens, counted, with warnings and reasons to
stop.

Owns the order collect -> select -> tokenise, the counts, and when there is nothing to train on. Leaves out
files (dump.py) and weights: nothing here loads a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from roleagent_lite.distill.bake import bake, saving, short_prompt
from roleagent_lite.distill.chat import SYSTEM_MERGED, TURNS_JOINED
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.rows import Dropped
from roleagent_lite.distill.samples import Collected, collect, imitable
from roleagent_lite.distill.tokenizer import Tokenizer
from roleagent_lite.distill.tokens import FOREIGN, RECORDED, Tokens, prompt_tokens, tokenise
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run

NO_SIGNAL = "group without signal"


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of one preparation. tokens: of used samples, trained: those under the loss.

    reasons: why trajectories, steps and samples are not used, with how many. stop: why training cannot begin,
    "" where it can. bake: what a short prompt saves (`bake.saving`), empty where none was asked for.
    """

    trajectories: int
    samples: int
    used: int
    tokens: int
    trained: int
    longest: int
    groups: int
    without_signal: int
    cut: int
    too_long: int
    with_logprobs: int
    recorded_ids: int
    ids_differ: int
    reasons: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    stop: str = ""
    bake: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prepared:
    """All samples in tokens, also those that are not used (their `why` says it); `usable` are the others.

    texts: those of a short prompt that stand for it in a file for `--prompt`; empty where none was baked in,
    or where it has templates of its own.
    """

    recipe: Recipe
    tokens: tuple[Tokens, ...]
    dropped: tuple[Dropped, ...]
    report: Report
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def usable(self) -> list[Tokens]:
        return [t for t in self.tokens if not t.why]

    def check(self) -> None:
        """Raises RoleAgentError where training cannot begin, with the reason."""
        if self.report.stop:
            raise RoleAgentError(self.report.stop)


def _grpo(found: Collected, recipe: Recipe) -> Collected:
    return found


def _sft(found: Collected, recipe: Recipe) -> Collected:
    return imitable(found, recipe.sft.min_alignment, recipe.sft.per_task)


SELECT: dict[str, Callable[[Collected, Recipe], Collected]] = {"grpo": _grpo, "sft": _sft}


def prepare(run: Run, recipe: Recipe, tokenizer: Tokenizer) -> Prepared:
    """What `recipe` would train on from `run`, in tokens of `tokenizer`.

    Raises RoleAgentError for rewards that are rubbish, ConfigError for a template that takes no chat. What
    only hinders training is in `report.stop` (see `Prepared.check`), so that a dry run can show it.
    """
    found = collect(
        run,
        rounds=recipe.data.rounds,
        strip_experience=recipe.data.experience == "strip",
        predictions=recipe.loss.prediction > 0,
        matched=recipe.loss.matched,
    )
    found = SELECT[recipe.method](found, recipe)
    short = short_prompt(run, recipe.sft.bake) if recipe.sft.bake else None
    found, sent = bake(run, found, short) if short is not None else (found, {})
    rows = [tokenise(s, tokenizer, recipe.data.max_tokens, recipe.data.too_long) for s in found.samples]
    rows = [
        replace(row, sent=prompt_tokens(sent[row.sample.id], tokenizer)) if row.sample.id in sent else row
        for row in rows
    ]
    if recipe.method == "grpo" and recipe.loss.no_signal == "drop":
        rows = [_signalled(row, found.signal) for row in rows]
    texts = short.prompt_set.texts if short is not None and short.own else {}
    return Prepared(recipe, tuple(rows), found.dropped, _report(found, rows, recipe), texts)


def _signalled(row: Tokens, signal: Mapping[str, bool]) -> Tokens:
    """A group whose advantages are all 0 teaches nothing by itself; true predictions still may."""
    if row.why or signal[row.sample.group] or any(row.predicted):
        return row
    return replace(row, why=NO_SIGNAL)


def _report(found: Collected, rows: Sequence[Tokens], recipe: Recipe) -> Report:
    used = [r for r in rows if not r.why]
    cut = sum(r.removed > 0 for r in rows)
    long = sum(r.why != "" and r.why != NO_SIGNAL for r in rows)
    reasons = Counter(d.reason for d in found.dropped)
    reasons.update("too long" if r.why != NO_SIGNAL else r.why for r in rows if r.why)
    return Report(
        trajectories=found.trajectories,
        samples=len(rows),
        used=len(used),
        tokens=sum(len(r.ids) for r in used),
        trained=sum(sum(r.mask) for r in used),
        longest=max((len(r.ids) for r in used), default=0),
        groups=len(found.signal),
        without_signal=found.without_signal,
        cut=cut,
        too_long=long,
        with_logprobs=sum(r.logprobs is not None for r in used),
        recorded_ids=sum(r.source == RECORDED for r in rows),
        ids_differ=sum(r.differs for r in rows),
        reasons=dict(sorted(reasons.items())),
        warnings=_warnings(found, rows, cut, long),
        stop=_stop(found, rows, cut, long, recipe),
        bake=saving(used),
    )


def _warnings(found: Collected, rows: Sequence[Tokens], cut: int, long: int) -> tuple[str, ...]:
    said = []
    total = len(rows)
    if total and 2 * (cut + long) > total:
        said.append(
            f"{cut + long} of {total} samples are over the limit ({cut} cut, {long} dropped); "
            "raise data.max_tokens"
        )
    if found.without_signal:
        said.append(f"{found.without_signal} of {len(found.signal)} groups without signal")
    counted = {
        "recorded token ids differ from this tokenizer's; they are used as recorded": [
            r.differs for r in rows
        ],
        "recorded token ids are another tokenizer's; the text is tokenised again": [
            r.source == FOREIGN for r in rows
        ],
        "replies are not given back exactly by the tokenizer": [not r.exact for r in rows],
        SYSTEM_MERGED: [SYSTEM_MERGED in r.notes for r in rows],
        TURNS_JOINED: [TURNS_JOINED in r.notes for r in rows],
        "experience not found in its prompt": ["experience not found in its prompt" in r.notes for r in rows],
    }
    said += [f"{sum(hits)} of {total} samples: {what}" for what, hits in counted.items() if any(hits)]
    return tuple(said)


def _stop(found: Collected, rows: Sequence[Tokens], cut: int, long: int, recipe: Recipe) -> str:
    if not rows:
        why = "; ".join(f"{n} x {r}" for r, n in Counter(d.reason for d in found.dropped).most_common(3))
        return "nothing to train on: the run's training episodes give no sample" + (
            f" ({why})" if why else ""
        )
    if cut + long == len(rows):
        least = min(r.before for r in rows)
        return (
            f"nothing to train on: all {len(rows)} samples are over the limit of {recipe.data.max_tokens} "
            f"tokens ({cut} cut, {long} dropped); the shortest has {least}: raise data.max_tokens"
        )
    used = any(not r.why for r in rows)
    flat = recipe.method == "grpo" and found.without_signal == len(found.signal)
    if flat and not (used and recipe.loss.prediction > 0):
        return (
            f"nothing to train on: {found.without_signal} of {len(found.signal)} groups without signal (all "
            "rollouts of a group earned the same); play more rollouts a task, or harder or easier tasks"
        )
    if not used:
        return "nothing to train on: no sample is left (see the reasons)"
    return ""
