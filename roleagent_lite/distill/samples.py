"""From the tables of a run to samples: each step's messages as sent, its reply as received, its advantage.

Owns which call of a step acted, what its reply is, who is compared with whom, and what is left out and why.
Only the training split is read. Leaves out rewards that are no numbers (rows.py), tokens and masks
(tokens.py).

The rules. A step's acting call is the last of its calls whose answer is what the agent said; predictions
asked for in a call of their own are samples of their own, without advantage. Where the model scored choices,
the reply is the action that was drawn (not the best one), and no end of turn belongs to it: the log goes on
behind it. Nothing is rendered again from history: a sample's messages are those of its call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from roleagent_lite.agents.choose import REPEAT
from roleagent_lite.config import Wia
from roleagent_lite.distill.rows import Dropped, read
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.lm.thinking import split
from roleagent_lite.redact import mend
from roleagent_lite.store import Run
from roleagent_lite.types import Call, Credit, Message, Step, Trajectory
from roleagent_lite.wia.credit import OUTCOMES, credit_group

PREDICTING = ("predict", "foretell")  # modules whose replies foretell and do not act
EXPERIENCE = "experience"  # kind of the events that hold what retrieval put into prompts, as {"text": ...}


@dataclass(frozen=True, slots=True)
class Sample:
    """One reply to learn from. `id` is `trajectory/step`, with `/predict` for a reply that only foretells.

    text: the reply as received; reasoning: thinking that the server gave apart. ended: the model closed its
    turn behind it. reward: R^E of the episode; step_reward: R_t; advantage: A of the step (0 where it only
    foretells). token_ids and logprobs (nats) as recorded with the reply, None where they were not. choices:
    the admissible replies that were scored, the text among them; scores: their recorded token
    log-probabilities (nats), () where there are none; penalties: what the agent took off each for repeats
    (nats), () where it does not choose by mean log-probability; temperature: of its draw. matched: character
    ranges of `text` that foretold with an alignment of at least the wanted one. alignment: mean over the
    step's horizon or None. parts: A^S and A^E. call, prompt_set: ids of what was asked,
    and of the texts it was asked with.
    """

    id: str
    kind: Literal["act", "predict"]
    trajectory: str
    step: int
    group: str
    task: str
    round: int
    model: str
    messages: tuple[Message, ...]
    text: str
    reasoning: str | None
    ended: bool
    reward: float
    step_reward: float
    advantage: float
    solved: bool
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    choices: tuple[str, ...] = ()
    scores: tuple[tuple[float, ...], ...] = ()
    penalties: tuple[float, ...] = ()
    temperature: float = 1.0
    matched: tuple[tuple[int, int], ...] = ()
    alignment: float | None = None
    notes: tuple[str, ...] = ()
    parts: tuple[float, float] = (0.0, 0.0)
    call: str = ""
    prompt_set: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    """samples, group by group, rollouts by index, then steps; dropped: what did not become one.

    signal: group -> whether any of its advantages is not 0.
    """

    samples: tuple[Sample, ...]
    dropped: tuple[Dropped, ...]
    signal: Mapping[str, bool]
    trajectories: int

    @property
    def without_signal(self) -> int:
        return sum(not has for has in self.signal.values())


def collect(
    run: Run,
    *,
    rounds: Sequence[int] = (),
    strip_experience: bool = True,
    predictions: bool = False,
    matched: float = 0.9,
) -> Collected:
    """The samples of a run's training episodes.

    rounds: only these; empty = all. predictions: also replies that only foretell, and the character ranges
    that foretold with an alignment of at least `matched`. Raises RoleAgentError naming the trajectory whose
    reward or advantage is rubbish.
    """
    found, dropped = read(run)
    wanted = [t for t in found if t.split == "train" and (not rounds or t.round in rounds)]
    teaching, others = _teaching(wanted)
    credits = _credits(run, teaching, {d.group for d in dropped})
    samples: list[Sample] = []
    lost = [*dropped, *others]
    signal: dict[str, bool] = {}
    pieces = _experience(run) if strip_experience else ()
    for trajectory in _in_groups(teaching):
        credit = credits[trajectory.id]
        signal[trajectory.group] = signal.get(trajectory.group, False) or any(credit.advantage)
        for number, step in enumerate(trajectory.steps, 1):
            made = _of_step(run, trajectory, credit, number, step, matched if predictions else None)
            if isinstance(made, Dropped):
                lost.append(made)
            else:
                samples += [_stripped(s, pieces, trajectory.arm) for s in made]
    return Collected(tuple(samples), tuple(lost), signal, len(teaching))


def _teaching(trajectories: Iterable[Trajectory]) -> tuple[list[Trajectory], list[Dropped]]:
    kept, dropped = [], []
    for t in trajectories:
        if t.outcome.teaches:
            kept.append(t)
        else:
            why = f"{t.outcome.kind} ({t.outcome.reason})" if t.outcome.reason else t.outcome.kind
            dropped.append(Dropped(t.id, t.group, f"{why} teaches nothing"))
    return kept, dropped


def _in_groups(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """By group in the order of first appearance, whatever the order of rows; rollouts by index."""
    first: dict[str, int] = {}
    for t in trajectories:
        first.setdefault(t.group, len(first))
    return sorted(trajectories, key=lambda t: (first[t.group], t.rollout))


def _credits(run: Run, trajectories: Sequence[Trajectory], broken: set[str]) -> dict[str, Credit]:
    """The stored credits; computed afresh for a group that lacks one or that lost a member to its reward."""
    members: dict[str, list[Trajectory]] = {}
    for t in trajectories:
        members.setdefault(t.group, []).append(t)
    found: dict[str, Credit] = {}
    for group, own in members.items():
        stored = [c for t in own if (c := run.credits.get(t.id)) is not None]
        whole = len(stored) == len(own) and group not in broken
        for credit in stored if whole else _recomputed(own, run.config.wia):
            found[credit.trajectory] = credit
    for t in trajectories:
        _check(found[t.id], t)
    return found


def _recomputed(members: Sequence[Trajectory], wia: Wia) -> list[Credit]:
    return credit_group(members, wia)


def _check(credit: Credit, trajectory: Trajectory) -> None:
    if len(credit.advantage) != len(trajectory.steps) or len(credit.reward) != len(trajectory.steps):
        raise RoleAgentError(
            f"trajectory {trajectory.id}: its credit has {len(credit.advantage)} advantages for "
            f"{len(trajectory.steps)} steps; delete its line in credits.jsonl to have it computed again"
        )


def _of_step(
    run: Run, trajectory: Trajectory, credit: Credit, number: int, step: Step, matched: float | None
) -> list[Sample] | Dropped:
    name = f"{trajectory.id}/{number}"
    calls = [c for key in step.call_ids if (c := run.calls.get(key)) is not None]
    acting = [c for c in calls if c.request.module not in PREDICTING and _said(c, step) is not None]
    if not acting:
        return Dropped(name, trajectory.group, _why_not(step, calls))
    call = acting[-1]
    text = _said(call, step)
    assert text is not None
    aligned = credit.alignment[number - 1] if number <= len(credit.alignment) else ()
    known = [a for a in aligned if a is not None]
    good = [h for h, a in enumerate(aligned) if matched is not None and a is not None and a >= matched]
    sample = Sample(
        id=name, kind="act", trajectory=trajectory.id, step=number, group=trajectory.group,
        task=trajectory.task, round=trajectory.round, model=call.model, messages=call.request.messages,
        text=text, reasoning=call.reply.reasoning, ended=_ended(call),
        reward=OUTCOMES[run.config.wia.outcome](trajectory), step_reward=credit.reward[number - 1],
        advantage=credit.advantage[number - 1], parts=_parts(credit, number), solved=trajectory.solved,
        choices=call.request.choices or (), scores=call.reply.scores or (),
        penalties=_penalties(run, call, trajectory, number),
        temperature=run.config.evolve.temperature or 1.0,
        alignment=sum(known) / len(known) if known else None,
        matched=_ranges(text, step, good), notes=("asked again",) if len(acting) > 1 else (),
        token_ids=None if call.request.choices is not None else call.reply.token_ids,
        logprobs=_logprobs(call, text), call=call.id, prompt_set=trajectory.prompt_set,
    )  # fmt: skip
    made = [sample]
    foretelling = [c for c in calls if c.request.module in PREDICTING]
    if matched is not None and foretelling:
        made.append(_foretold(sample, foretelling[-1], step, good, len(aligned)))
    return made


def _parts(credit: Credit, number: int) -> tuple[float, float]:
    own = credit.state_advantage
    return own[number - 1] if number <= len(own) else 0.0, credit.episode_advantage


def _foretold(sample: Sample, call: Call, step: Step, good: Sequence[int], asked: int) -> Sample:
    """The sample of a reply that only foretells: whole where all of it came true, else its true parts."""
    text = call.reply.text
    whole = asked > 0 and len(good) == asked
    return replace(
        sample, id=f"{sample.id}/predict", kind="predict", messages=call.request.messages, text=text,
        reasoning=call.reply.reasoning, ended=_ended(call), advantage=0.0, choices=(), parts=(0.0, 0.0),
        scores=(), penalties=(),
        matched=((0, len(text)),) if whole else _ranges(text, step, good), notes=(),
        token_ids=call.reply.token_ids, logprobs=call.reply.logprobs, call=call.id,
    )  # fmt: skip


def _said(call: Call, step: Step) -> str | None:
    """The reply text of `call` if it is what was said in `step`: as received, or the choice that was
    drawn."""
    if call.request.choices is not None:
        wanted = (step.said or step.action).strip()
        return next((c for c in call.request.choices if c.strip() == wanted), None)
    answer, _ = split(call.reply.text)
    return call.reply.text if mend(answer) == step.said else None


def _why_not(step: Step, calls: Sequence[Call]) -> str:
    if not step.call_ids:
        return "no call: the action was not a model's"
    if not calls:
        return "its calls are not in the run"
    return "none of its calls holds what the agent said"


def _ended(call: Call) -> bool:
    """Whether the model closed its turn itself: not at a stop text, the token limit, or a scored choice."""
    return call.reply.finish == "stop" and not call.request.stop and call.request.choices is None


def _logprobs(call: Call, text: str) -> tuple[float, ...] | None:
    """Log-probabilities as recorded; of a scored choice, those of its tokens."""
    if call.request.choices is None:
        return call.reply.logprobs
    scores, place = call.reply.scores or (), call.request.choices.index(text)
    return scores[place] if place < len(scores) else None


def _penalties(run: Run, call: Call, trajectory: Trajectory, number: int) -> tuple[float, ...]:
    """What the agent `choose` took off each choice for moves made before in the episode."""
    if call.request.choices is None or run.config.agent not in ("choose", "auto"):
        return ()
    made = [step.action for step in trajectory.steps[: number - 1]]
    return tuple(REPEAT * made.count(choice.strip()) for choice in call.request.choices)


def _ranges(text: str, step: Step, wanted: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Where the predictions `wanted` (by horizon, from 0) stand in a reply, as plain or as JSON text."""
    found, behind = [], max(text.find('"predictions"'), 0)
    for h, prediction in enumerate(step.predictions):
        for form in _forms(prediction or ""):
            at = text.find(form, behind)
            if form and at >= 0:
                behind = at + len(form)
                found += [(at, behind)] if h in wanted else []
                break
    return tuple(found)


def _forms(prediction: str) -> Iterator[str]:
    import json

    yield prediction
    yield json.dumps(prediction, ensure_ascii=False)[1:-1]
    yield json.dumps(prediction)[1:-1]


def _experience(run: Run) -> tuple[str, ...]:
    """Texts that retrieval put into prompts, the longest first, as the run's events tell."""
    texts = {str(e.data.get("text", "")).strip() for e in run.events if e.kind == EXPERIENCE}
    return tuple(sorted(texts - {""}, key=len, reverse=True))


def _stripped(sample: Sample, pieces: Sequence[str], arm: str) -> Sample:
    """`sample` without retrieved experience: a message that is it goes, a block inside one is cut out."""
    if arm == "none" or not pieces:
        return sample
    kept: list[Message] = []
    taken = 0
    for message in sample.messages:
        text = message.content
        for piece in pieces:
            if piece in text:
                text, taken = text.replace(piece, ""), taken + 1
        if text == message.content:
            kept.append(message)
        elif text.strip():
            kept.append(Message(message.role, _closed(text)))
    if not taken:
        return replace(sample, notes=(*sample.notes, "experience not found in its prompt"))
    return replace(sample, messages=tuple(kept), notes=(*sample.notes, "experience stripped"))


def _closed(text: str) -> str:
    """No more than one empty line where a block was."""
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip()


def imitable(collected: Collected, min_alignment: float, per_task: int) -> Collected:
    """The samples for imitation: of solved episodes whose mean alignment is at least `min_alignment`.

    Of each task the `per_task` best foretold, then the shortest, then by id. An episode without any
    prediction passes only where `min_alignment` is 0. The rest is listed as dropped.
    """
    episodes: dict[str, list[Sample]] = {}
    for sample in collected.samples:
        episodes.setdefault(sample.trajectory, []).append(sample)

    def foretold(samples: Sequence[Sample]) -> float:
        known = [s.alignment for s in samples if s.alignment is not None and s.kind == "act"]
        return sum(known) / len(known) if known else 0.0

    taken: Counter[str] = Counter()
    chosen: set[str] = set()
    dropped = list(collected.dropped)
    for name, own in sorted(episodes.items(), key=lambda e: (-foretold(e[1]), len(e[1]), e[0])):
        why = ""
        if not own[0].solved:
            why = "not solved"
        elif foretold(own) < min_alignment:
            why = f"foretold with {foretold(own):.2f}, {min_alignment:g} is wanted"
        elif taken[own[0].task] >= per_task:
            why = f"{per_task} better episodes of its task"
        if why:
            dropped.append(Dropped(name, own[0].group, why))
        else:
            taken[own[0].task] += 1
            chosen.add(name)
    samples = tuple(s for s in collected.samples if s.trajectory in chosen)
    return replace(collected, samples=samples, dropped=tuple(dropped))
