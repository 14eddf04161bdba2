"""Vectors from an OpenAI-compatible endpoint: order, batches, errors as ours."""

from __future__ import annotations

from typing import Any

import pytest

from roleagent_lite.errors import ConfigError, FatalModelError, TransientModelError
from roleagent_lite.lm.embeddings import BATCH, embed
from tests.fake_server import FakeServer, Raw, Seen, fail

PATH = "/v1/embeddings"


def vectors(seen: Seen) -> Raw:
    """One vector a text: its length and 1; listed backwards, as a server may."""
    rows: list[Any] = [
        {"object": "embedding", "index": i, "embedding": [float(len(text)), 1.0]}
        for i, text in enumerate(seen.body["input"])
    ]
    return Raw(
        200,
        {
            "object": "list",
            "model": "m",
            "data": rows[::-1],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        },
    )


def test_vectors_come_in_the_order_of_the_texts_and_in_batches() -> None:
    texts = ["x" * (i % 7 + 1) for i in range(BATCH + 3)]
    with FakeServer(vectors, paths=(PATH,)) as server:
        got = embed(f"small@{server.url}", texts, environ={"OPENAI_API_KEY": "sk-test-0123456789abcdef"})
        assert server.count == 2
        assert server.requests[0].body["model"] == "small"
    assert got == [[float(len(t)), 1.0] for t in texts]


def test_no_text_is_no_request() -> None:
    with FakeServer(vectors, paths=(PATH,)) as server:
        assert embed(f"small@{server.url}", []) == []
        assert server.count == 0


def test_errors_are_ours_and_nothing_is_tried_again() -> None:
    with FakeServer(lambda seen: fail(401, "bad key"), paths=(PATH,)) as server:
        with pytest.raises(FatalModelError, match="key"):
            embed(f"small@{server.url}", ["a"])
        assert server.count == 1
    with FakeServer(lambda seen: fail(503, "busy"), paths=(PATH,)) as server:
        with pytest.raises(TransientModelError):
            embed(f"small@{server.url}", ["a"])
        assert server.count == 1
    with pytest.raises(FatalModelError, match=r"127\.0\.0\.1:9"):
        embed("small@http://127.0.0.1:9", ["a"])


def test_a_text_without_vector_is_an_error() -> None:
    def one_short(seen: Seen) -> Raw:
        raw = vectors(seen)
        return Raw(200, {**raw.body, "data": raw.body["data"][1:]})

    with (
        FakeServer(one_short, paths=(PATH,)) as server,
        pytest.raises(FatalModelError, match="1 vectors for 2"),
    ):
        embed(f"small@{server.url}", ["a", "b"])


def test_a_provider_without_the_endpoint_is_refused() -> None:
    with pytest.raises(ConfigError, match="NAME@URL"):
        embed("anthropic/claude-x", ["a"], environ={"ANTHROPIC_API_KEY": "sk-ant-0123456789abcdefghij"})
