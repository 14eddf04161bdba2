"""The whole stack against the fake server: what users see of money, failures, resume and replay."""

from __future__ import annotations

import asyncio
import sys
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.config import from_mapping
from roleagent_lite.errors import (
    BudgetStop,
    ConfigError,
    ContentFiltered,
    ContextTooLong,
    FatalModelError,
    ModelError,
    RoleAgentError,
    TransientModelError,
)
from roleagent_lite.lm.pool import Models, open_models
from roleagent_lite.lm.price import Price
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.store import Run
from roleagent_lite.types import ROLES, Model, Request, Role
from tests.fake_server import COUNTED, FakeServer, Raw, Say, Seen, always, fail, in_turn, refuse, stream
from tests.lm.kit import ask, config_for, pool

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-secret-0123456789WXYZ"
TWO_CENTS: dict[str, Any] = {"budget": {"price": "181.818182/181.818182"}}  # 110 tokens


async def workers(models: Models, tasks: int, count: int) -> tuple[list[str], list[RoleAgentError]]:
    """`count` workers go through `tasks` calls; each goes on after what ends one task, and else stops."""
    todo = iter(range(tasks))
    replies: list[str] = []
    errors: list[RoleAgentError] = []

    async def worker() -> None:
        for n in todo:
            try:
                replies.append((await models["agent"].complete(ask(f"task {n}", sample=str(n)))).text)
            except (ModelError, BudgetStop) as error:
                errors.append(error)
                if isinstance(error, BudgetStop) or error.fatal:
                    return

    await asyncio.gather(*(worker() for _ in range(count)))
    return replies, errors


async def test_one_model_serves_all_roles_and_is_counted_by_role() -> None:
    with FakeServer() as fake:
        async with pool(config_for(fake, budget={"price": "1/2"})) as models:
            for role in ROLES:
                await models[role].complete(ask(role=role))
            assert models["agent"].base_url == fake.url + "/v1"
            assert models.price("judge") == Price(1e-6, 2e-6)
            view = models.ledger.snapshot()
    assert [row.role for row in view.rows] == sorted(ROLES)
    assert view.total.calls == 4
    assert view.total.dollars == pytest.approx(4 * (100e-6 + 20e-6))


async def test_a_model_for_each_role() -> None:
    names = {role: f"openai/m-{role}" for role in ROLES}
    with FakeServer() as fake, FakeServer() as other:
        names["judge"] = f"m-judge@{other.url}"
        async with pool(config_for(fake, models=names)) as models:
            for role in ROLES:
                await models[role].complete(ask(role=role))
    assert [s.body["model"] for s in fake.requests] == ["m-agent", "m-world", "m-reflector"]
    assert [s.body["model"] for s in other.requests] == ["m-judge"]


async def test_rep_05_an_empty_reply_is_asked_for_three_times_and_the_next_task_goes_on(
    tmp_path: Path,
) -> None:
    def script(seen: Seen) -> Say:
        return Say(None if "task 0" in str(seen.body) else "take key")

    with FakeServer(script) as fake:
        async with pool(config_for(fake), tmp_path) as models:
            replies, errors = await workers(models, 2, 1)
            total = models.ledger.snapshot().total
    assert fake.count == 4
    assert replies == ["take key"]
    assert isinstance(errors[0], TransientModelError) and "empty reply" in str(errors[0])
    assert (total.calls, total.lost, total.input) == (4, 3, 400)


@pytest.mark.parametrize("content", ['{"action": "ta', None])
async def test_rep_07_a_cut_reply_is_one_request(content: str | None) -> None:
    with FakeServer(lambda seen: Say(content, "length")) as fake:
        async with pool(config_for(fake)) as models:
            reply = await models["agent"].complete(ask())
    assert (reply.finish, reply.text, fake.count) == ("length", content or "", 1)


async def test_rep_08_a_refusal_is_one_request() -> None:
    with FakeServer(lambda seen: Say(None, message={"refusal": "No."})) as fake:
        async with pool(config_for(fake)) as models:
            reply = await models["agent"].complete(ask())
    assert (reply.finish, reply.text, fake.count) == ("refusal", "No.", 1)


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_net_01_the_server_s_wait_is_honoured(form: str) -> None:
    import time

    wait = "2" if form == "seconds" else formatdate(time.time() + 3, usegmt=True)
    with FakeServer(in_turn(fail(429, "slow", Retry_After=wait), Say("ok"))) as fake:
        async with pool(config_for(fake)) as models:
            assert (await models["agent"].complete(ask())).text == "ok"
    assert fake.count == 2
    assert fake.requests[1].at - fake.requests[0].at >= (2.0 if form == "seconds" else 1.5)


async def test_net_01_an_hour_is_not_slept_and_no_credit_not_retried(tmp_path: Path) -> None:
    with FakeServer(lambda seen: fail(429, "slow", Retry_After="3600")) as fake:
        async with pool(config_for(fake), tmp_path / "a") as models:
            with pytest.raises(FatalModelError, match="asks to wait 3,600 s"):
                await models["agent"].complete(ask())
        assert fake.count == 1
    with FakeServer(lambda seen: fail(429, "You exceeded your quota", "insufficient_quota")) as fake:
        async with pool(config_for(fake), tmp_path / "b") as models:
            with pytest.raises(FatalModelError, match="no credit or quota left"):
                await models["agent"].complete(ask())
        assert fake.count == 1


async def test_net_03_cut_streams_are_retried_then_given_up() -> None:
    cut = stream(["take", " k", "e"], finish=None, done=False)
    short = Raw(200, {"choices": [{"message": {"content": "take key"}, "finish_reason": "stop"}]}, cut=30)
    overload = Raw(200, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    with FakeServer(in_turn(cut, short, Say("ok"), overload, Say("ok"), cut)) as fake:
        async with pool(config_for(fake)) as models:
            assert (await models["agent"].complete(ask())).text == "ok"
            assert (await models["agent"].complete(ask())).text == "ok"
            with pytest.raises(TransientModelError, match="stream cut"):
                await models["agent"].complete(ask())
    assert fake.count == 3 + 2 + 3


async def test_net_05_too_long_is_not_resent() -> None:
    texts = (
        "the input is longer than the model's context",
        "The prompt is too long: 9 > 8",
        "context_length_exceeded",
    )
    with FakeServer(lambda seen: fail(400, texts[seen.number])) as fake:
        async with pool(config_for(fake)) as models:
            for n in range(3):
                with pytest.raises(ContextTooLong):
                    await models["agent"].complete(ask(sample=str(n)))
    assert fake.count == 3


async def test_net_07_a_wrong_key_stops_eight_workers_at_eight_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    refused = Raw(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, delay=0.02)
    with FakeServer(lambda seen: refused) as fake:
        async with pool(config_for(fake)) as models:
            replies, errors = await workers(models, 50, 8)
    assert fake.count <= 8
    assert replies == [] and len(errors) == 8
    for error in errors:
        assert isinstance(error, FatalModelError)
        assert "the key from OPENAI_API_KEY (…WXYZ)" in str(error) and KEY not in str(error)


async def test_net_07_no_key_is_an_error_before_any_request() -> None:
    with pytest.raises(ConfigError, match="set OPENAI_API_KEY"):
        async with open_models(from_mapping({"model": "openai/gpt-4o"}), None):
            pass


async def test_net_09_one_filtered_task_of_twenty() -> None:
    def script(seen: Seen) -> Raw | Say:
        return fail(400, "no", "content_filter") if "task 7" in str(seen.body) else Say("ok")

    with FakeServer(script) as fake:
        async with pool(config_for(fake)) as models:
            replies, errors = await workers(models, 20, 4)
    assert (len(replies), fake.count) == (19, 20)
    assert [type(e) for e in errors] == [ContentFiltered]
    with FakeServer(lambda seen: Say("", "content_filter")) as fake:
        async with pool(config_for(fake)) as models:
            assert (await models["agent"].complete(ask())).finish == "content_filter"
        assert fake.count == 1


async def test_cfg_01_what_was_not_applied_is_in_the_run(tmp_path: Path) -> None:
    def script(seen: Seen) -> Raw | Say:
        return refuse("temperature", "Unsupported value") if "temperature" in seen.body else Say("ok")

    with FakeServer(script) as fake:
        async with pool(config_for(fake), tmp_path) as models:
            for n in range(5):
                await models["agent"].complete(ask(sample=str(n)))
            assert models.notes == ["fake: temperature was not applied: the server refuses it"]
        assert fake.count == 6
    with Run.open(tmp_path) as run:
        assert [e.data["text"] for e in run.events if e.kind == "note"] == models.notes


async def test_acc_01_a_server_that_does_not_count_is_used_and_said_so() -> None:
    answers = (
        Say("a", usage=None),
        Say("b", usage="null"),
        Say("c", usage={"prompt_tokens": None}),
        Say("d"),
    )
    with FakeServer(in_turn(*answers)) as fake:
        async with pool(config_for(fake, budget={"price": "1/1"})) as models:
            texts = [(await models["agent"].complete(ask())).text for _ in range(4)]
            total = models.ledger.snapshot().total
    assert texts == ["a", "b", "c", "d"]
    assert (total.calls, total.unknown, total.input, total.output) == (4, 3, 100, 10)
    assert "unknown for 3 calls" in total.words


async def test_acc_03_a_cap_of_five_cents_stops_at_the_third_call_and_survives_a_resume(
    tmp_path: Path,
) -> None:
    capped = {"budget": {"max_usd": 0.05} | TWO_CENTS["budget"]}
    with FakeServer(always("ok")) as fake:
        config = config_for(fake, **capped)
        async with pool(config, tmp_path) as models:
            replies, errors = await workers(models, 10, 1)
            assert models.ledger.snapshot().total.dollars == pytest.approx(0.06)
        assert (fake.count, len(replies)) == (3, 3)
        assert isinstance(errors[0], BudgetStop) and errors[0].exit_code == 3
        async with pool(config, tmp_path) as models:
            replies, errors = await workers(models, 10, 1)
        assert fake.count == 3, "a resume under the same cap buys nothing"
        assert len(replies) == 3 and isinstance(errors[0], BudgetStop)
        raised = config.model_copy(update={"budget": config.budget.model_copy(update={"max_usd": 0.09})})
        async with pool(raised, tmp_path) as models:
            replies, errors = await workers(models, 10, 1)
        assert (fake.count, len(replies)) == (5, 5)


async def test_acc_03_four_workers_overshoot_by_a_call_each_at_most() -> None:
    with FakeServer(always("ok"), latency=0.01) as fake:
        async with pool(config_for(fake, budget={"max_usd": 0.05} | TWO_CENTS["budget"])) as models:
            _, errors = await workers(models, 40, 4)
    assert 3 <= fake.count <= 3 + 4
    assert len(errors) == 4 and all(isinstance(e, BudgetStop) for e in errors)


async def test_acc_03_max_calls_over_all_roles() -> None:
    with FakeServer() as fake:
        async with pool(config_for(fake, budget={"max_calls": 3})) as models:
            for role in ("agent", "world", "judge"):
                await models[role].complete(ask(role=role))
            with pytest.raises(BudgetStop, match="--max-calls 3"):
                await models["reflector"].complete(ask(role="reflector"))
    assert fake.count == 3


async def test_acc_03_an_unknown_price_refuses_the_cap_before_the_first_call() -> None:
    with FakeServer() as fake:
        with pytest.raises(
            ConfigError, match=r"price of fake is not known; give --price IN/OUT.*--max-calls"
        ):
            async with pool(config_for(fake, budget={"max_usd": 1})):
                pass
        assert fake.count == 0 and fake.others == []


async def test_acc_05_a_second_run_sends_nothing(tmp_path: Path) -> None:
    count = iter(range(100))
    with FakeServer(lambda seen: Say(f"reply {next(count)}")) as fake:
        config = config_for(fake)
        texts = []
        for _ in range(2):
            async with pool(config, tmp_path) as models:
                texts.append([(await models["agent"].complete(ask(temperature=1.0))).text for _ in range(5)])
        assert fake.count == 5
    assert texts[0] == texts[1] and len(set(texts[0])) == 5


async def test_acc_07_no_key_in_any_file_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FakeServer(lambda seen: fail(500, "you sent " + seen.headers["authorization"])) as fake:
        config = config_for(fake, limits={"base_url": f"{fake.url}/v1?api_key=url-secret-77", "retries": 0})
        async with pool(config, tmp_path) as models:
            with pytest.raises(TransientModelError):
                await models["agent"].complete(ask(f"my key is {KEY}"))
        assert fake.requests[0].path.endswith("?api_key=url-secret-77")
    stored = "".join(p.read_text() for p in tmp_path.iterdir())
    assert "you sent" in stored
    assert KEY not in stored and "url-secret-77" not in stored


@pytest.mark.parametrize("key", ["", KEY])
async def test_acc_07_a_password_inside_a_model_string_is_used_not_stored(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)  # there is one header: what the URL says wins
    with FakeServer() as fake:
        url = fake.url.replace("127.", "me:pass-word-88@127.")
        for _ in range(2):
            async with pool(from_mapping({"model": f"fake@{url}"}), tmp_path) as models:
                await models["agent"].complete(ask())
    assert fake.count == 1
    assert fake.requests[0].headers["authorization"].startswith("Basic ")
    assert "pass-word-88" not in "".join(p.read_text() for p in tmp_path.iterdir())


async def test_overrides_are_recorded_capped_and_free(tmp_path: Path) -> None:
    scripted = ScriptedModel(lambda r: f"{r.role} says so")
    config = from_mapping({"budget": {"max_usd": 0, "max_calls": 3}})
    async with pool(config, tmp_path, dict.fromkeys(ROLES, scripted)) as models:
        assert (await models["world"].complete(ask(role="world"))).text == "world says so"
        assert models.ledger.snapshot().total.dollars == 0.0
    priced = from_mapping({"budget": {"max_usd": 0.01, "price": "1000/1000"}})
    async with pool(priced, None, dict.fromkeys(ROLES, scripted)) as models:
        await models["agent"].complete(ask("x" * 100))
        with pytest.raises(BudgetStop):
            await models["agent"].complete(ask())


async def test_a_replay_opens_no_model(tmp_path: Path) -> None:
    with FakeServer(always("take key")) as fake:
        config = config_for(fake)
        async with pool(config, tmp_path) as models:
            bought = await models["agent"].call(ask())
    replay = config.model_copy(update={"limits": config.limits.model_copy(update={"replay": True})})
    scripted = ScriptedModel(lambda r: "never")
    async with pool(replay, tmp_path, {"agent": scripted}) as models:  # the server is gone
        assert await models["agent"].call(ask()) == bought
        assert models["agent"].name == "fake"
        with pytest.raises(ConfigError, match="replay: run"):
            await models["agent"].call(ask())
    assert scripted.requests == 0
    with pytest.raises(ConfigError, match="never opened a model"):
        async with pool(replay, tmp_path / "new"):
            pass
    with pytest.raises(ConfigError, match="no run to replay"):
        async with pool(replay):
            pass


async def test_res_03_a_run_is_not_resumed_with_another_model_or_server(tmp_path: Path) -> None:
    """Where the settings name none: models given as objects, servers named by the environment."""

    def models(name: str, url: str | None = None) -> dict[Role, Model]:
        return dict.fromkeys(ROLES, ScriptedModel(lambda r: "take key", name, base_url=url))

    config = from_mapping({"model": "x"})
    async with pool(config, tmp_path, models("a")) as opened:
        await opened["agent"].call(ask())
    for other, words in (
        (models("b"), r"as agent it asked 'a' then, 'b' now; use another --run name"),
        (models("a", "http://127.0.0.1:9/v1"), r"'a' then, 'a' at http://127\.0\.0\.1:9/v1 now"),
        (models("a") | {"judge": ScriptedModel(lambda r: "", "c")}, "as judge it asked 'a' then, 'c' now"),
    ):
        with pytest.raises(ConfigError, match=words):
            async with pool(config, tmp_path, other):
                pass
    async with pool(config, tmp_path, models("a")) as opened:
        await opened["agent"].call(ask())
        assert opened.ledger.snapshot().total.calls == 1


async def test_a_base_url_that_no_model_uses_is_pointed_out() -> None:
    config = from_mapping({"limits": {"base_url": "http://127.0.0.1:1"}})
    with pytest.raises(ConfigError, match=r"every role uses the embedded model; name .* --model NAME"):
        async with open_models(config, None):
            pass


async def test_an_unreachable_server_is_one_clear_error() -> None:
    with FakeServer() as fake:
        config = config_for(fake, limits={"retries": 0})
    async with pool(config) as models:
        with pytest.raises(FatalModelError, match=r"cannot reach the server http://127.0.0.1:\d+/v1"):
            await models["agent"].complete(ask())


async def test_rates_are_kept_by_all_roles_together() -> None:
    config = from_mapping({"limits": {"rpm": 1000}})
    scripted = ScriptedModel(lambda r: "ok")
    async with pool(config, None, dict.fromkeys(ROLES, scripted)) as models:
        await asyncio.gather(*(models[role].complete(ask(role=role)) for role in ROLES))
        retried = models["agent"]._inner
        limiter = retried._inner._limiter  # type: ignore[union-attr]
    assert len(limiter._window) == 4


async def test_sixty_four_rollouts_at_once(tmp_path: Path) -> None:
    with FakeServer(latency=(0.0, 0.02)) as fake:
        async with pool(config_for(fake), tmp_path) as models:
            replies, errors = await workers(models, 256, 64)
            total = models.ledger.snapshot().total
    assert (len(replies), errors, fake.count) == (256, [], 256)
    assert total.input == 256 * COUNTED["prompt_tokens"]
    with Run.open(tmp_path) as run:
        assert len(run.calls) == len(run.dispatched) == 256


async def test_a_rule_that_breaks_is_our_fault_and_shows(tmp_path: Path) -> None:
    def rule(request: Request) -> str:
        raise ZeroDivisionError

    async with pool(
        from_mapping({"budget": {"max_calls": 1}}), tmp_path, dict.fromkeys(ROLES, ScriptedModel(rule))
    ) as models:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await models["agent"].complete(ask())


@pytest.mark.slow
async def test_res_03_killed_at_several_moments_nothing_stored_is_bought_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.lm.kill_me"]
    stored_before: set[str] = set()
    with FakeServer(latency=(0.005, 0.03)) as fake:
        for moment in (1, 17, 30, 45, 0):  # killed after so many requests over all processes; 0 = to the end
            first = fake.count
            process = await asyncio.create_subprocess_exec(
                *command, fake.url, str(tmp_path), cwd=ROOT, stdout=asyncio.subprocess.PIPE
            )
            while moment and fake.count < moment and process.returncode is None:
                await asyncio.sleep(0.002)
            if moment:
                process.kill()
            output, _ = await process.communicate()
            sent = [s.body["messages"][1]["content"] for s in fake.requests[first:]]
            assert not stored_before & set(sent), "a call whose reply was stored was sent again"
            with Run.open(tmp_path) as run:
                stored_before = {call.request.messages[1].content for call in run.calls}
                ids = run.calls.keys()
            assert len(ids) == len(stored_before)
            if not moment:
                assert output.startswith(b"done")
                counted = int(
                    output.split()[1]
                )  # a call written down may have been killed before it was sent
                assert fake.count <= counted <= 60 + 4 * 8
    assert stored_before == {f"task {n}" for n in range(60)}
    assert fake.count <= 60 + 4 * 8, "at most one call a worker is lost at each kill"
