"""Keys, proxies and endpoints: there, absent, odd, refused; nothing secret is ever in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roleagent_lite.doctor import network
from roleagent_lite.doctor.line import Line
from roleagent_lite.lm import weights
from tests.fake_server import Answer, FakeServer, Say, Seen, fail, refuse

KEY = "sk-test-abcdefghijklmnop1234"


def test_no_key_is_no_fault() -> None:
    (line,) = network.keys({})
    assert line.state == "ok" and "none is set" in line.found


def test_keys_are_named_and_never_shown() -> None:
    lines = network.keys({"OPENAI_API_KEY": KEY, "GROQ_API_KEY": "gsk_abcdefgh12345678", "OTHER": KEY})
    assert [line.state for line in lines] == ["ok", "ok"]
    assert "OPENAI_API_KEY is set" in lines[0].found and "GROQ_API_KEY" in lines[1].found
    assert not any(part in str(lines) for part in (KEY, KEY[-4:], "gsk_", "5678"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (KEY + "\n", "white space"),
        (f"'{KEY}'", "quotes"),
        (f'"{KEY}', "quotes"),
        ("Bearer sk-abcdefgh1234", "characters that no key has"),
        ("sk-abcdéfgh1234", "characters that no key has"),
        ("x", "shorter"),
    ],
)
def test_a_text_that_can_be_no_key_is_told_without_showing_it(value: str, words: str) -> None:
    (line,) = network.keys({"OPENAI_API_KEY": value})
    assert line.state == "warning" and words in line.found and "OPENAI_API_KEY" in line.advice
    assert value.strip() not in str(line) or len(value) == 1


def test_proxies() -> None:
    assert network.proxies({})[0].found == "none is set"
    (good,) = network.proxies({"https_proxy": "http://me:secret-pass@proxy.example:3128"})
    assert good.state == "ok" and "http://proxy.example:3128" in good.found and "secret" not in good.found
    for value in ("socks5h://me:secret-pass@127.0.0.1:9", "me:secret-pass@127.0.0.1:9", "127.0.0.1:9"):
        (odd,) = network.proxies({"ALL_PROXY": value})
        assert odd.state == "warning" and "ALL_PROXY" in odd.found and "127.0.0.1:9" in odd.found
        assert "http://HOST:PORT" in odd.advice and "secret" not in str(odd)


def test_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks://127.0.0.1:9")
    assert network.proxies()[0].state == "warning"


def test_the_embedded_model_there_and_not_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path))
    assert network.embedded().advice == "roleagent-lite models pull" and "93 MB" in network.embedded().found
    (line,) = network.endpoint("embedded", None, None, False)
    assert line.state == "ok" and "not fetched yet" in line.found
    monkeypatch.setattr(weights, "is_pulled", lambda name: True)
    assert "in the cache" in network.embedded().found


def test_a_model_file(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + b"0" * 2_000_000)
    (line,) = network.endpoint(f"embedded:{tmp_path}/m.gguf", None, None, False)
    assert line.state == "ok" and "GGUF file of 2 MB" in line.found
    (tmp_path / "m.gguf").write_bytes(b"PK")
    (line,) = network.endpoint(f"embedded:{tmp_path}/m.gguf", None, None, False)
    assert line.state == "problem" and "not a GGUF file" in line.found
    (hub,) = network.endpoint("embedded:hf:owner/name", None, None, False)
    assert hub.state == "ok"


def test_no_model_named_sends_nothing() -> None:
    (line,) = network.endpoint(None, None, None, True)
    assert line.state == "ok" and "--base-url" in line.advice


def good(seen: Seen) -> Answer:
    """Takes everything: the schema kept, the limit kept, the seed decides, logprobs given."""
    body = seen.body
    if "response_format" in body:
        return Say('{"colour": "green"}')
    if body["max_tokens"] == 16:
        return Say("1 2 3", "length")
    raw = {"message": {"role": "assistant", "content": f"hello {body.get('seed')}"}, "finish_reason": "stop"}
    if body.get("logprobs"):
        from tests.fake_server import Raw

        return Raw(200, {"choices": [{**raw, "logprobs": {"content": [{"logprob": -0.1}]}}]})
    return Say(f"hello {body.get('seed')}")


def states(lines: list[Line]) -> dict[str, str]:
    """State by feature; the first line is about reaching the server."""
    return {line.found.partition(":")[0]: line.state for line in lines[1:]}


def test_a_server_that_takes_everything() -> None:
    with FakeServer(good) as fake:
        lines = network.endpoint("fake", fake.url, None, False)  # on this machine: probed at once
        assert fake.count == 7
    assert "answers and lists 1 models" in lines[0].found
    assert states(lines) == dict.fromkeys(
        ("answers", "usage", "temperature", "system role", "seed", "JSON schema", "max tokens", "logprobs"),
        "ok",
    )


def picky(seen: Seen) -> Answer:
    """Refuses what it can, counts nothing."""
    body = seen.body
    for name in ("temperature", "seed", "response_format", "logprobs"):
        if name in body:
            return refuse(name, f"Unsupported parameter: '{name}'")
    if any(m["role"] == "system" for m in body["messages"]):
        return fail(400, "System role not supported")
    return Say("a long reply " * 30, usage=None)


def test_a_server_that_refuses_everything_is_still_fit() -> None:
    with FakeServer(picky) as fake:
        lines = network.endpoint("fake", fake.url, None, False)
    found = states(lines)
    assert found.pop("answers") == "ok" == found.pop("logprobs")
    assert set(found.values()) == {"warning"} and len(found) == 6
    assert all(line.advice for line in lines if line.state == "warning")
    assert "not counted" in next(line.found for line in lines if "usage" in line.found)


def test_a_server_that_ignores_what_it_takes() -> None:
    with FakeServer(lambda seen: Say(f"{seen.number} " * 40)) as fake:
        found = states(network.endpoint("fake", fake.url, None, False))
    assert (found["JSON schema"], found["seed"]) == ("warning", "warning")


def test_a_server_that_is_not_there() -> None:
    (line,) = network.endpoint("m", "http://127.0.0.1:9/v1", None, True)
    assert line.state == "problem" and "127.0.0.1:9" in line.found and line.advice


def test_a_refused_key_is_a_problem_and_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)

    class Closed(FakeServer):
        def _other(self, method: str, path: str) -> object:  # type: ignore[override]
            return fail(401, f"Incorrect API key provided: {KEY}", "invalid_api_key")

    with Closed() as fake:
        (line,) = network.endpoint("m", fake.url, "MY_KEY", True)
        assert fake.count == 0
    assert line.state == "problem" and "MY_KEY" in line.found and KEY not in str(line)
    (unset,) = network.endpoint("m", "http://127.0.0.1:9", "NO_SUCH_KEY", True)
    assert unset.state == "problem" and "NO_SUCH_KEY" in unset.found


def test_a_model_that_the_server_does_not_list() -> None:
    with FakeServer(good, models=("one", "two")) as fake:
        lines = network.endpoint("three", fake.url, None, False)
    assert lines[0].state == "warning" and "'three'" in lines[0].found and "one, two" in lines[0].advice


def test_a_remote_server_is_probed_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "is_loopback", lambda url: False)
    with FakeServer(good) as fake:
        lines = network.endpoint("fake", fake.url, None, False)
        assert fake.count == 0
        assert lines[-1].found.startswith("not probed: that takes 7 calls") and "--probe" in lines[-1].advice
        assert len(network.endpoint("fake", fake.url, None, True)) == 9
        assert fake.count == 7


def test_a_misspelt_provider_is_a_problem() -> None:
    (line,) = network.endpoint("houshold", None, None, False)
    assert line.state == "problem" and "houshold" in line.found


def test_what_a_url_hides_is_not_shown() -> None:
    with FakeServer(good) as fake:
        url = fake.url.replace("http://", "http://me:hunter-2222@") + "/v1?key=topsecretvalue"
        lines = network.endpoint("fake", url, None, False)
    text = json.dumps([line.found + line.advice for line in lines])
    assert "hunter" not in text and "topsecret" not in text and lines[0].state == "ok"
