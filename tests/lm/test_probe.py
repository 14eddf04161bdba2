"""The probing calls: how many, how small, and what is made of odd answers."""

from __future__ import annotations

import pytest

from roleagent_lite.config import Limits
from roleagent_lite.errors import FatalModelError
from roleagent_lite.lm import probe
from roleagent_lite.lm.address import parse
from roleagent_lite.lm.probe import CALLS, TOKENS, Feature, features, listed
from tests.fake_server import Answer, FakeServer, Raw, Say, Script, Seen, always, fail


async def asked(script: Script) -> tuple[dict[str, Feature], FakeServer]:
    with FakeServer(script) as fake:
        found = await features(parse("fake", Limits(base_url=fake.url)), 10.0)
    return {f.name: f for f in found}, fake


async def test_few_and_tiny_calls() -> None:
    _, fake = await asked(always("hello"))
    assert fake.count == CALLS
    assert all(seen.body["max_tokens"] <= TOKENS for seen in fake.requests)
    assert sum(len(str(seen.body["messages"])) for seen in fake.requests) < 1000


async def test_a_model_that_only_thinks_answers() -> None:
    found, _ = await asked(lambda seen: Say("<think>hm", "length"))
    assert found["answers"].works and "only thinking" in found["answers"].words


async def test_an_empty_reply_does_not_answer() -> None:
    found, _ = await asked(lambda seen: Say(""))
    assert found["answers"].works is False and "empty" in found["answers"].words


async def test_a_server_in_trouble_is_one_line() -> None:
    found, fake = await asked(lambda seen: fail(500, "out of memory"))
    assert list(found) == ["answers"] and found["answers"].works is False and fake.count == 1
    assert "out of memory" in found["answers"].words and found["answers"].advice


async def test_trouble_on_the_way_leaves_the_other_features() -> None:
    def script(seen: Seen) -> Answer:
        return fail(429, "slow down") if seen.number == 1 else Say("hello")

    found, _ = await asked(script)
    assert found["system"].works is None and "slow down" in found["system"].words
    assert found["seed"].works is True


async def test_a_fatal_error_is_raised() -> None:
    with pytest.raises(FatalModelError, match="refused access"):
        await asked(lambda seen: fail(401, "no"))

    def later(seen: Seen) -> Answer:
        return fail(401, "no") if seen.number else Say("hello")

    with pytest.raises(FatalModelError, match="refused access"):
        await asked(later)


@pytest.mark.parametrize("body", ["no json", "[]", "{}", {"choices": []}, {"choices": [None]}])
async def test_odd_bodies_for_logprobs_are_not_known(body: object) -> None:
    def script(seen: Seen) -> Answer:
        return Raw(200, body) if seen.body.get("logprobs") else Say("hello")

    found, _ = await asked(script)
    assert found["logprobs"].works is None


async def test_the_limit_under_its_new_name() -> None:
    def script(seen: Seen) -> Answer:
        if "max_tokens" in seen.body:
            return fail(400, "Use 'max_completion_tokens' instead of 'max_tokens'.")
        return Say("1", "length" if seen.body["max_completion_tokens"] == 16 else "stop")

    found, _ = await asked(script)
    assert found["max tokens"].works and "max_completion_tokens" in found["max tokens"].words


async def test_a_provider_s_model_is_asked_through_its_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    class Provider:
        def __init__(self, address: object, timeout: float) -> None:
            from roleagent_lite.lm.dialect import Quirks

            self.quirks = Quirks()

        async def complete(self, request: object) -> object:
            from roleagent_lite.types import Reply

            return Reply("hello")

        async def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr("roleagent_lite.lm.client.ProviderModel", Provider)
    found = await features(parse("anthropic/x", Limits(), {"ANTHROPIC_API_KEY": "sk-abcdefgh12345678"}), 5.0)
    assert closed == [True]
    assert {f.name: f.works for f in found}["logprobs"] is None


async def test_names_are_listed_at_no_cost() -> None:
    with FakeServer(models=("b", "a")) as fake:
        assert await listed(parse("m", Limits(base_url=fake.url)), Limits(base_url=fake.url)) == ["a", "b"]
        assert fake.count == 0 and len(fake.others) == 1


def test_the_module_says_what_it_costs() -> None:
    assert probe.CALLS * probe.TOKENS < 500
