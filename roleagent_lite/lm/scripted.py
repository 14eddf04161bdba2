"""A model that answers by a rule in Python: a stand-in for tests and demonstrations, so named.

Owns nothing but the call of the rule. Everything around it (record, caps, retries) is the real thing.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace

from roleagent_lite.types import Reply, Request, Usage

Rule = Callable[[Request], "str | Reply | Awaitable[str | Reply]"]


class ScriptedModel:
    """`rule(request)` gives the reply, as text or as Reply, or raises a ModelError. It costs nothing.

    Tokens are counted as one for four characters, so that budgets can be tried out. `requests` counts how
    often the rule was asked.
    """

    def __init__(
        self, rule: Rule, name: str = "scripted", *, base_url: str | None = None, can_score: bool = False
    ) -> None:
        self.name = name
        self.base_url = base_url
        self.can_score = can_score
        self.requests = 0
        self._rule = rule

    async def complete(self, request: Request) -> Reply:
        self.requests += 1
        await asyncio.sleep(0)  # a real model lets other rollouts run meanwhile
        answer = self._rule(request)
        if inspect.isawaitable(answer):
            answer = await answer
        reply = Reply(answer) if isinstance(answer, str) else answer
        if reply.usage.input is None and reply.usage.output is None:
            sent = sum(len(m.content) for m in request.messages)
            reply = replace(reply, usage=Usage(input=sent // 4, output=len(reply.text) // 4))
        return reply
