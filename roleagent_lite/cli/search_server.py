"""`roleagent-lite search-server`: a corpus behind Search-R1's retrieval API, on 127.0.0.1."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

Corpus = Annotated[
    str | None,
    typer.Argument(metavar="[FILE]", help="JSON lines or parquet of id and contents; none: made up."),
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.", show_default=True)]
How = Annotated[str, typer.Option("--retrieval", help="text, vector or hybrid.", show_default=True)]
Embedder = Annotated[str, typer.Option("--embedder", help="For vector and hybrid.", show_default=True)]


def command(
    corpus: Corpus = None, port: Port = 8000, retrieval: How = "text", embedder: Embedder = "auto"
) -> None:
    """Serve a corpus to any Search-R1 client: POST /retrieve. Ends with Ctrl-C."""
    from roleagent_lite.envs.search.env import PREFIX, ready, retriever
    from roleagent_lite.envs.search.server import HOST, make_server
    from roleagent_lite.errors import ConfigError

    name = f"{PREFIX}{corpus}" if corpus else "search"
    ready(name)
    found = retriever(name, retrieval, embedder)
    print("building or opening the index ...", file=sys.stderr, flush=True)
    found.search("index", 1)
    try:
        server = make_server(found, port)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {HOST}:{port}: {error.strerror}; choose another --port"
        ) from None
    with server:
        print(
            f"serving {corpus or 'the made-up corpus'} at http://{HOST}:{server.server_port}/retrieve",
            flush=True,
        )
        server.serve_forever()
