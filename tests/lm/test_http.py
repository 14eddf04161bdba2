"""The transport against the fake server: paths, what a server does not take, broken connections, proxies."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import resource
import socket
from pathlib import Path

import pytest

from roleagent_lite.config import Limits
from roleagent_lite.errors import (
    ConfigError,
    ContentFiltered,
    ContextTooLong,
    FatalModelError,
    ModelError,
    TransientModelError,
    UnsupportedRequest,
)
from roleagent_lite.lm import faults, http
from roleagent_lite.lm.address import parse
from roleagent_lite.lm.http import HttpModel
from roleagent_lite.types import Usage
from tests.fake_server import FakeServer, Raw, Say, Seen, always, fail, in_turn, refuse, stream
from tests.lm.kit import address_of, ask, config_for, http_model

SCHEMA = {"type": "object", "properties": {"action": {"type": "string"}}}


async def test_what_is_asked_arrives_and_the_reply_comes_back() -> None:
    with FakeServer(always("take key")) as fake:
        async with http_model(fake) as model:
            reply = await model.complete(ask(temperature=0.7, max_tokens=16, seed=3))
    assert (reply.text, reply.finish, reply.usage) == ("take key", "stop", Usage(100, 10))
    assert reply.seconds > 0
    seen = fake.requests[0]
    assert seen.path == "/v1/chat/completions"
    assert "authorization" not in seen.headers
    assert seen.body["messages"][1] == {"role": "user", "content": "Take the key."}
    assert (seen.body["temperature"], seen.body["max_tokens"], seen.body["seed"]) == (0.7, 16, 3)


async def test_the_key_travels_as_a_bearer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789WXYZ")
    with FakeServer() as fake:
        model = HttpModel(parse("openai/fake", config_for(fake).limits), 10)
        await model.complete(ask())
        await model.close()
    assert fake.requests[0].headers["authorization"] == "Bearer sk-secret-0123456789WXYZ"


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
async def test_cfg_04_any_spelling_of_the_base_works(path: str) -> None:
    with FakeServer() as fake:
        async with http_model(fake, path) as model:
            for _ in range(3):
                await model.complete(ask())
    assert [s.path for s in fake.requests] == ["/v1/chat/completions"] * 3
    assert fake.others == []


async def test_cfg_04_a_prefix_is_kept_and_a_missing_version_found_once() -> None:
    with FakeServer(paths=["/proxy/openai/v1/chat/completions"]) as fake:
        async with http_model(fake, "/proxy/openai/v1") as model:
            await model.complete(ask())
        assert fake.others == []
        async with http_model(fake, "/proxy/openai") as model:
            await model.complete(ask())
            await model.complete(ask())
        assert [s.path for s in fake.others] == ["/proxy/openai/chat/completions"]
        assert fake.count == 3
    with FakeServer(paths=["/chat/completions"]) as bare:
        async with http_model(bare) as model:
            await model.complete(ask())
        assert [s.path for s in bare.others] == ["/v1/chat/completions"]


async def test_cfg_04_a_base_without_an_api_says_what_was_tried() -> None:
    with FakeServer(paths=["/other"]) as fake:
        async with http_model(fake, "/x") as model:
            with pytest.raises(FatalModelError, match=r"nothing answers at .*/x/chat.* or .*/x/v1/chat.*/v1"):
                await model.complete(ask())


async def test_cfg_01_temperature_is_dropped_once_and_remembered() -> None:
    def script(seen: Seen) -> Raw | Say:
        return refuse("temperature", "Unsupported value") if "temperature" in seen.body else Say("ok")

    notes: list[str] = []
    with FakeServer(script) as fake:
        async with http_model(fake, notes=notes) as model:
            for _ in range(5):
                assert (await model.complete(ask())).text == "ok"
    assert fake.count == 6
    assert notes == ["fake: temperature was not applied: the server refuses it"]


async def test_cfg_01_a_400_about_another_field_drops_nothing() -> None:
    with FakeServer(lambda seen: refuse("top_k", "Unsupported value")) as fake:
        async with http_model(fake) as model:
            with pytest.raises(UnsupportedRequest, match="refused the request"):
                await model.complete(ask())
    assert fake.count == 1


async def test_calls_in_flight_learn_from_each_other() -> None:
    def script(seen: Seen) -> Raw | Say:
        if "temperature" in seen.body:
            return Raw(400, {"error": {"message": "bad", "param": "temperature"}}, delay=0.05)
        return Say("ok")

    notes: list[str] = []
    with FakeServer(script) as fake:
        async with http_model(fake, notes=notes) as model:
            replies = await asyncio.gather(*(model.complete(ask(str(i))) for i in range(8)))
    assert [r.text for r in replies] == ["ok"] * 8
    assert len(notes) == 1
    assert fake.count <= 16


async def test_a_schema_is_sent_and_dropped_where_it_is_not_taken() -> None:
    def script(seen: Seen) -> Raw | Say:
        return fail(400, "response_format is not supported") if "response_format" in seen.body else Say("ok")

    with FakeServer(script) as fake:
        async with http_model(fake) as model:
            await model.complete(ask(schema=SCHEMA))
            await model.complete(ask(schema=SCHEMA))
    assert [("response_format" in s.body) for s in fake.requests] == [True, False, False]
    assert fake.requests[0].body["response_format"]["json_schema"]["schema"] == SCHEMA


async def test_cfg_03_the_system_text_is_folded_where_the_role_is_refused() -> None:
    def script(seen: Seen) -> Raw | Say:
        roles = [m["role"] for m in seen.body["messages"]]
        return fail(400, "System role not supported") if "system" in roles else Say("ok")

    with FakeServer(script) as fake:
        async with http_model(fake) as model:
            await model.complete(ask())
            await model.complete(ask())
    assert fake.count == 3
    assert fake.requests[2].body["messages"] == [{"role": "user", "content": "You act.\n\nTake the key."}]


async def test_cfg_03_a_500_teaches_only_where_a_chat_template_broke() -> None:
    broken = fail(500, "Jinja template error: Conversation roles must alternate")
    busy = fail(500, "the system is not available")
    with FakeServer(in_turn(busy, broken, Say("ok"))) as fake:
        async with http_model(fake) as model:
            with pytest.raises(TransientModelError):
                await model.complete(ask())
            assert (await model.complete(ask())).text == "ok"
    assert [len(s.body["messages"]) for s in fake.requests] == [2, 2, 1]


async def test_net_03_a_body_shorter_than_promised_is_cut() -> None:
    with FakeServer(
        lambda seen: Raw(200, {"choices": [{"message": {"content": "take key"}}]}, cut=20)
    ) as fake:
        async with http_model(fake) as model:
            with pytest.raises(TransientModelError, match="stream cut") as caught:
                await model.complete(ask())
    assert caught.value.status is None


async def test_net_03_streams_unasked_whole_cut_and_with_an_error_event() -> None:
    overload = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    answers = (
        stream(["<think>hm</think>take", " k", "ey"]),
        stream(["take", " k", "e"], finish=None, done=False),
        stream(["take"], finish=None, done=False, last=overload),
    )
    with FakeServer(in_turn(*answers)) as fake:
        async with http_model(fake) as model:
            reply = await model.complete(ask())
            assert (reply.text, reply.reasoning) == ("take key", "hm")
            with pytest.raises(TransientModelError, match="stream cut"):
                await model.complete(ask())
            with pytest.raises(TransientModelError, match="Overloaded"):
                await model.complete(ask())


async def test_a_body_that_is_not_whole_json_is_transient_and_a_web_page_fatal() -> None:
    page = Raw(200, "<html>Open WebUI</html>", kind="text/html")
    with FakeServer(in_turn(Raw(200, '{"choices": ['), Raw(200, "[1]"), page)) as fake:
        async with http_model(fake) as model:
            for _ in range(2):
                with pytest.raises(TransientModelError):
                    await model.complete(ask())
            with pytest.raises(FatalModelError, match="web page"):
                await model.complete(ask())


async def test_net_05_net_09_one_request_each() -> None:
    too_long = fail(400, "too many", "context_length_exceeded")
    filtered = fail(400, "no", "content_filter")
    with FakeServer(in_turn(too_long, filtered)) as fake:
        async with http_model(fake) as model:
            with pytest.raises(ContextTooLong):
                await model.complete(ask())
            with pytest.raises(ContentFiltered):
                await model.complete(ask())
    assert fake.count == 2


async def test_an_unknown_model_is_named_with_the_nearest() -> None:
    answer = fail(404, "The model `qwen3-smal` does not exist", "model_not_found")
    with FakeServer(lambda seen: answer, models=["qwen3-small", "llama"]) as fake:
        model = HttpModel(address_of(fake, model="qwen3-smal"), 10)
        with pytest.raises(FatalModelError, match=r"no such model.*did you mean 'qwen3-small'"):
            await model.complete(ask())
        await model.close()
    assert fake.count == 1


async def test_a_server_of_one_model_needs_no_name() -> None:
    with FakeServer(models=["the-one"]) as fake:
        address = address_of(fake, model="")
        model = await HttpModel.open(address, 10)
        await model.complete(ask())
        await model.close()
        assert fake.requests[0].body["model"] == "the-one"
    with FakeServer(models=["a", "b"]) as fake, pytest.raises(ConfigError, match="serves a, b; write NAME@"):
        await HttpModel.open(address_of(fake, model=""), 10)


async def test_an_unreachable_server_is_told_apart() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fake = FakeServer()
    fake.port = port
    async with http_model(fake) as model:
        with pytest.raises(faults.Unreachable, match=rf"cannot reach the server http://127.0.0.1:{port}/v1"):
            await model.complete(ask())


async def test_one_deadline_for_a_call() -> None:
    with FakeServer(latency=30.0) as fake:
        async with http_model(fake, timeout=0.05) as model:
            with pytest.raises(TransientModelError, match=r"no whole answer within 0\.05 s"):
                await model.complete(ask())


@pytest.mark.parametrize("proxy", ["socks://127.0.0.1:9", "socks5h://127.0.0.1:9", "127.0.0.1:9"])
async def test_cfg_06_this_machine_is_reached_past_any_proxy(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ALL_PROXY", "HTTP_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    with FakeServer() as fake:
        async with http_model(fake) as model:
            await model.complete(ask())
    assert fake.count == 1


async def test_acc_07_a_server_that_echoes_the_key_does_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789WXYZ")
    with FakeServer(lambda seen: fail(500, "you sent " + seen.headers["authorization"])) as fake:
        model = HttpModel(parse("openai/fake", config_for(fake).limits), 10)
        with pytest.raises(ModelError) as caught:
            await model.complete(ask())
        await model.close()
    assert "you sent" in str(caught.value) and "secret" not in str(caught.value)


async def test_choices_cannot_be_scored_over_http() -> None:
    with FakeServer() as fake:
        async with http_model(fake) as model:
            with pytest.raises(UnsupportedRequest, match="cannot score"):
                await model.complete(ask(choices=("a", "b")))
    assert fake.count == 0


async def test_many_at_once_without_leaking_connections() -> None:
    with FakeServer(latency=0.02) as fake:
        async with http_model(fake) as model:
            replies = await asyncio.gather(*(model.complete(ask(str(i))) for i in range(128)))
        assert len(replies) == 128
        for _ in range(100):
            if not fake._open:
                break
            await asyncio.sleep(0.02)
        assert not fake._open


async def test_a_remote_server_is_reached_through_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "http://host.example/v1"
    with FakeServer(paths=[url + "/chat/completions"]) as fake:
        monkeypatch.setenv("HTTP_PROXY", fake.url)
        model = HttpModel(parse(f"fake@{url}", Limits(), None), 10)
        reply = await model.complete(ask())
        await model.close()
    assert (reply.text, model.base_url) == ('{"action": "take key"}', url)
    assert fake.requests[0].headers["host"] == "host.example"


# --- open files ---


class Crowded(FakeServer):
    """Counts how many connections were open at once."""

    most = 0

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self.most = max(self.most, len(self._open))
        return await super()._exchange(reader, writer)


async def test_more_callers_than_places_wait_outside_of_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "connections", lambda: 4)
    with Crowded(always("take key"), latency=0.25) as fake:
        async with http_model(fake, timeout=1.5) as model:  # 40 callers in turns of 4 wait for over 2 seconds
            replies = await asyncio.gather(*(model.complete(ask(f"call {n}")) for n in range(40)))
    assert [reply.text for reply in replies] == ["take key"] * 40
    assert fake.most == 4


async def test_no_file_left_is_said_and_ends_the_run() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with FakeServer() as fake:
        async with http_model(fake) as model:
            model._open()  # a session of its own needs no file
            most = max(int(path.name) for path in Path("/proc/self/fd").iterdir()) + 8
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            held: list[socket.socket] = []
            try:
                with contextlib.suppress(OSError):
                    while True:
                        held.append(socket.socket())
                with pytest.raises(FatalModelError, match=r"no file left .*fewer --workers.*ulimit -n"):
                    await model.complete(ask())
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for one in held:
                    one.close()
    assert fake.count == 0


async def test_a_proxy_that_does_not_open_the_way_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer() as fake:  # knows no CONNECT
        monkeypatch.setenv("HTTPS_PROXY", fake.url)
        model = HttpModel(parse("fake@https://host.example/v1", Limits(), None), 10)
        with pytest.raises(
            FatalModelError, match=r"the proxy does not open the way to https://host\.example"
        ):
            await model.complete(ask())
        await model.close()
        assert [seen.method for seen in fake.others] == ["CONNECT"]


async def test_redirects_stay_on_the_host_and_end() -> None:
    paths = ["/v1/chat/completions", "/new"]
    with FakeServer(in_turn(Raw(307, "", {"Location": "/new"}), Say("ok")), paths=paths) as fake:
        async with http_model(fake) as model:
            assert (await model.complete(ask())).text == "ok"
        assert [s.path for s in fake.requests] == paths
        assert fake.requests[0].body == fake.requests[1].body
    for to in ("http://other.example/v1", "/v1/chat/completions", ""):
        with FakeServer(in_turn(Raw(301, "", {"Location": to}))) as fake:
            async with http_model(fake) as model:
                with pytest.raises(FatalModelError, match="answers with a redirect"):
                    await model.complete(ask())
            assert fake.count <= 4


async def test_a_count_far_too_low_for_the_prompt_is_noted_once() -> None:
    notes: list[str] = []
    with FakeServer(always("ok")) as fake:  # counts 100 tokens
        async with http_model(fake, notes=notes) as model:
            for text in ("short", "long " * 1000, "x" * 9000, "y" * 9000):
                await model.complete(ask(text))
    (note,) = notes
    assert "100 input tokens" in note and "9,008 characters" in note and "num_ctx" in note


@pytest.mark.parametrize(
    "answer",
    [
        Raw(200, b"\xef\xbb\xbf" + b'{"choices": [{"message": {"content": "ok"}}]}'),
        Raw(200, stream(["o", "k"]).body),
        Raw(200, '{"choices": [{"message": {"content": "ok"}}]}', kind="text/event-stream"),
    ],
    ids=["BOM", "a stream said to be JSON", "JSON said to be a stream"],
)
async def test_a_body_is_read_for_what_it_is(answer: Raw) -> None:
    with FakeServer(in_turn(answer)) as fake:
        async with http_model(fake) as model:
            assert (await model.complete(ask())).text == "ok"


@pytest.mark.parametrize("packed", [False, True])
async def test_an_answer_without_end_is_not_taken_into_memory(
    packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_BODY", 1 << 20)
    body = b'{"choices": [{"message": {"content": "' + b"x" * (3 << 20) + b'"}}]}'
    headers = {"Content-Encoding": "gzip"} if packed else {}
    answer = Raw(200, gzip.compress(body) if packed else body, headers)
    with FakeServer(in_turn(answer)) as fake:
        async with http_model(fake) as model:
            with pytest.raises(TransientModelError, match="answer has over 1 MB"):
                await model.complete(ask())
