"""Flags become settings: the later wins, nothing not given is said, a wrong name is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite import redact
from roleagent_lite.cli.settings import nested, parse_sets, resolve
from roleagent_lite.errors import ConfigError


def test_sets_are_read_as_toml_where_they_are() -> None:
    pairs = [
        "wia.gamma=0.9",
        "limits.replay=true",
        "model=openai/x",
        'tasks="a b"',
        "evolve.components=['a','b']",
    ]
    assert parse_sets(pairs) == {
        "wia": {"gamma": 0.9},
        "limits": {"replay": True},
        "model": "openai/x",
        "tasks": "a b",
        "evolve": {"components": ["a", "b"]},
    }
    assert parse_sets(["budget.price=1/2", "model=a=b"]) == {"budget": {"price": "1/2"}, "model": "a=b"}


@pytest.mark.parametrize("pair", ["gamma", "=1", "wia.=1", ".x=1"])
def test_a_pair_without_key_or_value_is_refused(pair: str) -> None:
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        parse_sets([pair])


def test_a_value_where_a_table_stands_is_refused() -> None:
    with pytest.raises(ConfigError, match="plain value before"):
        parse_sets(["wia=1", "wia.gamma=0.9"])


def test_only_flags_that_were_given_count() -> None:
    assert nested({"model": None, "rounds": 0, "agent_model": "a", "max_usd": 1.5, "rpm": None}) == {
        "evolve": {"rounds": 0},
        "models": {"agent": "a"},
        "budget": {"max_usd": 1.5},
    }
    with pytest.raises(KeyError):
        nested({"unheard": 1})


def test_file_then_set_then_flag(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('model = "openai/file"\nseed = 3\n[wia]\ngamma = 0.5\nalpha = 2.0\n')
    config = resolve(file, ["wia.gamma=0.6", "seed=4"], {"model": "openai/flag"})
    assert (config.model, config.seed, config.wia.gamma, config.wia.alpha) == ("openai/flag", 4, 0.6, 2.0)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["wia.gama=1"], "unknown setting 'wia.gama'; did you mean 'gamma'"),
        (["modle=x"], "did you mean 'model'"),
        (["workers=0"], "'workers' is 0"),
        (["seed.x=1"], "setting 'seed'"),
    ],
)
def test_a_wrong_setting_is_named(sets: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        resolve(None, sets, {})


def test_acc_07_a_key_inside_a_url_is_remembered() -> None:
    resolve(None, None, {"base_url": "http://me:pass-word-77@127.0.0.1:1/v1", "model": "m"})
    assert redact.scrub("see pass-word-77") == "see [key]"
    redact._secrets.discard("pass-word-77")
