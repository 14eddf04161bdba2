"""Keys are found and named, never used unasked; models are listed through the SDKs without retries."""

from __future__ import annotations

import pytest

from roleagent_lite.config import Limits
from roleagent_lite.errors import ConfigError, FatalModelError, TransientModelError
from roleagent_lite.lm.catalog import check_key, found_keys, key_line, list_models
from tests.fake_server import FakeServer, Raw, Seen

KEY = "sk-secret-0123456789WXYZ"
ENV = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "PATH": "/bin", "GROQ_API_KEY": " "}


def test_found_keys_are_named_without_their_values() -> None:
    assert found_keys(ENV) == [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")]
    line = key_line(ENV)
    assert line is not None
    assert line.startswith(
        "OPENAI_API_KEY is set (also ANTHROPIC_API_KEY) but is not used: --model openai/NAME"
    )
    assert "\n" not in line and "secret" not in line
    assert key_line({}) is None


def test_models_of_an_openai_compatible_server() -> None:
    with FakeServer(models=["b", "a"]) as fake:
        assert list_models(fake.url, environ=ENV) == ["a", "b"]
        assert list_models("openai", Limits(base_url=fake.url + "/v1/"), ENV) == ["a", "b"]
        assert list_models("ollama", environ={"OLLAMA_HOST": fake.url}) == ["a", "b"]
        assert check_key("openai", Limits(base_url=fake.url), ENV) == "openai: the key works, 2 models"
    assert {s.headers["authorization"] for s in fake.others} == {f"Bearer {KEY}", "Bearer none"}
    assert fake.count == 0


def test_a_server_without_version_in_its_path() -> None:
    with FakeServer(paths=["/chat/completions"], models=["a"]) as fake:
        assert list_models(fake.url, environ={}) == ["a"]
    assert [s.path for s in fake.others] == ["/v1/models", "/models"]


class Anthropic(FakeServer):
    def _other(self, method: str, path: str) -> Raw:
        row = {"type": "model", "id": "claude-x", "display_name": "X", "created_at": "2026-01-01T00:00:00Z"}
        return Raw(200, {"data": [row], "has_more": False, "first_id": "claude-x", "last_id": "claude-x"})


def test_models_of_anthropic() -> None:
    with Anthropic() as fake:
        assert list_models("anthropic", Limits(base_url=fake.url), ENV) == ["claude-x"]
    seen: Seen = fake.others[0]
    assert seen.path.startswith("/v1/models")
    assert KEY in (
        seen.headers.get("x-api-key"),
        seen.headers.get("authorization", "").removeprefix("Bearer "),
    )


class Refusing(FakeServer):
    status = 401

    def _other(self, method: str, path: str) -> Raw:
        return Raw(self.status, {"error": {"message": f"bad key {KEY}", "type": "x"}})


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_refused_key_is_one_request_and_one_clear_error(provider: str) -> None:
    with Refusing() as fake:
        with pytest.raises(
            FatalModelError, match=r"refused access .* the key from \w+_API_KEY \(…WXYZ\)"
        ) as caught:
            check_key(provider, Limits(base_url=fake.url), ENV)
        assert KEY not in str(caught.value)
        assert len(fake.others) == 1
        fake.status = 503
        with pytest.raises(TransientModelError):
            check_key(provider, Limits(base_url=fake.url), ENV)
        assert len(fake.others) == 2


def test_a_server_that_is_not_there_or_lists_nothing() -> None:
    with FakeServer() as fake:
        pass
    with pytest.raises(FatalModelError, match=r"cannot reach http://127.0.0.1:\d+/v1"):
        list_models(fake.url, environ={})

    class Odd(FakeServer):
        def _other(self, method: str, path: str) -> Raw:
            return Raw(200, "<html>hello</html>", kind="text/html")

    with Odd() as odd, pytest.raises(FatalModelError, match="does not list models"):
        list_models(odd.url, environ={})


def test_mistakes_are_named_before_any_request() -> None:
    with pytest.raises(ConfigError, match=r"no provider 'opnai' here; did you mean 'openai'\?"):
        list_models("opnai", environ=ENV)
    with pytest.raises(ConfigError, match=r"no key for model '\w+/\*'"):
        list_models("groq", environ={})


def test_cfg_06_a_bad_proxy_does_not_stand_in_the_way_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks://127.0.0.1:9")
    with FakeServer(models=["a"]) as fake:
        assert list_models(fake.url) == ["a"]
    with pytest.raises(ConfigError, match="ALL_PROXY"):
        list_models("https://host.example/v1")
