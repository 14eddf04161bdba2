"""What a run is going to buy, said before the first paid call.

Owns adding up and wording. Leaves out how many calls a job makes (evolve and evals compute that) and what
was really spent (ledger). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roleagent_lite.lm.price import Price
from roleagent_lite.types import Role


@dataclass(frozen=True, slots=True)
class PlannedCalls:
    """`calls` calls of one module in one role; tokens are expected means of a single call."""

    role: Role
    module: str
    calls: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """Totals of a plan. `dollars` None = a price is not known; `rows` are the plan itself."""

    calls: int
    input: int
    output: int
    dollars: float | None
    rows: tuple[PlannedCalls, ...]

    @property
    def words(self) -> str:
        """The plan in a line for each module and one for the total."""
        lines = [
            f"  {row.role:9} {row.module:12} {row.calls:>7,} calls, about {row.input_tokens:,} tokens in "
            f"and {row.output_tokens:,} out each"
            for row in self.rows
            if row.calls
        ]
        if self.dollars is None:
            money = "price unknown (give --price IN/OUT to see dollars)"
        elif self.dollars == 0:
            money = "free"
        else:
            money = f"about ${self.dollars:,.2f}" if self.dollars >= 0.01 else "under $0.01"
        total = (
            f"planned at most {self.calls:,} calls, about {self.input:,} tokens in, "
            f"{self.output:,} out: {money}"
        )
        return "\n".join([*lines, total])


def estimate(planned: Sequence[PlannedCalls], prices: Mapping[Role, Price | None]) -> Estimate:
    """The totals of `planned` at each role's price; a role that makes no calls needs no price."""
    dollars: float | None = 0.0
    for row in planned:
        if not row.calls:
            continue
        price = prices.get(row.role)
        if price is None:
            dollars = None
        elif dollars is not None:
            dollars += row.calls * (row.input_tokens * price.input + row.output_tokens * price.output)
    return Estimate(
        calls=sum(row.calls for row in planned),
        input=sum(row.calls * row.input_tokens for row in planned),
        output=sum(row.calls * row.output_tokens for row in planned),
        dollars=dollars,
        rows=tuple(planned),
    )


def tokens(text: str) -> int:
    """A rough count where no tokenizer is at hand: one token for four characters, rounded up."""
    return (len(text) + 3) // 4
