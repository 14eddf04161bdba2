"""The budget of one task: every call made for it is counted, by whatever role, and none is made beyond it.

Owns counting and the refusal. Leaves out the caps over a whole run (lm/ledger.py), which end the run; a
task's budget ends only the attempt at that task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roleagent_lite.ask import Answer, Asker
from roleagent_lite.ask.asker import ASKS
from roleagent_lite.errors import ConfigError, EpisodeEnd, ReplyError
from roleagent_lite.store import Run
from roleagent_lite.types import PromptSet, TaskBudget

SPENT = "budget"  # the reason of an attempt that its budget ended


class Meter:
    """`calls`: ids of all calls made for one task, in order; `dollars` they cost."""

    def __init__(self, budget: TaskBudget, run: Run) -> None:
        self.calls: list[str] = []
        self.dollars = 0.0
        self._budget = budget
        self._run = run

    @property
    def left(self) -> int | None:
        """Calls that may still be made; None where they are not what is counted."""
        if self._budget.rule != "calls" or self._budget.amount is None:
            return None
        return max(0, int(self._budget.amount) - len(self.calls))

    @property
    def spent(self) -> bool:
        """Whether no call may be made any more."""
        cap = self._budget.amount if self._budget.rule == "dollars" else None
        return self.left == 0 or (cap is not None and self.dollars >= cap)

    def end(self) -> EpisodeEnd:
        """What says that the budget is spent."""
        spent = f"{len(self.calls)} calls, {self.dollars:.4f} dollars"
        return EpisodeEnd(SPENT, f"the budget of {self._budget.words} is spent ({spent})")

    def check(self) -> None:
        """Raises EpisodeEnd (budget) where no call may be made any more."""
        if self.spent:
            raise self.end()

    def allows_another(self, call_ids: tuple[str, ...]) -> bool:
        """Whether a call may follow these, which are not counted yet. Raises ConfigError as `take`."""
        if self._budget.rule == "dollars" and self._budget.amount is not None:
            return self.dollars + self._cost(call_ids) < self._budget.amount
        return self.left is None or self.left > len(call_ids)

    def take(self, call_ids: tuple[str, ...]) -> None:
        """Counts calls. Raises ConfigError for one without a price under a budget in dollars."""
        self.calls += call_ids
        if self._budget.rule == "dollars":
            self.dollars += self._cost(call_ids)

    def _cost(self, call_ids: tuple[str, ...]) -> float:
        total = 0.0
        for call_id in call_ids:
            call = self._run.calls.get(call_id)
            cost = call.reply.usage.dollars if call is not None else None
            if cost is None:
                raise ConfigError("a budget in dollars cannot be kept: a call came without a known price")
            total += cost
        return total


class MeteredAsker(Asker):
    """`inner` for one attempt at one task, under `meter`.

    Every sample is put under the attempt's `name` (its trajectory's id), so that what one attempt asks is
    never another's call, in whatever order tasks are played.
    """

    def __init__(self, inner: Asker, meter: Meter, name: str) -> None:
        super().__init__(
            inner.models, inner.prompts, max_tokens=inner.max_tokens, trim=inner.trim, note=inner.note
        )
        self.meter = meter
        self.name = name
        self._inner = inner

    async def ask(
        self,
        module: str,
        inputs: Mapping[str, str],
        *,
        prompt_set: PromptSet | None,
        sample: str,
        asks: int = ASKS,
        **how: Any,
    ) -> Answer:
        """As `Asker.ask`; raises EpisodeEnd (budget) where the budget allows no call, or no re-ask."""
        self.meter.check()
        ended = False

        def again(call_ids: tuple[str, ...]) -> bool:
            nonlocal ended
            ended = not self.meter.allows_another(call_ids)
            return not ended

        own = sample if sample.startswith(self.name) else f"{self.name}/{sample}"
        try:
            answer = await self._inner.ask(
                module, inputs, prompt_set=prompt_set, sample=own, asks=asks, again=again, **how
            )
        except ReplyError as error:
            self.meter.take(error.call_ids)
            if ended:  # a re-ask would have followed
                raise self.meter.end() from error
            raise
        self.meter.take(answer.call_ids)
        return answer
