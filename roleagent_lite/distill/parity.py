"""The parity gate: do base + adapter, the merged model and the served file play alike, and not as the base?

Owns the probes (first prompts of a run's tasks, as they were sent), what each side says to them, and the
judgement. Compared: the prompt's text and tokens, the first greedy tokens, and the action that is chosen
where the run's agent chose among given ones. Leaves out the making of the files (export.py) and the logits of
the merged folder (merge.py).

A difference is excused where the reference itself hardly prefers its own pick: its best and the other side's
are less than `NEAR` nats apart. Such places are listed. Nothing else is excused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, cast

from roleagent_lite.distill.chat import prompt_text
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokenizer import Tokenizer
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from roleagent_lite.types import Message, Request

NEAR = 0.05  # nats between two picks below which either is right
TOKENS = 8  # greedy tokens compared behind each prompt
TASKS = 8  # first prompts compared
_LEAST = 1e-5  # nats on average that an adapter changes; less is rounding
_DISTANCE = 0.5  # a served model must be nearer to base + adapter than this share of its way to the base


@dataclass(frozen=True, slots=True)
class Probe:
    """The first prompt of a task, and the actions offered there (none where the agent wrote its own)."""

    task: str
    messages: tuple[Message, ...]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """What one side says to a probe.

    logps: log-probabilities (nats) of the greedy tokens, None where they are not told; means: of each choice,
    the mean a token; gaps: how much better its own pick is than each of the tokens that it was given, 0 where
    they are one.
    """

    text: str
    ids: tuple[int, ...]
    choice_ids: tuple[tuple[int, ...], ...]
    greedy: tuple[int, ...]
    logps: tuple[float | None, ...]
    means: tuple[float, ...]
    gaps: tuple[float, ...] = ()

    @property
    def action(self) -> int | None:
        return max(range(len(self.means)), key=lambda k: self.means[k]) if self.means else None


class Side(Protocol):
    """One of the players. `follow`: what it says where the first tokens are given by another."""

    name: str

    def say(self, probe: Probe, follow: Sequence[int] | None = None) -> Said: ...


@dataclass(frozen=True, slots=True)
class Report:
    """The comparison of one side with the reference over all probes.

    tokens, actions: how many were alike, of `of_tokens` and `of_actions`; excused: those that differ by less
    than NEAR; faults: what differs without excuse, "" = none. to_reference, to_base: mean difference of
    log-probabilities (nats) of the same tokens and choices.
    """

    side: str
    probes: int
    tokens: int
    of_tokens: int
    actions: int
    of_actions: int
    to_reference: float
    to_base: float
    excused: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    required: bool = True

    def plain(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @property
    def words(self) -> str:
        told = (
            f"{self.side}: {self.actions} of {self.of_actions} first actions, {self.tokens} of "
            f"{self.of_tokens} first tokens as base + adapter; mean difference {self.to_reference:.2g} nats "
            f"({self.to_base:.2g} to the base)"
        )
        return told + (f"; {len(self.excused)} near ties" if self.excused else "")


def probes_of(run: Run, count: int = TASKS) -> list[Probe]:
    """The first prompts of up to `count` of the run's training and dev tasks, with what was offered there.

    Raises RoleAgentError where the run holds none.
    """
    found: dict[str, Probe] = {}
    for trajectory in sorted(run.trajectories, key=lambda t: t.id):
        if len(found) == count:
            break
        if trajectory.split == "test" or not trajectory.steps or trajectory.task in found:
            continue
        for key in trajectory.steps[0].call_ids:
            call = run.calls.get(key)
            if call is None or call.request.role != "agent" or call.request.module == "foretell":
                continue
            choices = call.request.choices or ()
            found[trajectory.task] = Probe(trajectory.task, tuple(call.request.messages), tuple(choices))
            break
    if not found:
        raise RoleAgentError(
            "the run holds no first prompt of a training or dev task, so nothing exported from it can be "
            "checked: play some with evolve or eval"
        )
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Pack:
    """What `policy.packed` reads of a sample: a prompt and its choices."""

    ids: tuple[int, ...]
    start: int
    choices: tuple[tuple[int, ...], ...]


class Torch:
    """A model of transformers' as a side; `off`: the base, with the adapter switched off."""

    def __init__(self, name: str, model: Any, tokenizer: Tokenizer, off: bool = False) -> None:
        self.name, self._model, self._tokenizer, self._off = name, model, tokenizer, off
        self._known: dict[Any, Said] = {}
        self._chosen: dict[Probe, tuple[float, ...]] = {}

    def say(self, probe: Probe, follow: Sequence[int] | None = None) -> Said:
        """Without `follow` the greedy tokens are its own; with it they are its pick behind each of these."""
        key = (probe, None if follow is None else tuple(follow))
        if key not in self._known:
            with load("torch").no_grad():
                if self._off:
                    with self._model.disable_adapter():
                        self._known[key] = self._say(probe, follow)
                else:
                    self._known[key] = self._say(probe, follow)
        return self._known[key]

    def _say(self, probe: Probe, follow: Sequence[int] | None) -> Said:
        text, _ = prompt_text(self._tokenizer.render, probe.messages)
        ids = tuple(self._tokenizer.prompt_ids(text))
        choices = tuple(tuple(self._tokenizer.encode(choice)) for choice in probe.choices)
        given, rows = self._own(ids) if follow is None else (tuple(follow), self._rows(ids, follow))
        return Said(
            text=text,
            ids=ids,
            choice_ids=choices,
            greedy=tuple(int(row.argmax()) for row in rows),
            logps=tuple(float(row[t]) for row, t in zip(rows, given, strict=True)),
            means=self._means_of(probe, ids, choices),
            gaps=tuple(float(row.max() - row[t]) for row, t in zip(rows, given, strict=True)),
        )

    def _own(self, ids: Sequence[int]) -> tuple[tuple[int, ...], Any]:
        """Its greedy tokens, and the rows (see `_rows`) that they were picked from."""
        torch, found, rows, seen, cache = load("torch"), [], [], list(ids), None
        for _ in range(TOKENS):
            out = self._model(
                input_ids=torch.tensor([seen], device=self._model.device), past_key_values=cache,
                logits_to_keep=1, use_cache=True,
            )  # fmt: skip
            rows.append(out.logits[0, -1].float().log_softmax(-1))
            cache, seen = out.past_key_values, [int(rows[-1].argmax())]
            found += seen
            if seen[0] == self._tokenizer.end_id:
                break
        return tuple(found), torch.stack(rows)

    def _rows(self, ids: Sequence[int], more: Sequence[int]) -> Any:
        """Log-probabilities (len(more), vocabulary) of what stands where each of `more` does."""
        torch = load("torch")
        whole = torch.tensor([[*ids, *more]], device=self._model.device)
        logits = self._model(input_ids=whole, logits_to_keep=len(more) + 1, use_cache=False).logits[0]
        return logits[:-1].float().log_softmax(-1)

    def _means_of(
        self, probe: Probe, ids: tuple[int, ...], choices: tuple[tuple[int, ...], ...]
    ) -> tuple[float, ...]:
        """Whatever tokens are followed, the choices stand behind the prompt alone: measured once."""
        if probe not in self._chosen:
            self._chosen[probe] = self._means(ids, choices)
        return self._chosen[probe]

    def _means(self, ids: tuple[int, ...], choices: tuple[tuple[int, ...], ...]) -> tuple[float, ...]:
        if not choices:
            return ()
        player = Policy(self._model, device=str(self._model.device), pad_id=0, reference="")
        sums = player.choice_sums(cast(Tokens, _Pack(ids, len(ids), choices)))
        return tuple(float(total) / len(c) for total, c in zip(sums, choices, strict=True))


class Served:
    """A file as llama.cpp plays it. engine: of lm/embedded.py; end_id: the token that ends a turn."""

    def __init__(self, name: str, engine: Any, end_id: int) -> None:
        self.name, self._engine, self._end = name, engine, end_id

    def say(self, probe: Probe, follow: Sequence[int] | None = None) -> Said:
        """Always its own greedy tokens: it is the one that others follow."""
        text = self._engine.render(probe.messages)
        ids = self._engine.tokenize_prompt(text)
        choices = tuple(self._engine.tokenize(choice) for choice in probe.choices)
        found = self._engine.greedy(ids, TOKENS)
        means: tuple[float, ...] = ()
        if choices:
            request = Request("agent", "choose", probe.messages, choices=probe.choices)
            means = tuple(sum(s) / len(s) for s in self._engine.score(request).scores)
        greedy, logps = tuple(t for t, _ in found), tuple(p for _, p in found)
        return Said(text, tuple(ids), choices, greedy, logps, means)


@dataclass(slots=True)
class _Tally:
    tokens: int = 0
    of_tokens: int = 0
    actions: int = 0
    of_actions: int = 0
    excused: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    to_reference: list[float] = field(default_factory=list)
    to_base: list[float] = field(default_factory=list)


def compare(
    side: Side, reference: Torch, base: Torch, probes: Sequence[Probe], *, required: bool = True
) -> Report:
    """`side` against base + adapter (`reference`) and the base alone, over all probes."""
    tally = _Tally()
    for probe in probes:
        said = side.say(probe)
        wanted = said if side is reference else reference.say(probe, said.greedy)
        plain = base.say(probe, said.greedy)
        _prompts(tally, probe, said, wanted)
        for at, (own, theirs) in enumerate(zip(wanted.greedy, said.greedy, strict=True)):
            tally.of_tokens += 1
            tally.tokens += own == theirs
            if own != theirs:
                _differs(tally, f"{probe.task}, token {at + 1}: {theirs} instead of {own}", wanted.gaps[at])
        _actions(tally, probe, said, wanted)
        for other, into in ((wanted, tally.to_reference), (plain, tally.to_base)):
            mine, its = (*said.logps, *said.means), (*other.logps, *other.means)
            pairs = zip(mine, its, strict=True)
            into.extend(abs(a - b) for a, b in pairs if a is not None and b is not None)
    return _judged(side.name, len(probes), tally, required)


def _prompts(tally: _Tally, probe: Probe, said: Said, wanted: Said) -> None:
    if said.text != wanted.text:
        at = next(
            (k for k, (a, b) in enumerate(zip(said.text, wanted.text, strict=False)) if a != b),
            min(len(said.text), len(wanted.text)),
        )
        tally.faults.append(
            f"{probe.task}: the template gives another prompt from character {at} on: "
            f"{said.text[at : at + 40]!r} instead of {wanted.text[at : at + 40]!r}"
        )
    elif said.ids != wanted.ids or said.choice_ids != wanted.choice_ids:
        tally.faults.append(f"{probe.task}: the same text is read as other tokens")


def _actions(tally: _Tally, probe: Probe, said: Said, wanted: Said) -> None:
    if said.action is None or wanted.action is None:
        return
    tally.of_actions += 1
    tally.actions += said.action == wanted.action
    if said.action != wanted.action:
        gap = wanted.means[wanted.action] - wanted.means[said.action]
        told = f"{probe.choices[said.action].strip()!r} instead of {probe.choices[wanted.action].strip()!r}"
        _differs(tally, f"{probe.task}: {told}", gap)


def _differs(tally: _Tally, what: str, gap: float) -> None:
    told = f"{what} ({gap:.3f} nats apart)"
    (tally.excused if gap < NEAR else tally.faults).append(told)


def _judged(name: str, probes: int, tally: _Tally, required: bool) -> Report:
    near, far = (sum(d) / max(len(d), 1) for d in (tally.to_reference, tally.to_base))
    # Written so that a NaN fails.
    if not (near < _DISTANCE * far and far > _LEAST):
        tally.faults.append(
            f"it cannot be told from the base: log-probabilities are {near:.3g} nats from base + adapter and "
            f"{far:.3g} from the base, so the adapter is missing, or too weak to matter"
        )
    return Report(
        name, probes, tally.tokens, tally.of_tokens, tally.actions, tally.of_actions, near, far,
        tuple(tally.excused), tuple(tally.faults), required,
    )  # fmt: skip


def check(reports: Sequence[Report]) -> None:
    """Raises RoleAgentError where a side that has to does not play as base + adapter."""
    bad = [r for r in reports if r.required and r.faults]
    if bad:
        told = "; ".join(f"{r.side}: {'; '.join(r.faults[:3])}" for r in bad)
        raise RoleAgentError(f"the export does not play as base + adapter: {told}. Nothing was kept of it")
