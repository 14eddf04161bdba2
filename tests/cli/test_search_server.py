"""`search-server` as a user starts it: it says where it serves, answers, and ends with Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from roleagent_lite.cli import search_server
from roleagent_lite.errors import ConfigError
from tests.envs.search.recorded import recorded


def test_served_and_stopped(tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text("".join(json.dumps(p) + "\n" for p in recorded()["passages"]), encoding="utf-8")
    command = [sys.executable, "-m", "roleagent_lite.cli.main", "search-server", str(corpus), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = re.search(r"http://127\.0\.0\.1:\d+/retrieve", server.stdout.readline())
        assert url is not None
        asked = urllib.request.Request(url[0], b'{"query": "Velihaven", "topk": 1, "return_scores": true}')
        with urllib.request.urlopen(asked, timeout=20) as answer:
            found = json.loads(answer.read())
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 130
    assert found["result"][0][0]["document"]["contents"].startswith('"Velihaven"')


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text(json.dumps({"id": "1", "contents": '"T"\nx'}) + "\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="choose another --port"):
            search_server.command(str(corpus), port)


def test_a_file_that_holds_no_passage_is_not_served(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    with pytest.raises(ConfigError, match="holds no passage"):
        search_server.command(str(empty), port=0)
