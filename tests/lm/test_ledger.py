"""Spending by role, caps over all roles, unknown kept unknown, and a resume that starts where it stopped."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from roleagent_lite.config import Budget, RunConfig
from roleagent_lite.errors import BudgetStop, ConfigError
from roleagent_lite.lm.ledger import Ledger
from roleagent_lite.lm.price import FREE, Price
from roleagent_lite.store import Event, Run
from roleagent_lite.types import Call, Reply, Usage
from tests.lm.kit import ask

PRICE = Price(1e-4, 1e-4)


def buy(ledger: Ledger, usage: Usage, role: str = "agent", price: Price | None = PRICE) -> None:
    ledger.reserve(price)
    ledger.settle(role, "m", usage, price, Usage(50, 50))


def test_rows_by_role_and_their_total() -> None:
    ledger = Ledger(Budget())
    buy(ledger, Usage(100, 10, 60, dollars=0.01))
    buy(ledger, Usage(200, 20, dollars=0.02))
    buy(ledger, Usage(5, 1, dollars=0.001), role="judge")
    ledger.replay("agent", "m")
    view = ledger.snapshot()
    agent = view.role("agent")
    assert (agent.calls, agent.replayed, agent.input, agent.output, agent.cached) == (2, 1, 300, 30, 60)
    assert agent.dollars == pytest.approx(0.03)
    assert view.total.calls == 3
    assert view.total.dollars == pytest.approx(0.031)
    assert view.role("world").calls == 0
    assert [row["role"] for row in view.to_json()] == ["agent", "judge"]
    assert "2 calls, 1 replayed; 300 tokens in (60 from the provider's cache), 30 out; $0.0300" in agent.words


def test_a_snapshot_does_not_move() -> None:
    ledger = Ledger(Budget())
    before = ledger.snapshot()
    buy(ledger, Usage(1, 1, dollars=1))
    assert before.rows == () and ledger.snapshot().total.calls == 1


def test_acc_01_unknown_tokens_and_prices_are_counted_never_zero() -> None:
    ledger = Ledger(Budget())
    buy(ledger, Usage(100, 10, dollars=0.01))
    buy(ledger, Usage(), price=None)
    buy(ledger, Usage(None, 7), price=None)
    total = ledger.snapshot().total
    assert (total.calls, total.unknown, total.unpriced, total.output) == (3, 2, 2, 17)
    assert total.dollars is None and total.known_dollars == pytest.approx(0.01)
    assert "unknown for 2 calls" in total.words
    assert "at least $0.0100, price unknown for 2 of 3 calls" in total.words
    assert ledger.snapshot().to_json()[0]["dollars"] is None


def test_acc_03_the_dollar_cap_stops_all_roles_and_stays() -> None:
    ledger = Ledger(Budget(max_usd=0.05))
    for role in ("agent", "world", "judge"):
        buy(ledger, Usage(100, 100, dollars=0.02), role)
    with pytest.raises(BudgetStop, match=r"--max-usd 0\.05 reached: \$0\.0600 spent in 3 calls.*resume"):
        ledger.reserve(PRICE)
    with pytest.raises(BudgetStop):
        ledger.reserve(FREE)


def test_acc_03_the_overshoot_is_one_call_a_worker() -> None:
    ledger = Ledger(Budget(max_usd=0.05))
    sent = in_flight = 0
    said = ""
    for _ in range(100):  # four workers, each with one request in the air
        while in_flight < 4:
            try:
                ledger.reserve(PRICE)
            except BudgetStop as stop:
                said = said or str(stop)
                break
            sent, in_flight = sent + 1, in_flight + 1
        if not in_flight:
            break
        ledger.settle("agent", "m", Usage(100, 100, dollars=0.02), PRICE)
        in_flight -= 1
    assert sent == 3 + 3
    assert "$0.0600 spent in 3 calls (3 more in flight)" in said
    assert ledger.snapshot().total.known_dollars == pytest.approx(0.12)


def test_the_call_cap_is_exact_with_calls_in_flight() -> None:
    ledger = Ledger(Budget(max_calls=3))
    ledger.reserve(PRICE)
    ledger.reserve(PRICE)
    ledger.reserve(PRICE)
    with pytest.raises(BudgetStop, match=r"--max-calls 3 reached: 0 calls made \(3 more in flight\)"):
        ledger.reserve(PRICE)


def test_a_failed_request_gives_its_place_back() -> None:
    ledger = Ledger(Budget(max_calls=1))
    ledger.reserve(PRICE)
    ledger.release("agent", "m", billed=False)
    ledger.reserve(PRICE)
    ledger.withdraw()
    buy(ledger, Usage(1, 1, dollars=0))
    row = ledger.snapshot().total
    assert (row.calls, row.failed, row.lost) == (1, 1, 0)


def test_a_request_that_may_have_been_billed_counts() -> None:
    ledger = Ledger(Budget(max_calls=1))
    ledger.reserve(PRICE)
    ledger.release("agent", "m", billed=True)
    row = ledger.snapshot().total
    assert (row.calls, row.failed, row.lost, row.unknown, row.dollars) == (1, 1, 1, 1, None)
    with pytest.raises(BudgetStop):
        ledger.reserve(PRICE)


def test_a_server_that_does_not_count_cannot_pass_the_cap() -> None:
    ledger = Ledger(Budget(max_usd=0.05))
    for _ in range(5):  # 100 guessed tokens are 0.01 dollars
        buy(ledger, Usage())
    with pytest.raises(BudgetStop):
        ledger.reserve(PRICE)
    assert ledger.snapshot().total.dollars is None


def test_a_free_model_is_not_stopped_by_a_dollar_cap_of_zero() -> None:
    ledger = Ledger(Budget(max_usd=0))
    buy(ledger, Usage(1, 1, dollars=0.0), price=FREE)
    buy(ledger, Usage(1, 1, dollars=0.0), price=FREE)
    with pytest.raises(BudgetStop):
        ledger.reserve(PRICE)


def test_an_unknown_price_refuses_a_dollar_cap_before_the_first_call() -> None:
    with pytest.raises(
        ConfigError, match=r"price of a, b is not known; give --price IN/OUT .* or use --max-calls"
    ):
        Ledger(Budget(max_usd=1)).check_prices({"b": None, "a": None, "c": PRICE})
    Ledger(Budget(max_calls=1)).check_prices({"a": None})
    Ledger(Budget(max_usd=1)).check_prices({"a": FREE})


def test_threads_lose_nothing() -> None:
    ledger = Ledger(Budget())
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: buy(ledger, Usage(1, 2, dollars=0.5)), range(400)))
    total = ledger.snapshot().total
    assert (total.calls, total.input, total.output, total.known_dollars) == (400, 400, 800, 200.0)


def call(key: str, usage: Usage, role: str = "agent") -> Call:
    return Call(key, "m", None, ask(role=role), Reply("x", usage=usage))


def test_acc_03_the_ledger_is_rebuilt_from_the_run(tmp_path: Path) -> None:
    who = {"role": "agent", "model": "m"}
    with Run.create(tmp_path / "run", RunConfig()) as run:
        run.calls.put(call("a", Usage(100, 10, 5, dollars=0.02)))
        run.calls.put(call("b", Usage(100, 100), "judge"))  # bought before a price was given
        run.dispatched.put(Event("a", "call", who))
        run.dispatched.put(Event("c", "call", who))  # in flight at a kill
        run.dispatched.put(Event("d", "call", who))  # refused by the server
        run.dispatched.put(Event("d!", "failed", who))
        run.dispatched.put(Event("a+1", "lost", who | {"input": 7, "output": 0, "dollars": 0.01}))
        run.dispatched.put(Event("a#1", "again", who))
        ledger = Ledger(Budget(max_usd=0.04))
        ledger.rebuild(run, {"m": PRICE})
    agent, judge = ledger.snapshot().role("agent"), ledger.snapshot().role("judge")
    assert (agent.calls, agent.lost, agent.unknown, agent.input) == (4, 3, 2, 107)
    assert agent.known_dollars == pytest.approx(0.03) and agent.dollars is None
    assert judge.dollars == pytest.approx(0.02)
    with pytest.raises(BudgetStop):
        ledger.reserve(PRICE)


def test_calls_of_a_free_model_lost_at_a_kill_are_free(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RunConfig()) as run:
        run.dispatched.put(Event("c", "call", {"role": "agent", "model": "m"}))
        ledger = Ledger(Budget())
        ledger.rebuild(run, {"m": FREE})
    assert ledger.snapshot().total.dollars == 0.0
