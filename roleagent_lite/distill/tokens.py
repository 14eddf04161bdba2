"""From a sample to token ids and a mask: 1 on what the agent said and on the token that ended its turn.

Owns the border between prompt and reply, the use of recorded ids, thinking, cutting to a length, and right
padding of a batch. Leaves out tokenizers (tokenizer.py) and what is done with the batch (loss.py).

The rules. Prompt and reply are tokenised apart, as they came into being. The reply is as received; thinking
that the server gave apart is put back in `<think>` tags, where the prompt has not opened them already, and a
block that the prompt opened is always closed, never doubled. The end-of-turn token belongs to the reply where
the model wrote it, whatever the padding token is. Recorded ids are used as they are where this tokenizer
reads the reply in them. A sample over the limit loses whole old exchanges (a reply and what answered it), the
oldest first; system text, first user message and the newest exchange stay. What is then too long still is
dropped: a message is never cut inside, and a reply never at all. Batches are padded on the right, whatever
side a tokenizer prefers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from roleagent_lite.distill.chat import prompt_text
from roleagent_lite.distill.samples import Sample
from roleagent_lite.distill.tokenizer import Tokenizer
from roleagent_lite.lm.thinking import split
from roleagent_lite.types import Message

_OPEN, _CLOSE = "<think>", "</think>"
RECORDED, RETOKENISED, FOREIGN = "recorded", "retokenised", "foreign"


@dataclass(frozen=True, slots=True)
class Tokens:
    """A sample in tokens. ids = prompt + reply; mask: one 0 or 1 an id, 1 from `start` on.

    predicted: 1 on tokens of predictions that came true. logprobs: recorded log-probabilities of the ids from
    `start` on (nats), or None. source: recorded ids, retokenised text, or foreign (ids of another tokenizer
    were recorded, so the text was tokenised again); differs: recorded ids that this tokenizer would not give
    for their text. choices: ids of each scored choice, the sample's own reply among them. removed: messages
    cut away; before: tokens without any cutting. sent: tokens of the prompt as sent, where another stands in
    its place (bake.py). why: "" where it is used.
    """

    sample: Sample
    messages: tuple[Message, ...]
    ids: tuple[int, ...]
    start: int
    predicted: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None
    source: str = RETOKENISED
    differs: bool = False
    exact: bool = True
    choices: tuple[tuple[int, ...], ...] = ()
    removed: int = 0
    before: int = 0
    sent: int | None = None
    why: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def mask(self) -> tuple[int, ...]:
        return (0,) * self.start + (1,) * (len(self.ids) - self.start)


def tokenise(
    sample: Sample, tokenizer: Tokenizer, max_tokens: int, too_long: Literal["cut", "drop"] = "cut"
) -> Tokens:
    """`sample` in at most `max_tokens` tokens, or with `why` it does not fit.

    Raises ConfigError where the chat template takes the messages in no form.
    """
    prompt, notes = prompt_text(tokenizer.render, sample.messages)
    reply = _Reply(sample, tokenizer, prompt)
    prompt_ids = tokenizer.prompt_ids(prompt)
    before = len(prompt_ids) + len(reply.ids)
    messages: Sequence[Message] = sample.messages
    why = ""
    if before > max_tokens:
        why = f"{before} tokens, {max_tokens} allowed"
        if too_long == "cut":
            shorter = _shortened(sample.messages, tokenizer, max_tokens - len(reply.ids))
            if shorter is None:
                why += "; its newest exchange alone is too long"
            else:
                (messages, prompt_ids), why = shorter, ""
    ids = (*prompt_ids, *reply.ids)
    return Tokens(
        sample=sample, messages=tuple(messages), ids=ids, start=len(prompt_ids),
        predicted=(0,) * len(prompt_ids) + reply.predicted, logprobs=reply.logprobs, source=reply.source,
        differs=reply.differs, exact=reply.exact,
        choices=tuple(tuple(tokenizer.encode(c)) for c in sample.choices),
        removed=len(sample.messages) - len(messages), before=before, why=why,
        notes=(*sample.notes, *notes, *reply.notes),
    )  # fmt: skip


def prompt_tokens(messages: Sequence[Message], tokenizer: Tokenizer) -> int:
    """Tokens of a prompt, as `tokenise` counts them. Raises ConfigError as it does."""
    return len(tokenizer.prompt_ids(prompt_text(tokenizer.render, messages)[0]))


class _Reply:
    """The ids of a reply behind a prompt, and what they are."""

    def __init__(self, sample: Sample, tokenizer: Tokenizer, prompt: str) -> None:
        self.notes: tuple[str, ...] = ()
        self.text, shift = _worded(sample, prompt)
        self.source, self.differs = RETOKENISED, False
        own = tokenizer.encode(self.text)
        recorded = list(sample.token_ids or ())
        if recorded:
            end = [tokenizer.end_id] if recorded[-1] == tokenizer.end_id else []
            body = recorded[: len(recorded) - len(end)]
            if _reads(tokenizer.decode(body), self.text, sample):
                self.source, self.differs, own = RECORDED, body != own, body
            else:
                self.source = FOREIGN
        known = sample.logprobs
        self.ids = (*own, tokenizer.end_id) if sample.ended else tuple(own)
        self.logprobs = None
        if known is not None and self.source != FOREIGN and len(known) in (len(own), len(self.ids)):
            # A recorded reply may lack the value of its last token; then the trainer computes them all.
            self.logprobs = tuple(known) if len(known) == len(self.ids) else None
        self.exact = tokenizer.decode(own) == self.text
        self.predicted = self._predicted(own, tokenizer, sample, shift)

    def _predicted(
        self, own: Sequence[int], tokenizer: Tokenizer, sample: Sample, shift: int
    ) -> tuple[int, ...]:
        """1 on each token that lies wholly inside a range that came true."""
        flags = [0] * len(self.ids)
        if not sample.matched or not self.exact:
            return tuple(flags)
        borders = _borders(own, tokenizer)
        ranges = [(a + shift, b + shift) for a, b in sample.matched]
        for k in range(len(own)):
            flags[k] = int(any(a <= borders[k] < borders[k + 1] <= b for a, b in ranges))
        return tuple(flags)


def _borders(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Where each token begins in the text, in characters, and where the last one ends."""
    borders = [0]
    for k in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:k])
        # half a character decodes to a replacement mark: the border is before it until it is whole
        borders.append(max(borders[-1], len(text.rstrip("\ufffd"))))
    return borders


def _worded(sample: Sample, prompt: str) -> tuple[str, int]:
    """The reply as one text behind `prompt`, and by how many characters `sample.text` stands further in
    it."""
    opened = prompt.rstrip().endswith(_OPEN)
    text = sample.text
    shift = 0
    if opened and text.lstrip().startswith(_OPEN):
        rest = text.lstrip().removeprefix(_OPEN).lstrip("\n")
        shift, text = len(rest) - len(text), rest
    if sample.reasoning and split(text)[1] is None:
        head = f"{sample.reasoning.strip()}\n{_CLOSE}\n\n"
        head = head if opened else f"{_OPEN}\n{head}"
        return head + text, shift + len(head)
    if opened and _CLOSE not in text:
        head = f"{_CLOSE}\n\n"
        return head + text, shift + len(head)
    return text, shift


def _reads(decoded: str, text: str, sample: Sample) -> bool:
    """Whether recorded ids say what was received: the same text but for blanks that servers strip."""
    return decoded.strip() == text.strip() or decoded.strip() == sample.text.strip()


def _shortened(
    messages: Sequence[Message], tokenizer: Tokenizer, room: int
) -> tuple[list[Message], list[int]] | None:
    """The longest conversation of at most `room` tokens that the cutting rule gives, with its ids."""
    candidates = shorter(messages)

    def ids(k: int) -> list[int]:
        return tokenizer.prompt_ids(prompt_text(tokenizer.render, candidates[k])[0])

    low, high = 0, len(candidates)
    while low < high:  # lengths fall with each exchange that goes
        middle = (low + high) // 2
        low, high = (low, middle) if len(ids(middle)) <= room else (middle + 1, high)
    return (candidates[low], ids(low)) if low < len(candidates) else None


def shorter(messages: Sequence[Message]) -> list[list[Message]]:
    """The conversation with 1, 2, ... of its oldest exchanges gone; empty where it has only one."""
    head = 0
    while head < len(messages) and messages[head].role == "system":
        head += 1
    head += int(head < len(messages) and messages[head].role == "user")
    starts = [k for k in range(head, len(messages)) if messages[k].role == "assistant"]
    # An exchange begins with a reply; the last one that must stay holds a reply and what answered it.
    if messages and messages[-1].role == "assistant":
        starts = starts[:-1] if len(starts) > 1 else []
    return [[*messages[:head], *messages[k:]] for k in starts[1:]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of equal length, padded on the right. attention: 1 on real tokens; mask and predicted as in
    Tokens; advantages: one a row."""

    ids: list[list[int]]
    attention: list[list[int]]
    mask: list[list[int]]
    predicted: list[list[int]]
    advantages: list[float]


def collate(rows: Sequence[Tokens], pad_id: int) -> Batch:
    """A batch of `rows`. Padding has attention and mask 0, even where its id is the end-of-turn token's."""
    width = max((len(r.ids) for r in rows), default=0)

    def filled(values: Sequence[int], blank: int) -> list[int]:
        return [*values, *([blank] * (width - len(values)))]

    return Batch(
        ids=[filled(r.ids, pad_id) for r in rows],
        attention=[filled((1,) * len(r.ids), 0) for r in rows],
        mask=[filled(r.mask, 0) for r in rows],
        predicted=[filled(r.predicted, 0) for r in rows],
        advantages=[r.sample.advantage for r in rows],
    )
