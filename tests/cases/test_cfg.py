"""Field cases CFG: parameters, roles, URLs and proxies as users have them, through the whole product."""

from __future__ import annotations

import json
import socket
from itertools import pairwise
from pathlib import Path

import pytest

from roleagent_lite.errors import ConfigError, FatalModelError
from roleagent_lite.types import Observation
from tests.cases import kit
from tests.cases.kit import DIALECTS, KEY, Played, command_line, evaluate, mostly_slow, of_task, won
from tests.cli.make import cli
from tests.fake_server import (
    Answer,
    FakeServer,
    Raw,
    Say,
    Script,
    Seen,
    anthropic_fail,
    fail,
    in_turn,
    page,
    refuse,
)
from tests.toy import Toy

SOLVED = ("solved", "")
UNKNOWN_EXTRA = {
    "detail": [
        {
            "type": "extra_forbidden",
            "loc": ["body", "FIELD"],
            "msg": "Extra inputs are not permitted",
            "input": "temperature seed",
        }
    ]
}


def unless(field: str, refusal: Raw) -> Script:
    """`refusal` while a request holds `field`, good play without it."""
    return lambda seen: refusal if field in seen.body else won(seen)


def extra(field: str) -> Raw:
    """Pydantic's 422, as Mistral's and many small servers send it; it also echoes the input."""
    return Raw(422, json.loads(json.dumps(UNKNOWN_EXTRA).replace("FIELD", field)))


# --- CFG-01 ---

TEMPERATURE: dict[str, tuple[str, Raw]] = {
    "OpenAI": (
        "openai",
        refuse(
            "temperature",
            "Unsupported value: 'temperature' does not support 0 with "
            "this "
            "model. Only the default (1) value is supported.",
        ),
    ),
    "text alone": ("openai", fail(400, "temperature is not supported by this model")),
    "422": ("openai", extra("temperature")),
    "groq": ("groq", refuse("temperature", "'temperature' is not supported with this model")),
    "Anthropic": (
        "anthropic",
        anthropic_fail(
            400, "invalid_request_error", "`temperature` may only be set to 1 when thinking is enabled."
        ),
    ),
    "Anthropic, newer": (
        "anthropic",
        anthropic_fail(400, "invalid_request_error", "`temperature` is deprecated for this model."),
    ),
}


@pytest.mark.parametrize("name", TEMPERATURE)
def test_cfg_01_temperature_is_left_out_once_and_for_all(name: str, tmp_path: Path) -> None:
    dialect, refusal = TEMPERATURE[name]
    with FakeServer(unless("temperature", refusal)) as fake:
        played = evaluate(fake, tmp_path, tasks=3, dialect=dialect)
    assert played.ends == [SOLVED] * 3
    assert fake.count == 7, "six calls and one refusal"
    assert ["temperature" in seen.body for seen in fake.requests] == [True] + [False] * 6
    (note,) = played.notes
    assert "temperature was not applied" in note and "temperature was not applied" in played.report


def test_cfg_01_it_is_resent_at_once_where_many_ask_at_the_same_time(tmp_path: Path) -> None:
    with FakeServer(unless("temperature", TEMPERATURE["OpenAI"][1]), latency=0.02) as fake:
        played = evaluate(fake, tmp_path, tasks=8, workers=8)
    assert played.ends == [SOLVED] * 8 and len(played.notes) == 1
    assert fake.count <= 16 + 8


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "refusal",
    [
        refuse("top_k", "Unsupported value"),
        refuse("messages", "the temperature of the oven in messages[1] is not allowed"),
        extra("messages"),
    ],
    ids=["another field", "about the text", "422 with an echo"],
)
def test_cfg_01_a_400_about_another_field_leaves_temperature(
    refusal: Raw, dialect: str, tmp_path: Path
) -> None:
    with FakeServer(of_task(1, refusal)) as fake:
        played = evaluate(fake, tmp_path, tasks=2, dialect=dialect)
    assert played.ends == [("infrastructure_error", "provider"), SOLVED]
    assert fake.count == 3 and played.notes == []
    assert all("temperature" in seen.body for seen in fake.requests)


OTHERS: dict[str, tuple[str, str, Raw, str]] = {
    "max_tokens": (
        "openai",
        "max_tokens",
        refuse(
            "max_tokens",
            "Unsupported parameter: 'max_tokens' is not "
            "supported with this model. Use 'max_completion_tokens' instead.",
        ),
        "max_completion_tokens",
    ),
    "max_tokens, groq": (
        "groq",
        "max_tokens",
        refuse("max_tokens", "'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
        "max_completion_tokens",
    ),
    "max_tokens, 422": ("openai", "max_tokens", extra("max_tokens"), "max_completion_tokens"),
    "schema": (
        "openai",
        "response_format",
        refuse(
            "response_format",
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        ),
        "schema",
    ),
    "schema, DeepSeek": (
        "openai",
        "response_format",
        fail(400, "This response_format type is unavailable now"),
        "schema",
    ),
    "schema, llama.cpp": ("openai", "response_format", fail(400, "failed to parse grammar"), "schema"),
    "schema, 422": ("openai", "response_format", extra("response_format"), "schema"),
    "schema, 500": (
        "openai",
        "response_format",
        fail(500, "Unsupported JSON schema: guided decoding failed"),
        "schema",
    ),
    "schema, groq": (
        "groq",
        "response_format",
        refuse("response_format", "This model does not support response format `json_schema`."),
        "schema",
    ),
    "schema, Anthropic": (
        "anthropic",
        "output_config",
        anthropic_fail(400, "invalid_request_error", "output_config.format: Extra inputs are not permitted"),
        "schema",
    ),
    "schema, Anthropic's words": (
        "anthropic",
        "output_config",
        anthropic_fail(400, "invalid_request_error", "This model does not support structured outputs."),
        "schema",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_cfg_01_other_fields_are_left_out_in_the_same_way(name: str, tmp_path: Path) -> None:
    dialect, field, refusal, word = OTHERS[name]
    with FakeServer(unless(field, refusal)) as fake:
        played = evaluate(fake, tmp_path, tasks=2, dialect=dialect)
    assert played.ends == [SOLVED] * 2
    assert fake.count == 5 and len(played.notes) == 1 and word in played.notes[0]
    assert all("temperature" in seen.body for seen in fake.requests)


def test_cfg_01_a_server_that_takes_nothing_but_the_messages(tmp_path: Path) -> None:
    def script(seen: Seen) -> Answer:
        for field in ("temperature", "response_format", "max_tokens"):
            if field in seen.body:
                return extra(field)
        if any(m["role"] == "system" for m in seen.body["messages"]):
            return fail(400, "System role not supported")
        return won(seen)

    with FakeServer(script) as fake:
        played = evaluate(fake, tmp_path, tasks=2)
    assert played.ends == [SOLVED] * 2 and fake.count == 4 + 4
    assert len(played.notes) == 4


# --- CFG-03 ---

STRICT = {
    "400": fail(400, "System role not supported"),
    "template": fail(500, "Jinja template error: Conversation roles must alternate user/assistant/user"),
    "mistral.rs": Raw(500, {"message": "conversation roles must alternate user/assistant/..."}),
    "TGI": Raw(422, {"error": "Template error: Conversation roles must alternate user/assistant"}),
    "guidellm": fail(400, "Only user and assistant roles are supported!"),
    "gemma on Gemini": fail(400, "Developer instruction is not enabled for models/gemma-3"),
}


def strict(refusal: Raw, then: Script = won) -> Script:
    """A server that wants user and assistant in turn and nothing else."""

    def script(seen: Seen) -> Answer:
        roles = [m["role"] for m in seen.body["messages"]]
        if (
            set(roles) - {"user", "assistant"}
            or roles[0] != "user"
            or any(a == b for a, b in pairwise(roles))
        ):
            return refusal
        return then(seen)

    return script


@pytest.mark.parametrize("dialect", ["openai", "groq"])
@pytest.mark.parametrize("name", STRICT)
def test_cfg_03_the_system_text_is_folded_into_the_first_turn(
    name: str, dialect: str, tmp_path: Path
) -> None:
    if (name, dialect) == ("mistral.rs", "groq"):
        pytest.skip("DSPy's client drops the words of an error that has no object `error` around it")
    with FakeServer(strict(STRICT[name])) as fake:
        played = evaluate(fake, tmp_path, tasks=2, dialect=dialect)
    assert played.ends == [SOLVED] * 2 and fake.count == 5
    system, user = (m["content"] for m in fake.requests[0].body["messages"])
    (folded,) = fake.requests[1].body["messages"]
    assert folded == {"role": "user", "content": f"{system}\n\n{user}"}
    assert any("folded into the first user turn" in note for note in played.notes)
    assert "folded into the first user turn" in played.report


def test_cfg_03_a_re_ask_alternates_too(tmp_path: Path) -> None:
    def hesitant(seen: Seen) -> Answer:
        return won(seen) if len(seen.body["messages"]) == 3 else Say("Let me think.")

    with FakeServer(strict(STRICT["400"], hesitant)) as fake:
        played = evaluate(fake, tmp_path)
    assert played.ends == [SOLVED]
    assert [m["role"] for m in fake.requests[-1].body["messages"]] == ["user", "assistant", "user"]


# --- CFG-04 ---


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "//v1//", "/v1/chat/completions", " \n"])
def test_cfg_04_any_spelling_of_the_base_url_works(path: str, tmp_path: Path) -> None:
    with FakeServer(won, paths=["/v1/chat/completions"]) as fake:
        played = evaluate(fake, tmp_path, model="fake", limits={"base_url": fake.url + path})
        assert {seen.path for seen in fake.requests} == {"/v1/chat/completions"}
        assert all("/v1/v1" not in seen.path for seen in fake.others)
    assert played.ends == [SOLVED]


@pytest.mark.parametrize("path", mostly_slow(["", "/v1/"]))
def test_cfg_04_on_the_command_line(path: str, tmp_path: Path) -> None:
    with FakeServer(won, paths=["/v1/chat/completions"]) as fake:
        said = command_line(fake, tmp_path, model=("--model", "fake", "--base-url", fake.url + path))
        assert fake.others == []
    assert said.code == 0, said.err
    assert said.played().ends == [SOLVED]


@pytest.mark.parametrize("dialect", ["groq", "anthropic"])
@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_cfg_04_the_same_through_dspy_s_client(path: str, dialect: str, tmp_path: Path) -> None:
    end = "/v1/messages" if dialect == "anthropic" else "/v1/chat/completions"
    with FakeServer(won, paths=[end]) as fake:
        played = evaluate(fake, tmp_path, model=DIALECTS[dialect].format(url=fake.url + path))
        assert {seen.path for seen in fake.requests} == {end} and fake.others == []
    assert played.ends == [SOLVED]


@pytest.mark.parametrize(
    ("prefix", "base"),
    [
        ("/proxy/openai/v1", "/proxy/openai/v1"),
        ("/proxy/openai/v1", "/proxy/openai"),
        ("/openai", "/openai"),
        ("/v1beta/openai", "/v1beta/openai/"),
        ("/api/v3", "/api/v3"),
        ("", ""),
    ],
)
def test_cfg_04_a_prefix_is_kept(prefix: str, base: str, tmp_path: Path) -> None:
    with FakeServer(won, paths=[f"{prefix}/chat/completions"]) as fake:
        played = evaluate(fake, tmp_path, model=f"fake@{fake.url}{base}")
        assert len(fake.others) <= 1 and all("/v1/v1" not in seen.path for seen in fake.others)
    assert played.ends == [SOLVED] and fake.count == 2


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/chat", "/api/generate", "/api/tags"])
def test_cfg_04_ollama_s_own_endpoint_leads_to_the_compatible_one(path: str, tmp_path: Path) -> None:
    with FakeServer(won) as fake:
        played = evaluate(fake, tmp_path, model=f"ollama/fake@{fake.url}{path}")
        assert {seen.path for seen in fake.requests} == {"/v1/chat/completions"}
    assert played.ends == [SOLVED]


def test_cfg_04_nothing_there_names_the_url_and_the_hint(tmp_path: Path) -> None:
    with FakeServer(paths=["/elsewhere"]) as fake:
        said = command_line(fake, tmp_path, model=("--model", "fake", "--base-url", f"{fake.url}/x"))
        said.message(4, f"{fake.url}/x/chat/completions", "/v1")
        assert all("/v1/v1" not in seen.path for seen in fake.others)


def test_cfg_04_a_redirect_is_followed_on_the_same_host_and_else_named(tmp_path: Path) -> None:
    def moved(status: int, to: str) -> Script:
        return lambda seen: Raw(status, "", {"Location": to}) if seen.path.startswith("/old") else won(seen)

    both = ["/old/v1/chat/completions", "/new/v1/chat/completions"]
    for status in (301, 302, 307, 308):
        with FakeServer(moved(status, "/new/v1/chat/completions"), paths=both) as fake:
            played = evaluate(fake, tmp_path, model=f"fake@{fake.url}/old/v1", run=f"r{status}")
        assert played.ends == [SOLVED] and [s.method for s in fake.requests] == ["POST"] * 4
    with (
        FakeServer(won) as other,
        FakeServer(moved(308, f"{other.url}/v1/chat/completions"), paths=both) as fake,
    ):
        said = command_line(
            fake,
            tmp_path,
            model=("--model", "fake", "--base-url", f"{fake.url}/old/v1"),
            env={"OPENAI_API_KEY": KEY},
        )
        said.message(4, "redirect", other.url)
        assert other.count == 0, "the key went to another host"
    circle = Raw(308, "", {"Location": "/old/v1/chat/completions"})
    with FakeServer(lambda seen: circle, paths=both) as fake:
        with pytest.raises(FatalModelError, match="redirect"):
            evaluate(fake, tmp_path, model=f"fake@{fake.url}/old/v1", run="circle")
        assert fake.count <= 5


def test_cfg_04_a_server_on_ipv6(tmp_path: Path) -> None:
    try:
        fake = FakeServer(won, host="::1")
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with fake:
        for n, dialect in enumerate(DIALECTS):
            played = evaluate(fake, tmp_path, dialect=dialect, run=f"r{n}")
            assert played.ends == [SOLVED]
    assert fake.count == 6


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://::1:8000",
        "http://127.0.0.1:port",
        "ftp://host/v1",
        "http://",
        "http:///v1",
        "http://127.0.0.1:99999/v1",
        "http://ho st/v1",
    ],
)
def test_cfg_04_a_url_that_is_none_is_a_setting_that_is_wrong(url: str, tmp_path: Path) -> None:
    with FakeServer() as fake:
        said = command_line(fake, tmp_path, model=("--model", "fake", "--base-url", url))
        said.message(2, "base")
        assert fake.count == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_cfg_04_a_query_in_the_url_is_sent_with_every_request(dialect: str, tmp_path: Path) -> None:
    if dialect != "openai":
        pytest.skip("DSPy's client has no query")
    with FakeServer(won) as fake:
        played = evaluate(fake, tmp_path, model=f"fake@{fake.url}/v1?api-version=2024-10-21&sig=secret-1234")
    assert played.ends == [SOLVED]
    assert {s.path for s in fake.requests} == {"/v1/chat/completions?api-version=2024-10-21&sig=secret-1234"}
    assert "secret-1234" not in kit.everything(tmp_path)


# --- the key ---


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("around", [" {}", "{}\n", "\t{} \r\n"])
def test_cfg_a_key_with_white_space_around_it_works(
    around: str, dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "GROQ_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, around.format(KEY))
    with FakeServer(won) as fake:
        assert evaluate(fake, tmp_path, dialect=dialect).ends == [SOLVED]
    sent = fake.requests[0].headers
    assert sent.get("x-api-key", sent.get("authorization", "")).removeprefix("Bearer ") == KEY


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "key", ["sk-тест-0123456789abcdef", f"{KEY}\n{KEY}", f"“{KEY}”", f"'{KEY}'", "sk-test 0123456789abcdef"]
)
def test_cfg_a_key_that_cannot_be_one_is_said_before_any_request(
    key: str, dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = {"openai": "OPENAI_API_KEY", "groq": "GROQ_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}[dialect]
    monkeypatch.setenv(variable, key)
    with FakeServer(won) as fake:
        with pytest.raises(ConfigError, match=rf"the key in {variable} holds .* at position \d+") as caught:
            evaluate(fake, tmp_path, dialect=dialect)
        assert fake.count == 0
    assert key[3:15] not in str(caught.value) + kit.everything(tmp_path)


# --- CFG-06 ---

PROXIES = ["socks://127.0.0.1:9", "socks5h://127.0.0.1:9", "127.0.0.1:9", "http://127.0.0.1:9"]


@pytest.mark.parametrize("proxy", mostly_slow(PROXIES))
def test_cfg_06_this_machine_is_reached_directly(proxy: str, tmp_path: Path) -> None:
    kit.tasks_file(tmp_path / "t.jsonl")
    environ = dict.fromkeys(("ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY"), proxy)
    with FakeServer(won) as fake:
        words = ("eval", "--tasks", "t.jsonl", "--model", "fake", "--base-url", fake.url, "--run", "run")
        done = cli(*words, cwd=tmp_path, env=environ)
    assert done.returncode == 0, done.stderr
    assert kit.read(tmp_path / "runs" / "run").ends == [SOLVED] and fake.count == 2


@pytest.mark.parametrize("proxy", mostly_slow(PROXIES))
@pytest.mark.parametrize("dialect", mostly_slow(["groq", "anthropic"]))
def test_cfg_06_through_dspy_s_client_too(proxy: str, dialect: str, tmp_path: Path) -> None:
    environ = dict.fromkeys(("ALL_PROXY", "HTTP_PROXY", "http_proxy"), proxy)
    with FakeServer(won) as fake:
        model = ("--model", DIALECTS[dialect].format(url=fake.url))
        said = command_line(fake, tmp_path, model=model, env=environ)
    assert said.code == 0, said.err
    assert fake.count == 2


@pytest.mark.parametrize(
    ("variable", "proxy", "model"),
    [
        ("ALL_PROXY", PROXIES[0], "openai/x"),
        ("ALL_PROXY", PROXIES[1], "anthropic/x"),
        ("HTTPS_PROXY", PROXIES[2], "x@https://host.example/v1"),
        ("https_proxy", PROXIES[0], "anthropic/x"),
    ],
)
def test_cfg_06_where_a_proxy_is_needed_the_variable_is_named(
    variable: str, proxy: str, model: str, tmp_path: Path
) -> None:
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    with FakeServer() as fake:
        said = command_line(fake, tmp_path, model=("--model", model), env={variable: proxy, **keys})
    message = said.message(2, proxy, "http://HOST:PORT")
    assert variable.upper() in message.upper()


def test_cfg_06_a_password_in_the_proxy_is_not_shown(tmp_path: Path) -> None:
    with FakeServer() as fake:
        said = command_line(
            fake,
            tmp_path,
            model=("--model", "x@https://host.example/v1"),
            env={"ALL_PROXY": "socks5://me:pass-word-77@127.0.0.1:9"},
        )
    said.message(2, "ALL_PROXY", "127.0.0.1:9")
    assert "pass-word-77" not in said.err + said.out + kit.everything(tmp_path)


# --- neighbours: what cannot be asked for, and what a server does in silence ---


def cut_prompt(tokens: int) -> Script:
    """A server that counts at most so many tokens of any prompt, as Ollama does with its num_ctx."""

    def script(seen: Seen) -> Answer:
        said = won(seen)
        assert isinstance(said, Say)
        return Say(said.text, usage={"prompt_tokens": tokens, "completion_tokens": 5})

    return script


class Wordy(Toy):
    """Says far more than fits."""

    def observe(self) -> Observation:
        seen = super().observe()
        return Observation(seen.text + " dust" * 12_000, seen.admissible, seen.state_key)


def played_wordy(fake: FakeServer, folder: Path) -> Played:
    return evaluate(fake, folder, world="tests.cases.test_cfg:Wordy", tasks=2)


def test_cfg_a_prompt_that_was_cut_in_silence_is_noted(tmp_path: Path) -> None:
    with FakeServer(cut_prompt(2048)) as fake:
        played = played_wordy(fake, tmp_path / "cut")
    (note,) = played.notes
    assert "2,048" in note and "num_ctx" in note and "cut the prompt" in played.report


def test_cfg_an_honest_count_is_not(tmp_path: Path) -> None:
    with FakeServer(cut_prompt(13_000)) as fake:
        assert played_wordy(fake, tmp_path / "whole").notes == []
    with FakeServer(won) as fake:
        assert evaluate(fake, tmp_path, run="short").notes == []


@pytest.mark.slow
def test_cfg_a_model_that_a_server_does_not_have(tmp_path: Path) -> None:
    missing = {
        "OpenAI": fail(404, "The model `fakee` does not exist", "model_not_found"),
        "Ollama": Raw(
            404,
            {
                "error": {
                    "message": 'model "fakee" not found, try pulling it first',
                    "type": "api_error",
                    "param": None,
                    "code": None,
                }
            },
        ),
        "vLLM": Raw(
            404,
            {
                "object": "error",
                "message": "The model `fakee` does not exist.",
                "code": 404,
                "type": "NotFoundError",
            },
        ),
        "OpenRouter": Raw(400, {"error": {"message": "fakee is not a valid model ID", "code": 400}}),
    }
    for n, answer in enumerate(missing.values()):
        with FakeServer(in_turn(answer), models=["fake", "other"]) as fake:
            said = command_line(
                fake, tmp_path, model=("--model", "fakee", "--base-url", fake.url), tasks=9, run=f"r{n}"
            )
            said.message(4, "no such model", "did you mean 'fake'")
            assert fake.count <= 8


def test_cfg_anthropic_s_missing_model(tmp_path: Path) -> None:
    with FakeServer(lambda seen: anthropic_fail(404, "not_found_error", "model: claude-x")) as fake:
        said = command_line(fake, tmp_path, model=("--model", f"anthropic/claude-x@{fake.url}"), tasks=9)
        said.message(4, "claude-x", "no such model")
        assert fake.count <= 8


def test_cfg_a_404_page_of_a_proxy(tmp_path: Path) -> None:
    missing = page(404, "404 Not Found")
    with (
        FakeServer(in_turn(missing)) as fake,
        pytest.raises(FatalModelError, match="nothing answers at"),
    ):
        evaluate(fake, tmp_path)


def test_cfg_a_user_in_the_url_and_a_key_are_not_both_sent(tmp_path: Path) -> None:
    with FakeServer(won) as fake:
        url = fake.url.replace("//", "//me:pass-word-88@")
        with pytest.raises(ConfigError, match="only one of them can be sent"):
            evaluate(fake, tmp_path, model=f"fake@{url}", limits={"api_key_env": "PATH"})
