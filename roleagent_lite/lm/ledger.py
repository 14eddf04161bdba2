"""What was spent, by role and model, and the caps over all of it together.

Owns counting, caps and their survival across a resume (rebuilt from the run's tables). Leaves out prices
(price) and what a failed call means (faults). Unknown is counted as unknown, never as 0.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import Any

from roleagent_lite.config import Budget
from roleagent_lite.errors import BudgetStop, ConfigError
from roleagent_lite.lm.price import FREE, Price
from roleagent_lite.store import Run
from roleagent_lite.types import Usage


@dataclass(slots=True)
class Spent:
    """One line of the ledger. Counts of calls and tokens; dollars of the calls whose price is known.

    `calls`: replies bought, in this process and before it; `replayed`: answered from the record, free;
    `failed`: requests that brought no reply; `lost`: paid for and not usable (empty, cut, in flight at a
    kill), included in `calls`; `unread`: those of `lost` that are among `failed` too, for nothing was there
    to be read, and that may have been charged or not. `cached`: input tokens read from the provider's prompt
    cache, included in `input`. `unknown`: calls whose tokens the server did not say; `unpriced`: calls
    without known dollars.
    """

    role: str
    model: str
    calls: int = 0
    replayed: int = 0
    failed: int = 0
    lost: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    unknown: int = 0
    unpriced: int = 0
    known_dollars: float = 0.0
    unread: int = 0

    @property
    def dollars(self) -> float | None:
        """What all calls cost, None where that is not known of every one."""
        return None if self.unpriced else self.known_dollars

    @property
    def words(self) -> str:
        """One line for people."""
        money = f"${self.known_dollars:.4f}"
        if self.unpriced:
            known = f"at least {money}, " if self.known_dollars else ""
            money = f"{known}price unknown for {self.unpriced} of {self.calls} calls"
        tokens = f"{self.input:,} tokens in ({self.cached:,} from the provider's cache), {self.output:,} out"
        if self.unknown:
            known = f"{tokens}, " if self.input + self.output else "tokens "
            tokens = f"{known}unknown for {self.unknown} calls"
        extra = f", {self.replayed} replayed" if self.replayed else ""
        extra += f", {self.failed} failed requests" if self.failed else ""
        return f"{self.calls} calls{extra}; {tokens}; {money}"

    def _add(self, other: Spent) -> None:
        for field in fields(self)[2:]:
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


@dataclass(frozen=True, slots=True)
class LedgerView:
    """A snapshot: one row a role and model, ordered; `total` over all."""

    rows: tuple[Spent, ...]

    @property
    def total(self) -> Spent:
        out = Spent("all", "all")
        for row in self.rows:
            out._add(row)
        return out

    def role(self, role: str) -> Spent:
        out = Spent(role, ", ".join(sorted({r.model for r in self.rows if r.role == role})))
        for row in self.rows:
            if row.role == role:
                out._add(row)
        return out

    def to_json(self) -> list[dict[str, Any]]:
        """Rows as plain data, `dollars` null where unknown."""
        return [{f.name: getattr(r, f.name) for f in fields(r)} | {"dollars": r.dollars} for r in self.rows]


# What an event of the table `dispatched` says about its call: sent, or a sending that is settled and free.
_SENDINGS = {"call": 1, "again": 1, "failed": -1, "void": -1}


class Ledger:
    """Counts every call of a pool. `reserve` before sending, then `settle` or `release`. Safe for threads."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._rows: dict[tuple[str, str], Spent] = {}
        self._lock = threading.Lock()
        self._flying = 0
        self._guessed = 0.0  # dollars of calls whose usage the server did not say; for the cap alone
        self._stop: str | None = None

    def check_prices(self, prices: dict[str, Price | None]) -> None:
        """Refuses a dollar cap that could not be kept. `prices` by model name. Raises ConfigError."""
        unknown = sorted(model for model, price in prices.items() if price is None)
        if self.budget.max_usd is not None and unknown:
            raise ConfigError(
                f"--max-usd cannot be kept: the price of {', '.join(unknown)} is not known; "
                "give --price IN/OUT (dollars per million tokens), or use --max-calls"
            )

    def _row(self, role: str, model: str) -> Spent:
        key = (role, model)
        if key not in self._rows:
            self._rows[key] = Spent(role, model)
        return self._rows[key]

    def reserve(self, price: Price | None) -> None:
        """Takes the right to one request. Raises BudgetStop once a cap is reached, from then on always."""
        with self._lock:
            if self._stop is None:
                self._stop = self._over(price)
            if self._stop is not None:
                raise BudgetStop(self._stop)
            self._flying += 1

    def _over(self, price: Price | None) -> str | None:
        calls = sum(row.calls for row in self._rows.values())
        dollars = sum(row.known_dollars for row in self._rows.values()) + self._guessed
        cap = self.budget
        flying = f" ({self._flying} more in flight)" if self._flying else ""
        if cap.max_calls is not None and calls + self._flying >= cap.max_calls:
            return self._worded(f"--max-calls {cap.max_calls} reached: {calls} calls made{flying}")
        if cap.max_usd is not None and dollars >= cap.max_usd and (price is None or not price.free):
            spent = f"${dollars:.4f} spent in {calls} calls{flying}"
            return self._worded(f"--max-usd {cap.max_usd:g} reached: {spent}")
        return None

    @staticmethod
    def _worded(what: str) -> str:
        return f"{what}. What is finished is kept; raise the cap and resume with the same command"

    def settle(
        self, role: str, model: str, usage: Usage, price: Price | None = None, guess: Usage | None = None
    ) -> None:
        """A reply came. `guess`: tokens to charge against the dollar cap where the server said none."""
        with self._lock:
            self._flying = max(0, self._flying - 1)
            self._count(role, model, usage)
            if usage.dollars is None and price is not None and guess is not None:
                self._guessed += price.cost(guess) or 0.0

    def release(
        self, role: str, model: str, *, billed: bool, price: Price | None = None, guess: Usage | None = None
    ) -> None:
        """No reply came. `billed`: the server may have worked for it (cut, timed out): counts as lost."""
        with self._lock:
            self._flying = max(0, self._flying - 1)
            row = self._row(role, model)
            row.failed += 1
            if billed:
                free = price is not None and price.free
                self._count(role, model, Usage(dollars=0.0 if free else None))
                row.lost += 1
                row.unread += 1
                if price is not None and guess is not None:
                    self._guessed += price.cost(guess) or 0.0

    def withdraw(self) -> None:
        """The request was never sent (an interrupt)."""
        with self._lock:
            self._flying = max(0, self._flying - 1)

    def lose(self, role: str, model: str) -> None:
        """A counted reply turned out to be unusable."""
        with self._lock:
            self._row(role, model).lost += 1

    def replay(self, role: str, model: str) -> None:
        with self._lock:
            self._row(role, model).replayed += 1

    def _count(self, role: str, model: str, usage: Usage) -> None:
        row = self._row(role, model)
        row.calls += 1
        row.input += usage.input or 0
        row.output += usage.output or 0
        row.cached += usage.cached or 0
        row.unknown += usage.input is None or usage.output is None
        row.unpriced += usage.dollars is None
        row.known_dollars += usage.dollars or 0.0

    def rebuild(self, run: Run, prices: dict[str, Price | None]) -> None:
        """Counts what the run's tables say was spent before, so that caps survive a resume.

        A stored call counts as it was priced then (or at today's price if it had none); each sending of a
        call that was neither answered nor refused counts as lost, tokens unknown.
        """
        for call in run.calls:
            used = call.reply.usage
            price = prices.get(call.model)
            dollars = used.dollars if used.dollars is not None or price is None else price.cost(used)
            with self._lock:
                self._count(
                    call.request.role, call.model, Usage(used.input, used.output, used.cached, None, dollars)
                )
        free = {model: 0.0 for model, price in prices.items() if price == FREE}
        open_: Counter[str] = Counter()  # sendings that brought neither a reply nor a refusal, by call
        who: dict[str, tuple[str, str]] = {}
        for event in run.dispatched:
            role, model = str(event.data.get("role")), str(event.data.get("model"))
            if event.kind == "lost":
                used = Usage(*(event.data.get(f.name) for f in fields(Usage)))
                unread = bool(event.data.get("unread"))
                self._lost(role, model, replace(used, dollars=free.get(model)) if unread else used, unread)
            elif event.kind in _SENDINGS:
                if _SENDINGS[event.kind] < 0:
                    self._failed(role, model, int(event.data.get("requests", event.kind == "failed")))
                if event.kind == "call" and event.key in run.calls:
                    continue  # answered: nearly all are, and a long run's need no memory
                key = re.split(r"[!#-]", event.key)[0]
                open_[key] += _SENDINGS[event.kind]
                who[key] = role, model
        for key, times in open_.items():
            role, model = who[key]
            for _ in range(times):
                self._lost(role, model, Usage(dollars=free.get(model)))

    def _lost(self, role: str, model: str, used: Usage, unread: bool = False) -> None:
        with self._lock:
            self._count(role, model, used)
            row = self._row(role, model)
            row.lost += 1
            row.unread += unread

    def _failed(self, role: str, model: str, requests: int) -> None:
        with self._lock:
            if requests:
                self._row(role, model).failed += requests

    def snapshot(self) -> LedgerView:
        with self._lock:
            return LedgerView(
                tuple(
                    Spent(*(getattr(row, f.name) for f in fields(row)))
                    for _, row in sorted(self._rows.items())
                )
            )
