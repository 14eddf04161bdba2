"""Every call is stored under a key of all that decides its reply, and never bought twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roleagent_lite.config import Budget, RunConfig
from roleagent_lite.errors import (
    BudgetStop,
    ConfigError,
    ContentFiltered,
    ContextTooLong,
    FatalModelError,
    ModelError,
    TransientModelError,
)
from roleagent_lite.lm.ledger import Ledger
from roleagent_lite.lm.recorder import MAX_TEXT, Counter, Recorder
from roleagent_lite.lm.retry import Breaker, Retried
from roleagent_lite.lm.scripted import Rule, ScriptedModel
from roleagent_lite.store import Run
from roleagent_lite.types import Message, Reply, Request, Usage
from tests.lm.kit import ask


async def no_sleep(seconds: float) -> None:
    return None


class Bench:
    """A scripted model under a recorder, in a run directory that can be opened again."""

    def __init__(self, folder: Path, rule: Rule, *, replay: bool = False) -> None:
        self.run = Run.create(folder, RunConfig())
        self.model = ScriptedModel(rule, "m", base_url="http://x/v1")
        self.ledger = Ledger(Budget())
        retried = Retried(self.model, 2, Breaker(), sleep=no_sleep)
        self.recorder = Recorder(
            None if replay else retried, self.run, self.ledger, name="m", base_url="http://x/v1"
        )

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.run.close()


def numbered() -> Callable[[Request], str]:
    """Never the same reply twice: what is equal must come from the record."""
    count = iter(range(10**6))
    return lambda request: f"reply {next(count)}"


def failing(*errors: ModelError | str) -> Callable[[Request], str]:
    left = list(errors)

    def rule(request: Request) -> str:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, ModelError):
            raise answer
        return answer

    return rule


def always(error: Exception) -> Callable[[Request], str]:
    def rule(request: Request) -> str:
        raise error

    return rule


def spent(folder: Path) -> tuple[int, int]:
    """Calls and lost ones, as the next process counts them."""
    with Run.open(folder) as run:
        ledger = Ledger(Budget())
        ledger.rebuild(run, {})
    total = ledger.snapshot().total
    return total.calls, total.lost


async def test_a_call_is_stored_as_sent_and_as_received(tmp_path: Path) -> None:
    answer = Reply(
        "take key", reasoning="hm", usage=Usage(9, 2, 4, 1, 0.5), token_ids=(1, 2), logprobs=(-0.5, -1)
    )
    request = ask("Ünïcode 🔑", seed=3, schema={"type": "object"}, temperature=0.7)
    with Bench(tmp_path, lambda r: answer) as bench:
        call = await bench.recorder.call(request)
        assert (call.request, call.reply, call.model, call.base_url) == (request, answer, "m", "http://x/v1")
        assert bench.run.dispatched.keys() == bench.run.calls.keys() == [call.id]
    with Run.open(tmp_path) as run:
        assert run.calls.get(call.id) == call


async def test_acc_05_everything_that_decides_the_reply_is_in_the_key(tmp_path: Path) -> None:
    base = ask(temperature=0.0, max_tokens=16, seed=1, schema={"a": 1}, choices=("x",))
    others = [
        replace(base, temperature=0.7),
        replace(base, max_tokens=400),
        replace(base, seed=2),
        replace(base, messages=(Message("system", "You acT."), base.messages[1])),
        replace(base, messages=base.messages[1:]),
        replace(base, role="world"),
        replace(base, module="judge"),
        replace(base, schema={"a": 2}),
        replace(base, schema=None),
        replace(base, choices=("y",)),
        replace(base, sample="1"),
    ]
    with Bench(tmp_path, numbered()) as bench:
        for request in (base, *others):
            await bench.recorder.call(request)
        assert bench.model.requests == len(others) + 1
        assert len(bench.run.calls) == len(others) + 1
    renamed = Recorder(None, None, Ledger(Budget()), name="m2", base_url="http://x/v1")
    moved = Recorder(None, None, Ledger(Budget()), name="m", base_url="http://y/v1")
    same = Recorder(None, None, Ledger(Budget()), name="m", base_url="http://x/v1")
    key = same.key(base)
    assert len({key, renamed.key(base), moved.key(base)}) == 3
    with Bench(tmp_path, numbered()) as bench:
        for request in (base, *others):
            await bench.recorder.call(request)
        assert bench.model.requests == 0
        assert bench.run.calls.keys()[0] == key


async def test_acc_05_five_samples_are_five_replies_and_come_again_in_order(tmp_path: Path) -> None:
    request = ask(temperature=1.0)
    with Bench(tmp_path, numbered()) as bench:
        first = [(await bench.recorder.call(request)).reply.text for _ in range(5)]
        assert bench.model.requests == 5 and len(set(first)) == 5
    with Bench(tmp_path, numbered()) as bench:
        again = [(await bench.recorder.call(request)).reply.text for _ in range(5)]
        assert bench.model.requests == 0
        assert bench.ledger.snapshot().total.replayed == 5
        sixth = (await bench.recorder.call(request)).reply.text
        assert bench.model.requests == 1
    assert again == first and sixth == "reply 0"


async def test_keys_do_not_depend_on_the_order_of_replies(tmp_path: Path) -> None:
    async def slow_first(request: Request) -> str:
        await asyncio.sleep(0.02 if request.sample.endswith("0") else 0)
        return f"to {request.sample}"

    requests = [ask(sample=f"s{n}") for n in range(4)]
    with Bench(tmp_path, slow_first) as bench:
        calls = await asyncio.gather(*(bench.recorder.call(r) for r in requests))
        assert bench.run.calls.keys() != [c.id for c in calls]  # stored as they came
    with Bench(tmp_path, numbered()) as bench:
        again = await asyncio.gather(*(bench.recorder.call(r) for r in reversed(requests)))
    assert {c.id: c.reply.text for c in again} == {c.id: c.reply.text for c in calls}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 12))
def test_res_03_a_kill_after_any_call_buys_nothing_twice(samples: list[int], kill: int) -> None:
    import tempfile

    async def play(folder: Path, count: int) -> tuple[list[str], int]:
        with Bench(folder, numbered()) as bench:
            texts = [(await bench.recorder.call(ask(sample=str(s)))).reply.text for s in samples[:count]]
            return texts, bench.model.requests

    with tempfile.TemporaryDirectory() as name:
        before, _ = asyncio.run(play(Path(name) / "r", kill))
        after, bought = asyncio.run(play(Path(name) / "r", len(samples)))
    assert after[:kill] == before
    assert bought == max(0, len(samples) - kill)


async def test_res_03_a_call_in_flight_at_the_kill_is_sent_again_and_counted(tmp_path: Path) -> None:
    async def hang(request: Request) -> str:
        await asyncio.sleep(60)
        return "never"

    with Bench(tmp_path, hang) as bench:
        task = asyncio.ensure_future(bench.recorder.call(ask()))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (len(bench.run.dispatched), len(bench.run.calls)) == (1, 0)
    with Bench(tmp_path, numbered()) as bench:
        await bench.recorder.call(ask())
        assert bench.model.requests == 1
    with Run.open(tmp_path) as run:
        ledger = Ledger(Budget())
        ledger.rebuild(run, {})
    total = ledger.snapshot().total
    assert (total.calls, total.lost) == (2, 1)


async def test_replies_paid_for_and_lost_are_written_down(tmp_path: Path) -> None:
    empty = Reply("", usage=Usage(100, 0, dollars=0.01))
    answers = [empty, empty, Reply("ok", usage=Usage(100, 5, dollars=0.02))]
    with Bench(tmp_path, lambda r: answers.pop(0)) as bench:
        await bench.recorder.call(ask())
    with Run.open(tmp_path) as run:
        ledger = Ledger(Budget())
        ledger.rebuild(run, {})
    total = ledger.snapshot().total
    assert (total.calls, total.lost, total.input, total.dollars) == (3, 2, 300, 0.04)


async def test_replay_answers_without_a_model(tmp_path: Path) -> None:
    with Bench(tmp_path, numbered()) as bench:
        bought = await bench.recorder.call(ask())
    with Bench(tmp_path, numbered(), replay=True) as bench:
        assert await bench.recorder.call(ask()) == bought
        with pytest.raises(
            ConfigError, match=r"replay: run .* holds no reply to this agent call of module 'act'"
        ):
            await bench.recorder.call(ask("something else"))
        assert bench.model.requests == 0


async def test_replay_fails_where_the_first_run_failed(tmp_path: Path) -> None:
    busy = TransientModelError("busy", status=503)
    with Bench(tmp_path, failing(busy, busy, busy, "ok")) as bench:
        with pytest.raises(TransientModelError):
            await bench.recorder.call(ask())
        second = await bench.recorder.call(ask())
    with Bench(tmp_path, numbered(), replay=True) as bench:
        with pytest.raises(TransientModelError, match="busy") as caught:
            await bench.recorder.call(ask())
        assert caught.value.status == 503
        assert await bench.recorder.call(ask()) == second


async def test_a_resume_asks_again_after_a_broken_connection_only(tmp_path: Path) -> None:
    requests = [ask(sample=str(n)) for n in range(3)]
    errors = [TransientModelError("busy", status=503)] * 3 + [ContextTooLong("long"), ContentFiltered("no")]
    with Bench(tmp_path, failing(*errors)) as bench:
        for request, kind in zip(
            requests, (TransientModelError, ContextTooLong, ContentFiltered), strict=True
        ):
            with pytest.raises(kind):
                await bench.recorder.call(request)
        assert bench.model.requests == 5
    with Bench(tmp_path, numbered()) as bench:
        assert (await bench.recorder.call(requests[0])).reply.text == "reply 0"
        with pytest.raises(ContextTooLong, match="long"):
            await bench.recorder.call(requests[1])
        with pytest.raises(ContentFiltered, match="no"):
            await bench.recorder.call(requests[2])
        assert bench.model.requests == 1


async def test_what_ends_the_run_is_no_answer_to_the_request(tmp_path: Path) -> None:
    for number, error in enumerate((FatalModelError("key"), BudgetStop("cap"))):
        with Bench(tmp_path / str(number), always(error)) as bench, pytest.raises(type(error)):
            await bench.recorder.call(ask())
        assert spent(tmp_path / str(number)) == (0, 0), "nothing was sent, or it was refused: no bill"
        with Bench(tmp_path / str(number), numbered()) as bench:
            assert (await bench.recorder.call(ask())).reply.text == "reply 0"
        assert spent(tmp_path / str(number)) == (1, 0)


async def test_each_sending_is_settled_by_itself(tmp_path: Path) -> None:
    """Refused, broken twice, in flight at a kill, then answered: one reply and one call that was lost."""
    busy = TransientModelError("busy", status=503)
    for error in (BudgetStop("cap"), busy, busy, FatalModelError("key")):
        with Bench(tmp_path, always(error)) as bench, pytest.raises(type(error)):
            await bench.recorder.call(ask())
        assert spent(tmp_path) == (0, 0)

    async def hang(request: Request) -> str:
        await asyncio.sleep(60)
        return "never"

    with Bench(tmp_path, hang) as bench:
        task = asyncio.ensure_future(bench.recorder.call(ask()))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert spent(tmp_path) == (1, 1)
    with Bench(tmp_path, numbered()) as bench:
        await bench.recorder.call(ask())
    assert spent(tmp_path) == (2, 1)


async def test_without_a_run_nothing_is_stored_but_calls_have_ids() -> None:
    model = ScriptedModel(numbered(), "m")
    recorder = Recorder(Retried(model, 0, Breaker()), None, Ledger(Budget()), name="m")
    first, second = await recorder.call(ask()), await recorder.call(ask())
    assert first.id != second.id and len(first.id) == 64
    assert (await recorder.complete(ask())).text == "reply 2"
    with pytest.raises(ConfigError, match="no run to replay from"):
        await Recorder(None, None, Ledger(Budget()), name="m").call(ask())


def test_models_of_one_pool_share_the_count_of_attempts() -> None:
    counter = Counter()
    agent, world = (Recorder(None, None, Ledger(Budget()), name="m", counter=counter) for _ in range(2))
    assert agent.key(ask()) != world.key(ask())


async def test_acc_07_a_key_in_a_message_is_not_stored(tmp_path: Path) -> None:
    from roleagent_lite import redact

    redact.register("my-very-own-key")
    with Bench(tmp_path, lambda r: "your key is my-very-own-key") as bench:
        call = await bench.recorder.call(ask("use my-very-own-key"))
        assert call.reply.text == "your key is [key]", "nobody can cut a key in two that he never gets"
        assert bench.run.calls.get(call.id) == replace(
            call, request=replace(call.request, messages=ask("use [key]").messages)
        )
    assert "my-very-own-key" not in (tmp_path / "calls.jsonl").read_text()


async def test_a_reply_of_megabytes_is_cut_and_says_so_and_a_resume_reads_the_same(tmp_path: Path) -> None:
    huge = Reply("word " * 800_000, reasoning="hm " * 400_000, token_ids=(1, 2), usage=Usage(9, 5))
    for number, answer in enumerate((huge, replace(huge, finish="refusal"))):
        with Bench(tmp_path / str(number), lambda r, a=answer: a) as bench:  # type: ignore[misc]
            got = (await bench.recorder.call(ask())).reply
        assert got.text.startswith("word word ") and len(got.text) < MAX_TEXT + 100
        assert got.text.endswith("\n[cut here: the reply had 4,000,000 characters]")
        assert got.reasoning is not None and got.reasoning.endswith("had 1,200,000 characters]")
        assert got.finish == ("length", "refusal")[number]
        assert got.token_ids is None and got.usage == huge.usage, "what was billed stays"
        with Bench(tmp_path / str(number), numbered()) as bench:
            assert (await bench.recorder.call(ask())).reply == got and bench.model.requests == 0
        assert (tmp_path / str(number) / "calls.jsonl").stat().st_size < 3 * MAX_TEXT
    unrecorded = Recorder(
        Retried(ScriptedModel(lambda r: huge, "m"), 2, Breaker()), None, Ledger(Budget()), name="m"
    )
    assert len((await unrecorded.complete(ask())).text) < MAX_TEXT + 100


async def test_a_reply_at_the_limit_is_left_alone(tmp_path: Path) -> None:
    answer = Reply("x" * MAX_TEXT, usage=Usage(9, 5), token_ids=(1,))
    with Bench(tmp_path, lambda r: answer) as bench:
        assert (await bench.recorder.call(ask())).reply == answer


async def test_a_request_whose_answer_could_not_be_read_counts_as_lost_in_the_next_process_too(
    tmp_path: Path,
) -> None:
    """It may have been charged: the cap on calls may not forget it. A refusal (a 500) was not."""
    cut, refused = TransientModelError("stream cut"), TransientModelError("busy", status=500)
    with Bench(tmp_path, failing(cut, refused, "fine")) as bench:
        await bench.recorder.call(ask())
    assert spent(tmp_path) == (2, 1)
    bench = Bench(tmp_path / "never", failing(cut, refused, refused))
    with bench, pytest.raises(TransientModelError):
        await bench.recorder.call(ask())
    with Run.open(tmp_path / "never") as run:
        ledger = Ledger(Budget())
        ledger.rebuild(run, {})
    (row,) = ledger.snapshot().rows
    assert (row.calls, row.lost, row.unread, row.failed, row.unpriced) == (1, 1, 1, 3, 1)
