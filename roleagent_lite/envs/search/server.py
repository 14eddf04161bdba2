"""`search-server`: a corpus behind Search-R1's retrieval API, on this machine only.

POST /retrieve {"queries": [...], "topk": 3, "return_scores": true} (or "query": one text) answers
{"result": [[{"document": {"id", "contents"}, "score"}, ...], ...]}. Binds 127.0.0.1 and nothing else: it
asks for no key. Leaves out the corpus (corpus.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from roleagent_lite.envs.search.corpus import Retriever
from roleagent_lite.errors import RoleAgentError

HOST = "127.0.0.1"
MAX_BODY = 1_000_000  # bytes of a request
MAX_QUERIES = 256
MAX_K = 100


def answer(retriever: Retriever, asked: Any) -> dict[str, Any]:
    """What the API answers to a parsed request. Raises ValueError that says what is wrong with it."""
    if not isinstance(asked, Mapping):
        raise ValueError("the body must be a JSON object")
    queries = asked.get("queries", asked.get("query"))
    queries = [queries] if isinstance(queries, str) else queries
    if not isinstance(queries, list) or not queries or not all(isinstance(q, str) for q in queries):
        raise ValueError("queries must be a list of texts (or query one text)")
    if len(queries) > MAX_QUERIES:
        raise ValueError(f"at most {MAX_QUERIES} queries a request, found {len(queries)}")
    k = asked.get("topk") or 3
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MAX_K:
        raise ValueError(f"topk must be a whole number from 1 to {MAX_K}, found {k!r}")
    scores = bool(asked.get("return_scores", False))
    return {"result": [_hits(retriever, query, k, scores) for query in queries]}


def _hits(retriever: Retriever, query: str, k: int, scores: bool) -> list[Any]:
    documents = [
        ({"id": passage.id, "contents": passage.contents}, score)
        for passage, score in retriever.search(query, k)
    ]
    return [{"document": d, "score": s} for d, s in documents] if scores else [d for d, _ in documents]


def make_server(retriever: Retriever, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1; port 0 takes a free one. Not started: `serve_forever` does."""
    one_at_a_time = Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60  # seconds that a client may stay silent

        def _say(self, status: int, value: Any) -> None:
            body = json.dumps(value, ensure_ascii=False).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._say(200, {"use": 'POST /retrieve {"queries": ["..."], "topk": 3, "return_scores": true}'})

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdigit() or int(length) > MAX_BODY:
                self.close_connection = True
                self._say(413, {"error": f"the body must have a length of at most {MAX_BODY} bytes"})
                return
            body = self.rfile.read(int(length))
            if self.path.rstrip("/") != "/retrieve":
                self._say(404, {"error": f"no {self.path[:80]} here; POST to /retrieve"})
                return
            try:
                with one_at_a_time:  # the index is opened at the first query
                    self._say(200, answer(retriever, json.loads(body)))
            except (ValueError, RecursionError) as error:
                self._say(400, {"error": str(error)})
            except RoleAgentError as error:
                self._say(500, {"error": str(error)})

        def log_message(self, format: str, *arguments: Any) -> None:
            """Silent: a request is no event."""

    return ThreadingHTTPServer((HOST, port), Handler)
