"""How a child is made: one text rewritten by the reflector, or demonstrations swapped for better ones.

Owns the proposals by kind of component and what makes a proposed text unfit (the old one is kept). Leaves
out GEPA's side of it (adapter), the choice of demonstrations (demos) and acceptance (accept).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roleagent_lite.ask import Asker
from roleagent_lite.ask.prompts import holes
from roleagent_lite.errors import ReplyError
from roleagent_lite.evolve import demos
from roleagent_lite.evolve.feedback import Record, render
from roleagent_lite.types import PromptSet, Task

FEEDBACK_CHARS = 6000  # of the feedback in one reflection
_THINKING = re.compile(r"</?(think|thinking|reasoning|reflection)\b[^>]*>", re.IGNORECASE)
_FENCED = re.compile(r"\A```[^\n]*\n(.*?)\n?```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Material:
    """What a proposal may use. `candidates`: solved episodes of this run's training tasks so far."""

    parent: PromptSet
    rows: Sequence[Record]
    failing: Sequence[Task]
    related: Sequence[str]
    candidates: Sequence[demos.Demo]
    sample: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """`text` None: the old text is kept and `why` says for what reason. `paid`: a model was asked.

    `shown`: id of the task whose solution the new text shows; it proves nothing about that task.
    """

    component: str
    text: str | None
    why: str
    paid: bool = False
    shown: str | None = None


@dataclass(frozen=True, slots=True)
class Means:
    """What proposals are made with.

    max_chars: bound of a proposed text, unless the old one is longer already. names: the prompt's own
    placeholders, which a text must not hold, for nothing fills them there.
    """

    asker: Asker
    temperature: float
    max_chars: int
    names: frozenset[str] = frozenset()

    def limit(self, old: str) -> int:
        return max(self.max_chars, len(old))


def unwrap(text: str) -> str:
    """The text without white space around it and without a code fence around the whole of it."""
    text = text.strip()
    whole = _FENCED.match(text)
    return whole[1].strip() if whole and "```" not in whole[1] else text


def fault(new: str, old: str, max_chars: int, names: frozenset[str] = frozenset()) -> str | None:
    """Why a proposed text can't be used, or None.

    Refused: empty; unchanged; a thinking tag in it; a code fence that never closes; longer than `max_chars`;
    a placeholder `{name}` of the old text gone; one of the prompt's own names (`names`) as a new placeholder,
    which nothing would fill.
    """
    gone = sorted(holes(old) - holes(new))
    strange = sorted((holes(new) - holes(old)) & names)
    checks = (
        (not new.strip(), "the proposed text is empty"),
        (bool(_THINKING.search(new)), "the proposed text holds a thinking tag: a half-thought reply"),
        (new.count("```") % 2 == 1, "the proposed text opens a code fence that never closes"),
        (len(new) > max_chars, f"the proposed text has {len(new)} characters, the limit is {max_chars}"),
        (bool(gone), f"the proposed text lacks the placeholder {{{', '.join(gone)}}}"),
        (
            bool(strange),
            f"the proposed text holds the placeholder {{{', '.join(strange)}}}, which nothing fills",
        ),
        (new.strip() == old.strip(), "the proposed text is the old one"),
    )
    return next((why for bad, why in checks if bad), None)


async def rewrite(component: str, material: Material, means: Means) -> Proposal:
    """The reflector rewrites one text from the round's feedback, in one ask; else the old text is kept.

    Errors that end a run (budget, fatal model errors) pass through.
    """
    old = material.parent.texts[component]
    limit = means.limit(old)
    inputs = {
        "component": component,
        "current": old,
        "feedback": render(material.rows, FEEDBACK_CHARS),
        "limit": str(max(1, limit // 7)),  # in words: about six letters and a blank each
    }
    try:
        answer = await means.asker.ask(
            "reflect", inputs, prompt_set=None, sample=f"{material.sample}/{component}",
            temperature=means.temperature,
        )  # fmt: skip
    except ReplyError as error:
        return Proposal(component, None, f"the reflector's reply cannot be used: {error}", paid=True)
    new = unwrap(str(answer.values.get("text") or ""))
    why = fault(new, old, limit, means.names)
    if why is not None:
        return Proposal(component, None, why, paid=True)
    return Proposal(component, new, "rewritten from the round's feedback", paid=True)


async def swap(component: str, material: Material, means: Means) -> Proposal:
    """The best fitting solved episode becomes the first demonstration. No call is made."""
    old = material.parent.texts[component]
    ranked = demos.rank(material.candidates, material.failing, material.related)
    fit = [demo for demo in ranked if not holes(demos.render(demo)) & means.names]
    chosen = demos.swap(old, fit, means.limit(old))
    if chosen is None:
        return Proposal(component, None, "no solved episode is new and short enough to be shown")
    text, demo = chosen
    return Proposal(component, text, f"shows the solved episode {demo.trajectory.id}", shown=demo.task.id)


PROPOSERS: dict[str, Callable[[str, Material, Means], Awaitable[Proposal]]] = {"demonstrations": swap}


async def propose(components: Sequence[str], material: Material, means: Means) -> Proposal:
    """A proposal for the first of `components`, or for a later one where no call was spent on the first.

    A component is named `module.text`; the kind of proposal goes by the text's name (`PROPOSERS`), else it
    is rewritten. With no failing task there is nothing to learn from, and the old texts stay.
    """
    proposal = Proposal(components[0], None, "no failures to learn from")
    if not material.rows:
        return proposal
    for component in components:
        kind = component.rpartition(".")[2]
        proposal = await PROPOSERS.get(kind, rewrite)(component, material, means)
        if proposal.text is not None or proposal.paid:
            break
    return proposal


def rotated(components: Sequence[str], first: str) -> list[str]:
    """The components in their order, from `first` on."""
    start = list(components).index(first)
    return [*components[start:], *components[:start]]


def child_texts(parent: Mapping[str, str], proposal: Proposal) -> dict[str, Any]:
    """The parent's texts with the proposed one in its place; the parent's where nothing was proposed."""
    return dict(parent) if proposal.text is None else {**parent, proposal.component: proposal.text}
