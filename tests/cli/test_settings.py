"""Flags become settings: the later wins, nothing not given is said, a wrong name is named."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roleagent_lite import redact
from roleagent_lite.cli.main import app
from roleagent_lite.cli.settings import _PLACES, FLAGS, nested, parse_sets, resolve, taking, with_adapter
from roleagent_lite.config import RunConfig
from roleagent_lite.errors import ConfigError
from roleagent_lite.session import settings as settings_of


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


# --- flags that commands share ---


def test_an_adapter_stands_beside_the_agents_model_alone(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"GGUF\x03\x00\x00\x00")
    config = resolve(None, None, {"adapter": tmp_path / "a.gguf"})
    assert (
        config.model_for("agent") == f"embedded+{tmp_path}/a.gguf" and config.model_for("world") == "embedded"
    )
    assert config.model_dump(exclude_unset=True) == {"models": {"agent": f"embedded+{tmp_path}/a.gguf"}}
    other = with_adapter(config, tmp_path / "b.gguf")
    assert other.model_for("agent") == f"embedded+{tmp_path}/b.gguf"
    assert with_adapter(config, None) is config
    assert settings_of(config).prompts == settings_of(None).prompts == "embedded"
    with pytest.raises(
        ConfigError, match="the agent's is 'openai/x'; a served model loads its adapter itself"
    ):
        resolve(None, None, {"adapter": tmp_path / "a.gguf", "model": "openai/x"})


def help_of(name: str) -> str:
    done = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "400"})
    assert done.exit_code == 0
    return " ".join(done.output.split())  # whatever the width


@pytest.mark.parametrize("name", ["evolve", "eval"])
def test_help_names_the_defaults_that_hold(name: str) -> None:
    text, config = help_of(name), RunConfig()
    small = settings_of({"model": "embedded"})
    for flag, default in {
        "--model": config.model, "--tasks": config.tasks, "--agent": config.agent, "--seed": config.seed,
        "--prompts": f"{config.prompts}, {small.prompts} for the embedded model",
        "--workers": f"{config.workers}, {small.workers} for the embedded model",
    }.items():  # fmt: skip
        said = text.partition(f" {flag} <")[2].partition("]")[0]
        assert said.endswith(f"[default: ({default})"), flag
    assert (config.budget.max_usd, config.budget.max_calls, config.limits.rpm, config.limits.tpm) == (
        None,
    ) * 4
    assert text.count("[default: (no cap)]") == 2 and text.count("[default: (no limit)]") >= 2


def test_evolve_names_its_rounds() -> None:
    rounds = (RunConfig().evolve.rounds, settings_of({"model": "embedded"}).evolve.rounds)
    assert f"[default: ({rounds[0]}, {rounds[1]} for the embedded model)]" in help_of("evolve")


def test_every_shared_flag_has_its_place_and_reaches_its_command() -> None:
    assert set(FLAGS) <= {*_PLACES, "env", "adapter"}
    heard: dict[str, Any] = {}

    @taking("env", "agent_model")
    def command(name: str = "x", *, flags: dict[str, Any], last: bool = False) -> None:
        heard.update(flags, name=name, last=last)

    names = list(inspect.signature(command).parameters)
    assert names[0] == "name" and names[-1] == "last" and "env" not in names and "seed" in names
    command(name="y", seed=3)
    assert (heard["name"], heard["seed"], heard["model"], heard["last"]) == ("y", 3, None, False)
    assert "agent_model" not in heard
