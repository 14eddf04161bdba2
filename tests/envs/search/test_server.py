"""The retrieval server: its API, its limits, and that it listens on this machine only."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from roleagent_lite.envs.search.protocol import Passage
from roleagent_lite.envs.search.server import answer, make_server
from roleagent_lite.errors import RoleAgentError


class Two:
    """Finds the same two passages for any query but `fail`."""

    def search(self, query: str, k: int) -> list[tuple[Passage, float]]:
        if query == "fail":
            raise RoleAgentError("the index is gone")
        return [(Passage("1", '"A"\nça'), 2.0), (Passage("2", '"B"\nb'), 1.0)][:k]


@pytest.fixture
def port() -> Iterator[int]:
    with make_server(Two()) as server:
        assert server.server_address[0] == "127.0.0.1"
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def post(port: int, body: bytes, path: str = "/retrieve", **headers: str) -> tuple[int, Any]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    link.request("POST", path, body, headers)
    said = link.getresponse()
    found = said.status, json.loads(said.read())
    link.close()
    return found


def test_both_keys_and_scores(port: int) -> None:
    hit = {"document": {"id": "1", "contents": '"A"\nça'}, "score": 2.0}
    assert post(port, json.dumps({"query": "x", "topk": 1, "return_scores": True}).encode()) == (
        200, {"result": [[hit]]},
    )  # fmt: skip
    status, found = post(port, json.dumps({"queries": ["x", "y"], "topk": 2, "return_scores": True}).encode())
    assert (status, [len(hits) for hits in found["result"]]) == (200, [2, 2])
    plain = answer(Two(), {"queries": ["x"]})
    assert plain["result"][0][0] == {"id": "1", "contents": '"A"\nça'}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "Expecting"),
        (b"[]", 400, "must be a JSON object"),
        (b"{}", 400, "queries must be a list of texts"),
        (b'{"queries": [1]}', 400, "queries must be a list of texts"),
        (b'{"query": "x", "topk": 0.5}', 400, "topk must be a whole number"),
        (b'{"query": "x", "topk": 1000}', 400, "topk must be a whole number"),
        (json.dumps({"queries": ["x"] * 300}).encode(), 400, "at most 256 queries"),
        (b'{"query": "fail"}', 500, "the index is gone"),
        (b"[" * 100_000, 400, ""),
    ],
)
def test_what_is_wrong_is_said(port: int, body: bytes, status: int, said: str) -> None:
    found, answered = post(port, body)
    assert found == status
    assert said in answered["error"]


def test_other_paths_and_large_bodies(port: int) -> None:
    assert post(port, b"{}", "/other")[0] == 404
    assert post(port, b"", **{"Content-Length": "9999999999"})[0] == 413
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    link.request("GET", "/")
    assert "POST /retrieve" in link.getresponse().read().decode()
    link.close()
