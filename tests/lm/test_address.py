"""Model strings lead to the right transport, server and key; mistakes are named before anything is sent."""

from __future__ import annotations

import base64

import pytest

from roleagent_lite import redact
from roleagent_lite.config import Limits
from roleagent_lite.errors import ConfigError
from roleagent_lite.lm.address import candidates, credentials, endpoint, is_loopback, parse, proxy_for, shown

KEY = "sk-test-0123456789abcdefWXYZ"
LOCAL = "http://127.0.0.1:8000"


def test_embedded_needs_no_key_even_when_one_is_there() -> None:
    for spec in ("embedded", "embedded:/models/x.gguf"):
        address = parse(spec, Limits(), {"OPENAI_API_KEY": KEY})
        assert (address.kind, address.model, address.key, address.base_url) == ("embedded", spec, None, None)


def test_a_provider_string_finds_its_key_and_says_where() -> None:
    address = parse("anthropic/claude-x", Limits(), {"ANTHROPIC_API_KEY": KEY})
    assert (address.kind, address.provider, address.model) == ("provider", "anthropic", "anthropic/claude-x")
    assert address.key == KEY
    assert address.key_words == "the key from ANTHROPIC_API_KEY (…WXYZ)"
    assert KEY not in repr(address)
    assert redact.scrub(f"Bearer {KEY}") == "Bearer [key]"


def test_a_bare_well_known_name_finds_its_provider() -> None:
    assert parse("gpt-4o-mini", Limits(), {"OPENAI_API_KEY": KEY}).model == "openai/gpt-4o-mini"
    assert parse("claude-x", Limits(), {"ANTHROPIC_API_KEY": KEY}).provider == "anthropic"


@pytest.mark.parametrize(
    "key", ["sk-тест-0123456789", "two\nlines-0123456", "'quoted-0123456'", "a b-0123456"]
)
def test_a_key_that_no_header_carries_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(
        ConfigError, match=r"the key in OPENAI_API_KEY holds .* at position \d+ of \d+"
    ) as caught:
        parse("openai/gpt-4o", Limits(), {"OPENAI_API_KEY": key})
    assert "0123456" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("0.0.0.0", "http://0.0.0.0:11434/v1"),
        ("10.0.0.7:8000", "http://10.0.0.7:8000/v1"),
        ("box.example/", "http://box.example:11434/v1"),
        ("http://box.example", "http://box.example/v1"),
        ("http://127.0.0.1:11434/api", "http://127.0.0.1:11434/api"),
        ("http://127.0.0.1:11434/api/chat", "http://127.0.0.1:11434/v1"),
    ],
)
def test_cfg_04_ollama_s_variable_is_read_as_ollama_reads_it(host: str, base: str) -> None:
    assert parse("ollama/x", Limits(), {"OLLAMA_HOST": host}).base_url == base


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://::1:8000", "http://h:port", "ftp://h", "http://h st/v1"]
)
def test_cfg_04_what_is_no_url_is_said_without_its_password(url: str) -> None:
    for bad in (url, url.replace("://", "://me:pass-word-99@")):
        with pytest.raises(ConfigError, match="is not http:// or https:// with a host") as caught:
            candidates(bad)
        assert "pass-word-99" not in str(caught.value)


def test_cfg_04_what_dspy_s_client_cannot_send_is_said() -> None:
    for url in ("http://me:pass-word-98@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?key=pass-word-98"):
        with pytest.raises(ConfigError, match="cannot hold a user name or a query") as caught:
            parse(f"groq/x@{url}", Limits(), {})
        assert "pass-word-98" not in str(caught.value)
        assert parse(f"x@{url}", Limits(), {}).kind == "http"


def test_net_07_no_key_at_all_is_an_error_before_any_request() -> None:
    with pytest.raises(ConfigError, match=r"no key for model 'openai/gpt-4o': set OPENAI_API_KEY"):
        parse("openai/gpt-4o", Limits(), {})


def test_a_named_key_variable_wins_and_must_be_set() -> None:
    limits = Limits(api_key_env="MY_KEY")
    address = parse("openai/gpt-4o", limits, {"MY_KEY": KEY, "OPENAI_API_KEY": "other-key-value"})
    assert address.key == KEY
    assert "limits.api_key_env" in address.key_from
    with pytest.raises(ConfigError, match="MY_KEY, but that variable is not set"):
        parse("openai/gpt-4o", limits, {"OPENAI_API_KEY": KEY})


@pytest.mark.parametrize("spec", ["fake", "openai/fake", "hosted_vllm/fake", "ollama/fake"])
def test_a_base_url_takes_any_plain_name(spec: str) -> None:
    address = parse(spec, Limits(base_url=LOCAL), {})
    assert (address.kind, address.model, address.base_url) == ("http", "fake", LOCAL + "/v1")
    assert address.key is None


def test_a_slash_in_a_server_s_own_name_is_kept() -> None:
    assert parse("meta-llama/Llama-3", Limits(base_url=LOCAL), {}).model == "meta-llama/Llama-3"


def test_another_provider_is_not_sent_to_the_base_url() -> None:
    address = parse("anthropic/claude-x", Limits(base_url=LOCAL), {"ANTHROPIC_API_KEY": KEY})
    assert (address.kind, address.base_url) == ("provider", None)


def test_a_name_at_a_url_is_a_server_of_its_own() -> None:
    address = parse("meta/x@https://host.example/v1", Limits(base_url=LOCAL), {})
    assert (address.kind, address.model, address.base_url) == ("http", "meta/x", "https://host.example/v1")
    own = parse("anthropic/claude-x@http://127.0.0.1:9", Limits(), {})
    assert (own.kind, own.base_url, own.key) == ("provider", "http://127.0.0.1:9/v1", None)


def test_local_servers_have_default_places_and_variables_that_move_them() -> None:
    assert parse("ollama/llama3", Limits(), {}).base_url == "http://127.0.0.1:11434/v1"
    moved = parse("ollama/llama3", Limits(), {"OLLAMA_HOST": "box:11434"})
    assert moved.base_url == "http://box:11434/v1"
    assert parse("openai/x", Limits(), {"OPENAI_BASE_URL": LOCAL}).kind == "http"


def test_an_unknown_string_says_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"'embeded' names no provider.*did you mean 'embedded'"):
        parse("embeded", Limits(), {})


@pytest.mark.parametrize(
    ("url", "bases"),
    [
        (LOCAL, [LOCAL + "/v1", LOCAL]),
        (LOCAL + "/", [LOCAL + "/v1", LOCAL]),
        (LOCAL + "/v1", [LOCAL + "/v1"]),
        (LOCAL + "/v1/", [LOCAL + "/v1"]),
        (LOCAL + "//v1//", [LOCAL + "/v1"]),
        (LOCAL + "/v1/chat/completions", [LOCAL + "/v1"]),
        (LOCAL + "/proxy/openai/v1", [LOCAL + "/proxy/openai/v1"]),
        (LOCAL + "/proxy", [LOCAL + "/proxy", LOCAL + "/proxy/v1"]),
        ("127.0.0.1:8000", [LOCAL + "/v1", LOCAL]),
        (LOCAL + "/v1beta?key=abcdefgh", [LOCAL + "/v1beta?key=abcdefgh"]),
    ],
)
def test_cfg_04_base_urls_with_and_without_version(url: str, bases: list[str]) -> None:
    assert list(candidates(url)) == bases


def test_a_url_that_is_none_is_refused() -> None:
    for url in ("ftp://x", "http://", "https:///v1"):
        with pytest.raises(ConfigError, match="not http:// or https:// with a host"):
            candidates(url)


def test_acc_07_secrets_inside_a_url_are_used_but_never_shown() -> None:
    address = parse(
        "fake", Limits(base_url="http://me:pass-word-1@127.0.0.1:8000/v1?api_key=querysecret1"), {}
    )
    assert address.base_url == "http://127.0.0.1:8000/v1"
    assert endpoint(address.bases[0], "/models") == (
        "http://me:pass-word-1@127.0.0.1:8000/v1/models?api_key=querysecret1"
    )
    assert redact.scrub("pass-word-1 querysecret1") == "[key] [key]"
    assert "secret" not in repr(address)
    assert shown("https://u:p@h/x?y=z#f") == "https://h/x"


def test_a_user_in_the_url_goes_before_a_key_that_lies_about() -> None:
    limits = Limits(base_url="http://me:pass-word-1@127.0.0.1:8000/v1")
    address = parse("fake", limits, {"OPENAI_API_KEY": "sk-0123456789abcdef"})
    assert address.key is None and address.key_words == "user and password came from the URL"
    named = limits.model_copy(update={"api_key_env": "MY_KEY"})
    with pytest.raises(
        ConfigError, match=r"the URL http://127\.0\.0\.1:8000/v1 holds a user name.*leave one out"
    ):
        parse("fake", named, {"MY_KEY": "sk-0123456789abcdef"})


def test_loopback() -> None:
    yes = (
        "http://127.0.0.1:1",
        "http://localhost",
        "http://[::1]:80",
        "http://0.0.0.0:1",
        "http://a.localhost",
    )
    assert [is_loopback(u) for u in yes] == [True] * 5
    assert not is_loopback("http://10.0.0.1") and not is_loopback("https://127.example.com")


@pytest.mark.parametrize("proxy", ["socks://127.0.0.1:9", "socks5h://127.0.0.1:9", "127.0.0.1:9"])
def test_cfg_06_bad_proxies_matter_only_where_one_is_needed(proxy: str) -> None:
    env = {"ALL_PROXY": proxy}
    assert proxy_for("http://127.0.0.1:8000", env) is None
    with pytest.raises(ConfigError, match=r"ALL_PROXY is .* cannot be used to reach host\.example"):
        proxy_for("https://host.example/v1", env)
    assert proxy_for("https://host.example/v1", env | {"NO_PROXY": "a,.example"}) is None


def test_http_proxies_are_used_by_scheme() -> None:
    env = {"https_proxy": "http://user:proxypass1@p:3128", "NO_PROXY": "other"}
    assert proxy_for("https://host.example/v1", env) == "http://user:proxypass1@p:3128"
    assert proxy_for("http://host.example/v1", env) is None
    assert proxy_for("https://host.example", env | {"NO_PROXY": "*"}) is None
    assert redact.scrub("proxypass1") == "[key]"


def test_cfg_06_a_provider_s_own_host_may_be_exempt() -> None:
    env = {"OPENAI_API_KEY": KEY, "ALL_PROXY": "socks5h://127.0.0.1:9"}
    with pytest.raises(ConfigError, match=r"ALL_PROXY .* cannot be used to reach api\.openai\.com"):
        parse("openai/gpt-4o", Limits(), env)
    assert parse("openai/gpt-4o", Limits(), env | {"NO_PROXY": "openai.com"}).proxy is None


@pytest.mark.parametrize(
    ("url", "bare", "both"),
    [
        ("http://me:p%C3%A4ss%F0%9F%94%91@h:1/v1?x=1", "http://h:1/v1?x=1", "me:päss🔑"),
        ("https://token@h/v1", "https://h/v1", "token:"),
        ("http://a%40b:c%3Ad%2F@[::1]:8/", "http://[::1]:8/", "a@b:c:d/"),
    ],
)
def test_credentials_of_any_letters_become_a_header(url: str, bare: str, both: str) -> None:
    found, header = credentials(url)
    assert found == bare
    assert base64.b64decode(header["Authorization"].removeprefix("Basic ")).decode() == both


def test_no_credentials_no_header() -> None:
    assert credentials("http://h/v1?key=x@y") == ("http://h/v1?key=x@y", {})


def test_a_password_that_was_taken_out_is_asked_for() -> None:
    for url in ("http://me:[key]@h:1/v1", "http://h:1/v1?api_key=[key]&x=1"):
        with pytest.raises(ConfigError, match=r"'http://h:1/v1' stands .* without its password.*--base-url"):
            candidates(url)
    assert shown("http://me:[key]@h:1/v1") == "http://h:1/v1"
