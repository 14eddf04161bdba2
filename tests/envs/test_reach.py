"""Whether anything listens here: real sockets, and addresses that are none or lie elsewhere."""

from __future__ import annotations

import socket

import pytest

from roleagent_lite.envs.reach import listens


def test_a_server_here_listens_until_it_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listens(f"http://127.0.0.1:{port}/mcp") and listens(f"http://localhost:{port}")
    assert not listens(f"http://127.0.0.1:{port}/mcp")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:80", "http://127.0.0.1:99999", "http://[::1", "ftp://localhost/"]
)
def test_what_is_no_address_does_not_listen(url: str) -> None:
    assert not listens(url)


def test_of_a_server_elsewhere_nothing_is_said() -> None:
    assert listens("https://appworld.invalid/") and listens("http://192.0.2.1:8000/mcp")  # asks nobody
