"""`models`: what is here, what a server lists, whether a key works. Never a key on the screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roleagent_lite.cli import models
from roleagent_lite.errors import ConfigError
from tests.cli.make import clear, cli
from tests.fake_server import FakeServer

KEY = "sk-test-abcdefghijklmnop1234"


def test_weights_and_keys_by_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path))
    models.command()
    out = capsys.readouterr().out
    assert "embedded" in out and "not fetched yet" in out and "no provider's key is set" in out
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    models.command(json=True)
    text = capsys.readouterr().out
    found = json.loads(text)
    assert found["keys"] == [{"provider": "openai", "variable": "OPENAI_API_KEY"}] and KEY not in text
    assert "is not used" in found["hint"]


def test_a_server_lists_its_models(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(models=("b", "a")) as fake:
        models.command(base_url=fake.url)
        assert capsys.readouterr().out == "a\nb\n"
        models.command(fake.url, json=True)
        assert json.loads(capsys.readouterr().out) == ["a", "b"]
        models.command(base_url=fake.url, check=True)
        assert "the key works, 2 models" in capsys.readouterr().out
        assert fake.count == 0  # listing buys nothing


def test_unknown_provider_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'openai'"):
        models.command("opneai")


def test_unknown_pull_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'embedded'"):
        models.command("pull", "embeded")


def test_an_unreachable_server_is_one_clear_message(tmp_path: Path) -> None:
    done = cli("models", "http://127.0.0.1:9/v1", cwd=tmp_path, env={"OPENAI_API_KEY": KEY})
    clear(done, 4, "127.0.0.1:9")
    assert KEY not in done.stderr


def test_no_key_is_one_clear_message(tmp_path: Path) -> None:
    clear(cli("models", "anthropic", cwd=tmp_path), 2, "ANTHROPIC_API_KEY")
