"""The model in training as a Model of the house: it plays in this process, and scores choices exactly.

Owns requests and replies, and under which name a state of the weights plays. Leaves out reading (prefix.py),
the recorder that stands in front of it, and training.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from roleagent_lite.distill import lora
from roleagent_lite.distill.chat import prompt_text
from roleagent_lite.distill.folded import Folded, can_fold
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokenizer import Tokenizer
from roleagent_lite.distill.whole import reader_of
from roleagent_lite.errors import ContextTooLong, ModelError
from roleagent_lite.types import Message, Reply, Request, Usage

if TYPE_CHECKING:
    from roleagent_lite.lm.retry import Lost

# Which weights play: those in training, those that training started from, the model without any adapter.
ACTING: dict[str, Callable[[Policy], AbstractContextManager[None]]] = {
    "now": lambda policy: contextlib.nullcontext(),
    "start": lambda policy: policy.at_the_start(),
    "base": lambda policy: policy.model.disable_adapter(),
}


def folded(policy: Policy, acting: str) -> Folded | None:
    """The same weights with the adapter folded in; None where they cannot be."""
    if not policy.packs or not can_fold(policy.model):
        return None
    start = lora.FROZEN if lora.FROZEN in policy.model.peft_config else None
    return Folded(policy, {"now": lora.TRAINED, "start": start, "base": None}[acting])


class LocalModel:
    """A `types.Model`. `name` must change with the weights: it is in the recorder's key of every call.

    acting: see `ACTING`. most: tokens of prompt and reply. Answers in the caller's thread, one request after
    the other, but inside `crew`.
    """

    can_score = True
    base_url: str | None = None

    def __init__(
        self, policy: Policy, tokenizer: Tokenizer, name: str, *, acting: str = "now", most: int = 2048
    ) -> None:
        self.name = name
        self.policy = policy
        self.tokenizer = tokenizer
        self._folded = folded(policy, acting)
        play = self._folded.play if self._folded else lambda: ACTING[acting](policy)
        self.reader = reader_of(policy, play, now=acting == "now")
        self._most = most
        self._encoded: dict[str, list[int]] = {}
        self._crew: ThreadPoolExecutor | None = None

    @contextlib.contextmanager
    def crew(self) -> Iterator[None]:
        """Inside, on a CPU, each core answers a request of its own: a pass over some hundred tokens is too
        small for two cores to share (1.1 times as fast as one).

        The scores are the same to the bit on any number of cores. To be entered by the thread that trains;
        the weights must not change inside. Elsewhere, and for back ends that read whole prompts, nothing
        changes.
        """
        torch = load("torch")
        cores = torch.get_num_threads()
        if self._crew is not None or self.policy.device != "cpu" or not self.policy.packs or cores < 2:
            yield
            return
        torch.set_num_threads(1)  # what the threads of the crew begin with; a core that computes alone
        try:
            with ThreadPoolExecutor(cores, "roleagent-play") as self._crew:
                yield
        finally:
            self._crew = None
            torch.set_num_threads(cores)

    def changed(self, name: str) -> LocalModel:
        """The same model after its weights have changed: what it knew of prompts is forgotten."""
        self.reader.forget()
        if self._folded:
            self._folded.forget()
        self.name = name
        return self

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        return self.tokenizer.prompt_ids(prompt_text(self.tokenizer.render, messages)[0])

    def encode(self, text: str) -> list[int]:
        """Token ids of a piece of a reply. Kept, since actions come again and again."""
        if text not in self._encoded:
            self._encoded[text] = self.tokenizer.encode(text)
        return self._encoded[text]

    async def complete(self, request: Request, lost: Lost | None = None) -> Reply:
        """A reply; with `request.choices` their scores instead. `lost` is never called: nothing is paid.

        Raises ContextTooLong where prompt and reply do not fit, ModelError for empty choices.
        """
        prompt = self.prompt_ids(request.messages)
        ids = [self.encode(choice) for choice in request.choices or ()]
        if request.choices is not None and not (ids and all(ids)):
            raise ModelError("choices to score must be one or more non-empty texts")
        self._fits(len(prompt) + max(map(len, ids), default=1))
        if self._crew is None:
            return self._answered(request, prompt, ids)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._crew, self._answered, request, prompt, ids)

    def _answered(self, request: Request, prompt: Sequence[int], ids: Sequence[Sequence[int]]) -> Reply:
        """ids: of the choices."""
        started, before = time.perf_counter(), self.reader.reused
        reply = self._scored(request.choices, prompt, ids) if ids else self._generated(request, prompt)
        used = Usage(len(prompt), reply.usage.output, self.reader.reused - before, dollars=0.0)
        return replace(reply, usage=used, seconds=time.perf_counter() - started)

    def _scored(
        self, choices: Sequence[str] | None, prompt: Sequence[int], ids: Sequence[Sequence[int]]
    ) -> Reply:
        assert choices is not None
        scores = tuple(tuple(s) for s in self.reader.score(prompt, ids))
        best = max(range(len(ids)), key=lambda k: sum(scores[k]) / len(scores[k]))
        return Reply(choices[best], usage=Usage(output=sum(map(len, ids))), scores=scores)

    def _generated(self, request: Request, prompt: Sequence[int]) -> Reply:
        end = self.tokenizer.end_id

        def done(ids: Sequence[int]) -> bool:
            return ids[-1] == end or any(s in self.tokenizer.decode(ids) for s in request.stop)

        most = min(request.max_tokens, self._most - len(prompt))
        seed = f"{request.seed}/{request.sample}"
        written = self.reader.write(prompt, most=most, temperature=request.temperature, seed=seed, done=done)
        ids = [token for token, _ in written]
        ended = ids[-1] == end
        text = self.tokenizer.decode(ids[:-1] if ended else ids)
        stops = [text.find(s) for s in request.stop if s in text]
        finish = "stop" if ended or stops else "length"
        return Reply(
            text[: min(stops)] if stops else text, finish, usage=Usage(output=len(ids)),
            token_ids=None if stops else tuple(ids), logprobs=None if stops else tuple(p for _, p in written),
        )  # fmt: skip

    def _fits(self, tokens: int) -> None:
        if tokens > self._most:
            raise ContextTooLong(
                f"{tokens} tokens of prompt and reply, {self._most} allowed (data.max_tokens)"
            )
