"""Puts the ledger around a model: a right to send before each request, a count after it.

Owns what is billed for which ending. Leaves out counting itself (ledger) and asking again (retry).
"""

from __future__ import annotations

from dataclasses import replace

from roleagent_lite.errors import ModelError
from roleagent_lite.lm.faults import may_be_billed
from roleagent_lite.lm.ledger import Ledger
from roleagent_lite.lm.price import Price
from roleagent_lite.types import Model, Reply, Request, Usage


class Capped:
    """`inner` under the ledger's caps. The reply's usage comes back with its dollars, None = unknown."""

    def __init__(self, inner: Model, ledger: Ledger, price: Price | None) -> None:
        self.name, self.base_url, self.can_score = inner.name, inner.base_url, inner.can_score
        self._inner, self._ledger, self._price = inner, ledger, price

    async def complete(self, request: Request) -> Reply:
        """Raises BudgetStop at a cap, and what `inner` raises."""
        ledger, price = self._ledger, self._price
        ledger.reserve(price)
        open_ = True
        try:
            reply = await self._inner.complete(request)
            open_ = False
        except ModelError as error:
            billed = may_be_billed(error)
            ledger.release(request.role, self.name, billed=billed, price=price, guess=guess(request, ""))
            open_ = False
            raise
        finally:
            if open_:  # an interrupt or a fault of ours: no reply, no verdict, the call is redone at resume
                ledger.withdraw()
        dollars = price.cost(reply.usage) if price is not None else None
        reply = replace(reply, usage=replace(reply.usage, dollars=dollars))
        ledger.settle(request.role, self.name, reply.usage, price, guess(request, reply.text))
        return reply


def guess(request: Request, text: str) -> Usage:
    """Tokens of a call whose server does not count: one for three characters, high rather than low."""
    sent = sum(len(m.content) for m in request.messages)
    return Usage(input=sent // 3 + 1, output=len(text) // 3 + 1)
